"""What codecs at stage boundaries and in sums of activations cost in loss, in nats: each arm's difference to the dense arm, per comparison."""
import statistics

from plots.lib import claim_drawing, comparisons, style, words
from plots.lib.figure import Figure, Source

FIGURE = "activation_losses"  # claims name it
COLUMNS = ("comparison", "arm", "seed", "loss", "difference", "origin")
SEVERE = 0.05


@Figure(
    title="Loss that coded activations cost",
    order=420,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per comparison, one line per arm. Small points: final validation loss of one seed less that of the comparison's first arm with the same"
        " seed (equal initial weights, data and validation set). Large points: their mean, with the 95 % interval by Student's t behind. Right of the"
        " line the arm loses; the dotted line is a severe loss, 0.05 nats. The axis is linear up to there and logarithmic beyond."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables_of(FIGURE, name=comparisons.BEGINNING) if len(t.rows) > 1]
    grounds = comparisons.by_ground(tables)
    if not grounds:
        return drawing.skipped(claims.why_none_of(FIGURE, what="losses of training arms"))
    lines = [comparisons.differences(comparison.arms) for comparison in grounds]
    heights = [0.8 + 0.26 * len(of) for of in lines]
    figure, axes = style.canvas(len(lines), 1, height=0.5 + sum(heights), foot=claim_drawing.origin_note(tables), height_ratios=heights)
    drawing.figure = figure
    for comparison, own, panel in zip(grounds, lines, axes[:, 0]):
        ground, arms = comparison.title, comparison.arms
        base = next(iter(arms.values()))
        for arm, losses in arms.items():
            for seed, loss in losses.items():
                row = {"comparison": ground, "arm": arm, "seed": seed, "loss": loss, "origin": comparison.origin}
                drawing.rows.append({**row, "difference": loss - base[seed] if seed in base else float("nan")})
        comparisons.panel(panel, own)
        panel.axvline(SEVERE, color=style.SOFT, linewidth=1, linestyle=":", zorder=1)
        panel.set_xscale("symlog", linthresh=SEVERE, linscale=1.2)
        panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        reach = max([SEVERE, *(abs(part) for _, parts in own for part in parts)]) * 1.3
        ticks = [t for t in (-5, -2, -1, -0.5, -0.2, -0.05, -0.02, 0, 0.02, 0.05, 0.2, 0.5, 1, 2, 5) if abs(t) <= reach]
        left = min([0.0, *(part for _, parts in own for part in parts)])
        panel.set_xlim(1.3 * left - 0.01, reach)
        panel.set_xticks([t for t in ticks if t >= 1.3 * left - 0.01], [f"{t:g}" for t in ticks if t >= 1.3 * left - 0.01])
        panel.set(title=f"{ground} (dense: {words.number(statistics.fmean(base.values()))} nats; {len(base)} seeds at most)", xlabel="loss above the dense arm (nats per token)")
        listed = [f"{arm} {words.number(statistics.fmean(parts))}" for arm, parts in own]
        drawing.seen.append(f"{ground}, nats above {next(iter(arms))}: {words.listing(listed, 16)}.")
    return claim_drawing.finish(drawing, claims, tables)
