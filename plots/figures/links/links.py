"""What the links really carried in calibration, against their nominal rate."""
import numpy as np

from plots.lib import data, style, words
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("link", "direction", "bytes", "ranks", "nominal_gbps", "measured_gbps", "quotient", "trusted")
MARKERS = {"one_way": "o", "both_ways": "D"}
TOLERANCE = 0.15


@Figure(
    title="Link calibration: measured against nominal rate",
    order=100,
    reads=Source.BENCHES,
    under=Heading.MODELS,
    how_to_read=(
        "Each point is one calibration with the message size of a cell, after an idle gap and an emptied"
        " token bucket. Left: the rate; dashed lines are nominal rates. Right: measured / nominal with"
        " the accepted band of ±15 %; a cross marks a calibration outside it, whose rows are MISTRUSTED."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    drawing.tables = _collectives(collected.cells.where(traffic="control"))
    table = collected.links
    table = (
        table.where(np.isfinite(table["measured_gbps"]) & (table["measured_gbps"] > 0))
        if len(table)
        else table
    )
    if not len(table):
        return drawing.without_data(
            "no data because the collected file has no calibration in /links: only shared memory was"
            " measured, or the links were not permitted."
        )
    drawing.rows = [
        _row(rows) for _, rows in sorted(table.groups("link", "direction", "bytes", "ranks", "trusted"))
    ]
    names = _ordered({r["link"] for r in drawing.rows}, drawing.rows)
    tints = {link: style.LINK_COLOURS[i % len(style.LINK_COLOURS)] for i, link in enumerate(names)}
    handles = [style.Line2D([], [], color=tints[n], marker="s", linestyle="", label=n) for n in names]
    handles += [
        style.Line2D(
            [],
            [],
            color=style.SOFT,
            marker=MARKERS.get(d, "s"),
            linestyle="",
            markerfacecolor="none" if d == "both_ways" else style.SOFT,
            label=d.replace("_", " "),
        )
        for d in sorted({r["direction"] for r in drawing.rows})
    ]
    handles.append(style.Line2D([], [], color="#b42318", marker="x", linestyle="", label="not trusted"))
    figure, axes = style.canvas(1, 2, height=3.6, legend_rows=style.legend_rows(handles, 7))
    style.legend(figure, handles, 7)
    drawing.figure = figure
    _rates(axes[0, 0], drawing.rows, names, tints)
    rated = [r for r in drawing.rows if np.isfinite(r["quotient"])]
    if rated:
        _quotients(axes[0, 1], rated, tints)
    else:
        style.empty_panel(
            axes[0, 1], style.wrap("no data because no link with a nominal rate was calibrated.", 40)
        )
    axes[0, 1].set_title("measured / nominal")
    drawing.seen = [_seen(link, [r for r in drawing.rows if r["link"] == link]) for link in names]
    return drawing


def _collectives(cells):
    """The dense collectives of bench_collective, in nccl-tests' terms, as a table of the report."""
    rows = []
    for link in data.links(cells):
        for (operation, method, count, ranks), here in sorted(
            cells.where(link=link).groups("operation", "method", "dense_bytes", "ranks")
        ):
            rows.append(
                [
                    link,
                    operation,
                    method,
                    words.size(int(count)),
                    int(ranks),
                    words.microseconds(here.median("total_us")),
                    words.number(here.median("algbw_gbps"), 3),
                    words.number(here.median("busbw_gbps"), 3),
                    words.listing(here.distinct("status")),
                ]
            )
    header = [
        "link",
        "operation",
        "algorithm",
        "size",
        "ranks",
        "time",
        "algbw (GB/s)",
        "busbw (GB/s)",
        "status",
    ]
    return [("Dense collectives, the library's and our ring", header, rows)] if rows else []


def _row(rows):
    nominal, measured = rows.median("nominal_gbps"), rows.median("measured_gbps")
    return {
        "link": rows["link"][0],
        "direction": rows["direction"][0],
        "bytes": int(rows["bytes"][0]),
        "ranks": int(rows["ranks"][0]),
        "nominal_gbps": nominal,
        "measured_gbps": measured,
        "quotient": measured / nominal if nominal > 0 else float("nan"),
        "trusted": int(rows["trusted"][0]),
    }


def _ordered(links, rows):
    rate = lambda link: max(
        (r["nominal_gbps"] for r in rows if r["link"] == link and np.isfinite(r["nominal_gbps"])),
        default=float("inf"),
    )
    return sorted(links, key=lambda link: (rate(link), link))


def _points(axes, rows, tints, column):
    spots = []
    for r in rows:
        both = r["direction"] == "both_ways"
        spots.append(
            (
                r["bytes"],
                r[column],
                {
                    "marker": MARKERS.get(r["direction"], "s"),
                    "s": 48 if both else 20,
                    "linewidths": 1.0,
                    "zorder": 3,
                    "facecolors": "none" if both else tints[r["link"]],
                    "edgecolors": tints[r["link"]],
                },
            )
        )
        if not r["trusted"]:
            spots.append(
                (
                    r["bytes"],
                    r[column],
                    {"marker": "x", "s": 60, "color": "#b42318", "linewidths": 1.4, "zorder": 4},
                )
            )
    style.scatter(axes, spots)
    low, high = style.log_limits([max(1, r["bytes"]) for r in rows])
    axes.set(xscale="log", xlabel="message size (bytes)", xlim=(low, high))
    axes.xaxis.set_major_locator(style.matplotlib.ticker.LogLocator(base=10, numticks=8))
    axes.minorticks_off()


def _rates(axes, rows, names, tints):
    _points(axes, rows, tints, "measured_gbps")
    nominals = [
        max(
            (r["nominal_gbps"] for r in rows if r["link"] == n and np.isfinite(r["nominal_gbps"])),
            default=float("nan"),
        )
        for n in names
    ]
    for name, nominal in zip(names, nominals):
        if np.isfinite(nominal):
            axes.axhline(nominal, color=tints[name], linestyle=(0, (4, 2)), linewidth=1.0)
    low, high = style.log_limits([r["measured_gbps"] for r in rows] + [n for n in nominals if np.isfinite(n)])
    axes.set(yscale="log", ylabel="Gbit/s per rank and direction", title="rate", ylim=(low, high))
    style.number_ticks(axes.yaxis, low, high)


def _quotients(axes, rows, tints):
    axes.axhspan(1 - TOLERANCE, 1 + TOLERANCE, color="#e6f0f7", zorder=0.5)
    axes.axhline(1, color=style.INK, linewidth=0.9)
    _points(axes, rows, tints, "quotient")
    values = [r["quotient"] for r in rows]
    axes.set_ylim(min(0.75, min(values) - 0.05), max(1.25, max(values) + 0.05))
    axes.set_ylabel("measured / nominal")


def _seen(link, rows):
    rated = [r for r in rows if np.isfinite(r["quotient"])]
    rates = [r["measured_gbps"] for r in rows]
    if not rated:
        return (
            f"{link} has no nominal rate; it moved {words.number(min(rates))} to"
            f" {words.number(max(rates))} Gbit/s."
        )
    trusted = sum(r["trusted"] for r in rows)
    quotients = [r["quotient"] for r in rated]
    return (
        f"{link} carried {words.number(min(quotients), 3)} to {words.number(max(quotients), 3)} of its"
        f" nominal rate; {trusted} of"
        f" {words.count(len(rows), 'calibration')} {'is' if trusted == 1 else 'are'} trusted (within"
        f" {100 * TOLERANCE:.0f} %)."
    )
