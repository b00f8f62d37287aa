"""What codecs on the gradients and weights of replicas cost in loss: each arm's difference to the dense arm, per comparison."""
import math
import statistics

from plots.lib import claim_drawing, comparisons, style, words
from plots.lib.figure import Figure, Source

FIGURE = "replica_losses"  # claims name it
COLUMNS = ("comparison", "arm", "seed", "loss", "difference_percent", "origin")


@Figure(
    title="Loss that codecs on gradients and gathered weights cost",
    order=410,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per comparison, one line per arm. Small points: final validation loss of one seed over that of the comparison's first arm with the"
        " same seed (equal initial weights, data and validation set), less 1. Large points: their mean, with the 95 % interval by Student's t behind."
        " Right of the line the arm loses."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables_of(FIGURE, name=comparisons.BEGINNING) if len(t.rows) > 1]
    found = comparisons.by_ground(tables)
    if not found:
        return drawing.skipped(claims.why_none_of(FIGURE, what="losses of training arms"))
    heights = [0.9 + 0.3 * len(of.arms) for of in found]
    figure, axes = style.canvas(
        len(found), 1, height=0.6 + sum(heights), legend_rows=0, foot=claim_drawing.origin_note(tables), height_ratios=heights
    )
    drawing.figure = figure
    for comparison, panel in zip(found, axes[:, 0]):
        arms, base = comparison.arms, next(iter(comparison.arms))
        lines = []
        for arm, losses in arms.items():
            lines.append((arm, [100 * (losses[s] / arms[base][s] - 1) for s in losses if s in arms[base]]))
            for seed, loss in losses.items():
                part = 100 * (loss / arms[base][seed] - 1) if seed in arms[base] else math.nan
                row = {"comparison": comparison.title, "arm": arm, "seed": seed, "loss": loss, "origin": comparison.origin}
                drawing.rows.append({**row, "difference_percent": part})
        comparisons.panel(panel, lines[1:])
        fewest, most = min(len(parts) for _, parts in lines[1:]), max(len(parts) for _, parts in lines[1:])  # claims of one comparison may ask for more seeds than others
        seeds = str(most) if fewest == most else f"{fewest} to {most}"
        mean = words.number(statistics.fmean(arms[base].values()))
        panel.set(title=f"{comparison.title} (dense: {mean} nats per byte, {seeds} seeds)", xlabel="loss above the dense arm (%)")
        drawing.seen.append(_seen(comparison.title, base, lines[1:]))
    return claim_drawing.finish(drawing, claims, tables)


def _seen(name, base, lines):
    listed = [f"{arm} {words.number(statistics.fmean(parts))} %" for arm, parts in lines]
    return f"{name}, loss above {base}: {words.listing(listed, 12)}."
