"""What codecs on the gradients and weights of replicas cost in loss: each arm's difference to the dense arm, per comparison."""
import math
import statistics

from plots.lib import claim_drawing, style, words
from plots.lib import claims as claims_of
from plots.lib.figure import Figure, Source

FIGURE = "replica_losses"  # claims name it
BEGINNING = "validation loss (nats per token), "
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
    tables = [t for t in claims.tables_of(FIGURE, name=BEGINNING) if len(t.rows) > 1]
    comparisons = {}
    for table in tables:
        comparisons.setdefault(table.name.removeprefix(BEGINNING), []).append(table)
    if not comparisons:
        return drawing.skipped(claims.why_none_of(FIGURE, what="losses of training arms"))
    arms = {name: _arms(of) for name, of in comparisons.items()}
    heights = [0.9 + 0.3 * len(of) for of in arms.values()]
    figure, axes = style.canvas(
        len(arms), 1, height=0.6 + sum(heights), legend_rows=0, foot=claim_drawing.origin_note(tables), height_ratios=heights
    )
    drawing.figure = figure
    for (name, of), panel in zip(arms.items(), axes[:, 0]):
        base = next(iter(of))
        origin = comparisons[name][0].claim.origin
        lines = []
        for arm, losses in of.items():
            lines.append((arm, [100 * (losses[s] / of[base][s] - 1) for s in losses if s in of[base]]))
            for seed, loss in losses.items():
                part = 100 * (loss / of[base][seed] - 1) if seed in of[base] else math.nan
                drawing.rows.append(
                    {"comparison": name, "arm": arm, "seed": seed, "loss": loss, "difference_percent": part, "origin": origin}
                )
        _panel(panel, name, lines[1:], of[base])
        drawing.seen.append(_seen(name, base, lines[1:]))
    return claim_drawing.finish(drawing, claims, tables)


def _arms(tables):
    """{arm: {seed: loss}}, the baseline first: claims of one comparison share cells, so equal names are equal numbers."""
    arms = {}
    for table in tables:
        for label, values in table.rows:
            arms.setdefault(label, {}).update({seed: v for seed, v in values.items() if math.isfinite(v)})
    return {arm: losses for arm, losses in arms.items() if losses}


def _panel(panel, name, lines, base):
    for y, (_, parts) in enumerate(lines):
        mean, low, high = claims_of.interval(parts)
        panel.plot(parts, [y] * len(parts), linestyle="", marker="o", markersize=3.5, color=style.SOFT, zorder=2.4)
        claim_drawing.whiskers(panel, [y], [low], [high], ["#0072b2"], horizontal=True)
        panel.plot([mean], [y], marker="o", markersize=6.5, color="#0072b2", zorder=3)
    panel.axvline(0, color=style.INK, linewidth=1, zorder=1)
    panel.set_yticks(range(len(lines)), [arm for arm, _ in lines])
    panel.set_ylim(len(lines) - 0.5, -0.5)
    mean = statistics.fmean(base.values())
    fewest, most = min(len(parts) for _, parts in lines), max(len(parts) for _, parts in lines)  # claims of one comparison may ask for more seeds than others
    seeds = str(most) if fewest == most else f"{fewest} to {most}"
    panel.set(title=f"{name} (dense: {words.number(mean)} nats per byte, {seeds} seeds)", xlabel="loss above the dense arm (%)")


def _seen(name, base, lines):
    listed = [f"{arm} {words.number(statistics.fmean(parts))} %" for arm, parts in lines]
    return f"{name}, loss above {base}: {words.listing(listed, 12)}."
