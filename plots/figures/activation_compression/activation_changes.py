"""How much a sample's activation changes from epoch to epoch: what AQ-SGD codes."""
import re
import statistics

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("activation_compression.C22",)
COLUMNS = ("boundary", "seed", "epoch", "change", "origin")
TINTS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7")
_ROW = re.compile(r"^layer (\d+), seed (\d+)$")


@Figure(
    title="Change of an activation since the epoch before",
    order=424,
    reads=Source.CLAIMS,
    how_to_read=(
        "Up: mean over samples of ||x - m|| / ||x||, x the activation that crosses the boundary in front of a layer, m the same sample's an epoch before. Thin lines are"
        " seeds, thick ones their means. A quantiser's error shrinks with what it codes: at 0.1 the change has a tenth of the activation's size. Nothing is coded in this training."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next(iter(claims.tables(*CLAIMS, name="change of an activation")), None)
    if not table or not table.rows:
        return drawing.skipped(claims.why_none(*CLAIMS, what="changes of activations by epoch"))
    boundaries = {}
    for label, values in table.rows:
        match = _ROW.match(label)
        points = [(int(column.split()[1]), v) for column, v in values.items() if v == v]
        if match and points:
            boundaries.setdefault(int(match[1]), []).append(points)
            drawing.rows += [{"boundary": int(match[1]), "seed": int(match[2]), "epoch": e, "change": v, "origin": table.claim.origin} for e, v in points]
    figure, axes = style.canvas(1, 1, height=3.4, legend_rows=1, foot=claim_drawing.origin_note([table]))
    drawing.figure, panel = figure, axes[0, 0]
    handles = []
    for (boundary, seeds), tint in zip(sorted(boundaries.items()), TINTS * 4):
        for points in seeds:
            panel.plot([e for e, _ in points], [v for _, v in points], color=tint, linewidth=0.8, alpha=0.5)
        means = {e: statistics.fmean(v for points in seeds for at, v in points if at == e) for e, _ in seeds[0]}
        panel.plot(list(means), list(means.values()), color=tint, linewidth=2.2, marker="o", markersize=4.5)
        handles.append(style.Line2D([], [], label=f"in front of layer {boundary}", color=tint, marker="o", markersize=4.5))
        first, last = means[min(means)], means[max(means)]
        drawing.seen.append(f"In front of layer {boundary} the change falls from {words.number(first)} to {words.number(last)} of the activation.")
    style.legend(figure, handles, 4)
    panel.set(xlabel="epoch", ylabel="change over size")
    panel.set_xticks(sorted({r["epoch"] for r in drawing.rows}))
    panel.set_ylim(bottom=0)
    return claim_drawing.finish(drawing, claims, [table])
