"""Arms that claims train on one ground: losses by arm and seed, and a panel of differences to the first arm."""
import math

from plots.lib import claim_drawing, style
from plots.lib import claims as claims_of

BEGINNING = "validation loss (nats per token), "


def by_ground(tables):
    """{ground: {arm: {seed: loss}}}, the baseline first: claims of one comparison share cells, so equal names are equal numbers."""
    grounds = {}
    for table in tables:
        arms = grounds.setdefault(table.name.removeprefix(BEGINNING), {})
        for label, values in table.rows:
            finite = {seed: v for seed, v in values.items() if math.isfinite(v)}
            if finite:
                arms.setdefault(label, {}).update(finite)
    return grounds


def differences(arms):
    """[(arm, [difference to the first arm with the same seed])], the first arm left out."""
    base = next(iter(arms.values()))
    return [(arm, [losses[s] - base[s] for s in losses if s in base]) for arm, losses in list(arms.items())[1:]]


def panel(axes, lines, tint="#0072b2"):
    """One line per arm: the seeds, their mean and its 95 % interval."""
    for y, (_, parts) in enumerate(lines):
        mean, low, high = claims_of.interval(parts)
        axes.plot(parts, [y] * len(parts), linestyle="", marker="o", markersize=3.5, color=style.SOFT, zorder=2.4)
        claim_drawing.whiskers(axes, [y], [low], [high], [tint], horizontal=True)
        axes.plot([mean], [y], marker="o", markersize=6.5, color=tint, zorder=3)
    axes.axvline(0, color=style.INK, linewidth=1, zorder=1)
    axes.set_yticks(range(len(lines)), [arm for arm, _ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
