"""SDP4Bit against the same exchange dense: how many times shorter a step is, over the link's rate."""
import math

from plots.lib import claim_drawing, style
from plots.lib.figure import Figure, Source

CLAIM = "sharded_compression.C15"
TABLE = "SDP4Bit's steps against dense ones"
COLUMNS = ("ranks", "gbps", "kind", "gain", "low", "high", "origin")
TINTS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
MARKERS = ("o", "s", "^", "D")


@Figure(
    title="SDP4Bit against a dense exchange: step over the link's rate",
    order=420,
    reads=Source.CLAIMS,
    how_to_read=(
        "Points: how many times shorter a step is whose weights go as differences in 4 bits and whose gradients go in 8 bits inside a node and in 4 across,"
        " than one that sends both dense in the same two steps; 95 % intervals behind. Dotted: what the step model says. Below the line at 1, coding costs more than it saves."
        " Rates are those between nodes in this run, 1/400 of the authors' for a model of 1/400; 'shared memory' has no link."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next(iter(claims.tables(CLAIM, name=TABLE)), None)
    if not (table and table.rows):
        return drawing.skipped(claims.why_none(CLAIM, what="steps of SDP4Bit and of a dense exchange"))
    measured = "emulated" if table.claim.kind == "emulated" else "measured"
    for _, values in table.rows:
        at = {"ranks": int(table.number(values, "ranks")), "gbps": table.number(values, "Gbit/s"), "origin": table.claim.origin}
        gain, modelled = values["gain"], values["model's gain"]
        drawing.rows.append({**at, "kind": measured if math.isfinite(at["gbps"]) else "measured", "gain": gain, "low": values["low"], "high": values["high"]})
        if math.isfinite(modelled):
            drawing.rows.append({**at, "kind": "modelled", "gain": modelled, "low": math.nan, "high": math.nan})
    figure, axes = style.canvas(1, 1, height=3.6, legend_rows=1, foot=claim_drawing.origin_note([table]))
    drawing.figure, panel = figure, axes[0, 0]
    rates = sorted({r["gbps"] for r in drawing.rows if math.isfinite(r["gbps"])})
    beyond = rates[-1] * 4  # where shared memory stands
    meshes = sorted({r["ranks"] for r in drawing.rows})
    panel.axhline(1, color=style.SOFT, linewidth=1)
    for ranks, tint, shape in zip(meshes, TINTS, MARKERS):
        own = [r for r in drawing.rows if r["ranks"] == ranks]
        points = [r for r in own if r["kind"] != "modelled"]
        model = sorted((r["gbps"], r["gain"]) for r in own if r["kind"] == "modelled")
        xs = [r["gbps"] if math.isfinite(r["gbps"]) else beyond for r in points]
        panel.plot([g for g, _ in model], [y for _, y in model], **style.curve(tint, "modelled"))
        claim_drawing.whiskers(panel, xs, [r["low"] for r in points], [r["high"] for r in points], [tint] * len(points))
        style.scatter(panel, [(x, r["gain"], style.dot(tint, shape, r["kind"])) for x, r in zip(xs, points)])
    handles = [style.Line2D([], [], color=tint, marker=shape, label=f"2 nodes of {ranks // 2}") for ranks, tint, shape in zip(meshes, TINTS, MARKERS)]
    style.legend(figure, [*handles, style.Line2D([], [], label="step model", **style.curve(style.INK, "modelled"))], 3)
    ticks = rates + ([beyond] if any(not math.isfinite(r["gbps"]) for r in drawing.rows) else [])
    panel.set(xscale="log", xlabel="link between nodes (Gbit/s)", ylabel="dense step / coded step", title="How many times shorter a step is")
    panel.set_xticks(ticks, [f"{g:g}" for g in rates] + ["shared\nmemory"] * (len(ticks) - len(rates)))
    panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    panel.set_ylim(0, 1.1 * max(max(r["high"] if math.isfinite(r["high"]) else r["gain"] for r in drawing.rows), 1))
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, [table])


def _seen(rows):
    """Where coding gains the most, and from which rate on it does not gain."""
    seen = []
    for ranks in sorted({r["ranks"] for r in rows}):
        own = sorted((r for r in rows if r["ranks"] == ranks and r["kind"] != "modelled" and math.isfinite(r["gbps"])), key=lambda r: r["gbps"])
        if not own:
            continue
        best = max(own, key=lambda r: r["gain"])
        lost = [r["gbps"] for r in own if r["gain"] <= 1]
        end = f"; from {lost[0]:g} Gbit/s on it gains nothing" if lost else "; it gains on every link"
        seen.append(f"On 2 nodes of {ranks // 2} a step is at most {best['gain']:.2f} times shorter, at {best['gbps']:g} Gbit/s{end}.")
    return seen
