"""The report's last table: every row of the collected file, to sort and to filter."""
import numpy as np

from plots.lib import words
from plots.report import page

# More rows make a page that browsers open slowly; the rest is in the collected file.
MOST_ROWS = 10_000

HEADER = [
    "link", "traffic", "method", "speed-up", "error", "vNMSE", "cosine", "slope bias", "w* (Gbit/s)", "ratio", "total (ms)", "baseline (ms)",
    "encode (ms)", "transfer (ms)", "decode (ms)", "sent (MB)", "layout", "shape", "tensor", "codec", "protocol", "status",
    "program", "cell",
]
NUMERIC = tuple(range(3, 16))


def section(collected):
    """HTML of the whole table, folded; an explanation where there is nothing."""
    cells = collected.all_cells
    if not len(cells):
        return '<p class="gap">No data because the collected file has no rows in /cells.</p>\n'
    rows = [_row(row) for row in cells.take(np.arange(min(len(cells), MOST_ROWS))).rows()]
    note = (
        "One row per cell and traffic class, as in table /cells of the collected file. The filter above applies to every table with such"
        " a column; a click on a column's name sorts by it. The address of the page keeps both: copy it to share a view."
    )
    left = f" The first {MOST_ROWS:,} of {len(cells):,} rows; the rest is in the collected file." if len(cells) > MOST_ROWS else ""
    return (
        f"<p>{page.text(note + left)}</p><details><summary>{len(rows):,} rows</summary>\n"
        + page.table("", HEADER, rows, numeric=NUMERIC)
        + "</details>\n"
    )


def _row(row):
    milliseconds = lambda name: _number(row[name] / 1e3)
    return [
        row["link"] or "none",
        row["traffic"] or "no class",
        row["method"],
        _number(row["speedup"]),
        _number(row["relative_l2"]),
        _number(row["vnmse"]),
        _number(row["cosine"]),
        _number(row["slope_bias"]),
        _number(row["break_even_gbps"]),
        _number(row["ratio"]),
        milliseconds("total_us"),
        milliseconds("baseline_us"),
        milliseconds("encode_us"),
        milliseconds("transfer_us"),
        milliseconds("decode_us"),
        _number(row["link_bytes"] / 1e6) if row["link_bytes"] else "n/a",
        f"{row['tp']}×{row['pp']}×{row['dp']}",
        f"{row['batch']}×{row['seq']}×{row['hidden']}",
        row["tensor"],
        row["codec"],
        row["protocol"],
        row["status"],
        row["program"],
        row["cell_id"][:10],
    ]


def _number(value):
    return words.number(float(value), 3)
