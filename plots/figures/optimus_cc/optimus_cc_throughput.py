"""Optimus-CC's Fig. 14, throughput of compression and decompression against rank."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C15", "optimus_cc")
COLUMNS = ("shape", "rank", "what", "gbps", "low", "high", "kind", "origin")
LINES = (("compress", "#0072b2", "s"), ("decompress", "#e69f00", "^"), ("both", "#4a5560", "o"))


@Figure(
    title="Optimus-CC's compressor: throughput against rank (Fig. 14's shape)",
    order=240,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per shape of a message: uncompressed bits over the time to compress them (three products and two"
        " orthogonalisations, the error of the next message included) and to decompress them (one product), on one core of this"
        " machine. 'Both' is theta, uncompressed bits over the time of both, which claim C15 compares with a link's rate. Measured;"
        " the paper's own values, of a GPU, are not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = _tables(claims)
    if not tables:
        return drawing.skipped(claims.why_none("optimus_cc.C15", what="throughputs of the compressor"))
    for table in tables:
        drawing.rows += _rows(table)
    shapes = list(dict.fromkeys(r["shape"] for r in drawing.rows))
    drawn = {r["what"] for r in drawing.rows}
    if "compress" not in drawn:
        drawing.gaps.append("no lines of compression and decompression alone because the claims hold the throughput of both together only.")
    handles = [
        style.Line2D([], [], color=tint, marker=m, markersize=5, label={"both": "both (theta)"}.get(what, what))
        for what, tint, m in LINES
        if what in drawn
    ]
    columns = min(3, len(shapes))
    lines = -(-len(shapes) // columns)
    figure, axes = style.canvas(
        lines,
        columns,
        height=3.3 * lines,
        legend_rows=1,
        foot=claim_drawing.origin_note(tables),
        width=style.WIDTH if columns > 1 else 6.0,
        sharey=True,
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    for panel in axes.flat[len(shapes) :]:
        panel.set_visible(False)
    ranks = sorted({r["rank"] for r in drawing.rows})
    for panel, shape in zip(axes.flat, shapes):
        _panel(panel, [r for r in drawing.rows if r["shape"] == shape], ranks)
        panel.set_title(shape)
    for panel in axes[:, 0]:
        panel.set_ylabel("uncompressed Gbit/s")
    top = max(r["high"] if math.isfinite(r["high"]) else r["gbps"] for r in drawing.rows)
    axes[0, 0].set_ylim(0, 1.08 * top)
    drawing.seen = [s for shape in shapes if (s := _seen(shape, drawing.rows))]
    return claim_drawing.finish(drawing, claims, tables)


def _tables(claims):
    """Tables of throughput by rank, each once. One that knows theta only stands back where another knows both ways."""
    found = {}
    for beginning in CLAIMS:
        for t in claims.tables(beginning):
            if t.rows and t.column("rank") and not t.column("gain") and any(_columns(t).values()):
                found.setdefault((t.claim.id, t.name), t)
    both = [t for t in found.values() if _columns(t)["compress"]]
    return both or list(found.values())[:1]


def _columns(table):
    """{what: its column or nothing}."""
    return {
        "compress": table.column("compress", "bit/s", without=("decompress", "low", "high")),
        "decompress": table.column("decompress", "bit/s", without=("low", "high")),
        "both": table.column("theta", "bit/s", without=("low", "high", "w rho")),
    }


def _rows(table):
    rows = []
    names = _columns(table)
    rank_column = table.column("rank")
    for label, values in table.rows:
        for what, column in names.items():
            if column and math.isfinite(values[column]):
                rows.append(
                    {
                        "shape": _shape(table, label),
                        "rank": int(values[rank_column]),
                        "what": what,
                        "gbps": values[column],
                        "low": table.number(values, what, "low"),
                        "high": table.number(values, what, "high"),
                        "kind": "measured",
                        "origin": table.claim.origin,
                    }
                )
    return rows


def _shape(table, label):
    """One table per shape names it after a comma; one table of all shapes in each row, before a comma."""
    if ", " in table.name:
        return table.name.split(", ", 1)[1]
    return label.split(", ")[0] if ", " in label else table.name


def _panel(axes, rows, ranks):
    for what, tint, marker in LINES:
        points = sorted((r["rank"], r["gbps"], r["low"], r["high"]) for r in rows if r["what"] == what)
        if not points:
            continue
        x, y, low, high = zip(*points)
        axes.plot(x, y, marker="", **style.curve(tint))
        claim_drawing.whiskers(axes, x, low, high, [tint] * len(x))
        axes.scatter(x, y, **style.dot(tint, marker, size=34))
    axes.set_xlabel("rank")
    axes.set_xticks(ranks if len(ranks) <= 10 else ranks[::2])


def _seen(shape, rows):
    both = sorted((r["rank"], r["gbps"]) for r in rows if r["shape"] == shape and r["what"] == "both")
    if len(both) < 2:
        return ""
    (low, first), (high, last) = both[0], both[-1]
    falls = all(a[1] >= b[1] for a, b in zip(both, both[1:]))
    trend = "falls with every rank" if falls else "falls" if last < first else "does not fall"
    return f"{shape}: theta {trend}, from {words.number(first, 3)} Gbit/s at rank {low} to {words.number(last, 3)} at rank {high}."
