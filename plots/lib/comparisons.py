"""Arms that claims train on one ground: losses by arm and seed, and a panel of differences to the first arm."""
import math
from dataclasses import dataclass

from plots.lib import claim_drawing, style, words
from plots.lib import claims as claims_of

BEGINNING = "validation loss (nats per token), "


@dataclass
class Comparison:
    """Arms that were trained beside each other: `arms` is {arm: {seed: loss}}, the baseline first."""

    ground: str
    arms: dict
    tables: list
    title: str = ""  # the ground, and whose numbers these are where the ground has several comparisons

    @property
    def origin(self):
        return self.tables[0].claim.origin


def by_ground(tables):
    """Comparisons of these tables, those of a baseline alone left out. Claims of one ground share cells and are joined; those of another run of claims, of another profile, or with another
    number for the same arm and seed, were trained elsewhere, and an arm of the one less the baseline of the other would be no difference between arms."""
    found = []
    for table in tables:
        ground = table.name.removeprefix(BEGINNING)
        finite = {label: {seed: v for seed, v in values.items() if math.isfinite(v)} for label, values in table.rows}
        home = lambda t: (t.claim.reference, t.claim.profile)
        fits = lambda c: c.ground == ground and home(c.tables[0]) == home(table) and _agree(c.arms, finite)
        comparison = next(filter(fits, found), None)
        if comparison is None:
            found.append(comparison := Comparison(ground, {}, []))
        comparison.tables.append(table)
        for label, values in finite.items():
            if values:
                comparison.arms.setdefault(label, {}).update(values)
    found = [c for c in found if len(c.arms) > 1]
    for c in found:
        several = sum(other.ground == c.ground for other in found) > 1
        c.title = f"{c.ground} ({_whose(c)})" if several else c.ground
    return found


def _agree(arms, others):
    return all(arms.get(label, {}).get(seed, v) == v for label, values in others.items() for seed, v in values.items())


def _whose(comparison):
    claims = [t.claim for t in comparison.tables]
    return words.listing([c.id.split(".")[1] for c in claims], 12) + (", reference" if claims[0].reference else f", {claims[0].profile}")  # which reference, the foot says; titles have one line


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
