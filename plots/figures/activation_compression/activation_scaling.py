"""What coded activations gain in time as models grow: measured sizes, the cost model fitted to them, and clusters that grow with the model."""
import math

from plots.lib import claim_drawing, style
from plots.lib.figure import Figure, Source

SIZES, CLUSTERS = "activation_compression.C8", "activation_compression.C9"
COLUMNS = ("claim", "basis", "hidden", "nodes", "speedup", "low", "high", "origin")
MEASURED, MODELLED = "#0072b2", "#d55e00"
LOOKS = {
    "measured, emulated link": dict(color=MEASURED, marker="o", markersize=5, markerfacecolor="white", linestyle=""),
    "fitted cost model": dict(color=MODELLED, linestyle=":", linewidth=1.8),
}


@Figure(
    title="Speed-up by coded activations as models grow",
    order=426,
    reads=Source.CLAIMS,
    how_to_read=(
        "Up: time of a dense step over that of a step with codes of a fixed width; above the line the codec pays. Hollow points are measured, between two ranks on an emulated link, with"
        " intervals of 95 %; dotted is the cost model, fitted to them and carried on to sizes that nobody measured here. Left: the link and the number of ranks stay. Right: the paper's clusters, whose"
        " nodes and batch grow with the model; below the hidden size stands the number of nodes."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    measured = next(iter(claims.tables(SIZES, name="speed-up by coded activations")), None)
    fitted = next(iter(claims.tables(SIZES, name="speed-up by the fitted model")), None)
    clusters = next(iter(claims.tables(CLUSTERS, name="speed-up by the model")), None)
    panels = []
    if sizes := _rows(measured, "measured") + _rows(fitted, "model"):
        panels.append(("hidden size grows alone", sizes))
    if grown := _rows(clusters, "model"):
        panels.append(("nodes grow with it", grown))
    if not panels:
        return drawing.skipped(claims.why_none(SIZES, CLUSTERS, what="speed-ups by the size of the model"))
    tables = [t for t in (measured, fitted, clusters) if t]
    figure, axes = style.canvas(1, len(panels), height=3.4, legend_rows=1, foot=claim_drawing.origin_note(tables))
    drawing.figure = figure
    for panel, (title, rows) in zip(axes[0], panels):
        drawing.rows += rows
        points, curve = ([r for r in rows if r["basis"] == basis] for basis in ("measured", "model"))
        panel.plot([r["hidden"] for r in points], [r["speedup"] for r in points], **LOOKS["measured, emulated link"])
        claim_drawing.whiskers(panel, [r["hidden"] for r in points], [r["low"] for r in points], [r["high"] for r in points], [MEASURED] * len(points))
        of_clusters = any(r["nodes"] for r in curve)
        panel.plot([r["hidden"] for r in curve], [r["speedup"] for r in curve], marker="s" if of_clusters else "", markersize=4.5, markerfacecolor="white", **LOOKS["fitted cost model"])
        panel.axhline(1, color=style.INK, linewidth=1, zorder=1)
        panel.set_xscale("log")
        shown = curve if of_clusters else [r for i, r in enumerate(curve or points) if i % 2 == 0]
        panel.set_xticks([r["hidden"] for r in shown], [f"{r['hidden']}\n{r['nodes']}" if of_clusters else str(r["hidden"]) for r in shown], fontsize="small")
        panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        panel.set(title=title, xlabel="hidden size, and nodes" if of_clusters else "hidden size", ylabel="times as fast")
        drawing.seen.append(_seen(title, points, curve))
    style.legend(figure, [style.Line2D([], [], label=name, **look) for name, look in LOOKS.items()], 2)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(table, basis):
    rows = []
    for label, values in table.rows if table else ():
        speedup = table.number(values, "speed-up")
        if math.isfinite(speedup):
            low, high, nodes = (values.get(column, math.nan) for column in ("low", "high", "nodes"))
            rows.append({"claim": table.claim.id, "basis": basis, "hidden": int(label.removeprefix("hidden ")), "nodes": int(nodes) if nodes == nodes else "",
                         "speedup": speedup, "low": low, "high": high, "origin": table.claim.origin})  # fmt: skip
    return sorted(rows, key=lambda r: r["hidden"])


def _seen(title, points, curve):
    said = []
    for name, rows in (("measured", points), ("by the model", curve)):
        if rows:
            first, last = rows[0], rows[-1]
            said.append(f"{name} {first['speedup']:.3f} times as fast at hidden {first['hidden']} and {last['speedup']:.3f} at {last['hidden']}")
    return f"{title[:1].upper() + title[1:]}: {'; '.join(said)}."
