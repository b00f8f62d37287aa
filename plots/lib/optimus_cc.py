"""What the figures of Optimus-CC's claims share: the stacks with their colours, losses of the training arms."""
import math
import re
from dataclasses import dataclass

from plots.lib import claims as claims_of
from plots.lib import style

BASELINE = "Baseline"
STACKS = (BASELINE, "CB without LEP", "CB", "CB+FE", "CB+FE+SC")

# Okabe and Ito's colours, as for codec families; arms that are no stack take theirs from the rest by order.
COLOURS = {
    BASELINE: "#4a5560",
    "CB": "#0072b2",
    "CB without LEP": "#e69f00",
    "CB+FE": "#56b4e9",
    "CB+FE+SC": "#009e73",
}
_OTHERS = ("#d55e00", "#cc79a7", "#882255", "#999933", "#332288", "#117733")

# Parts of a step, in the order of Fig. 10: (name, words of one of which a column has, colour).
PARTS = (
    ("forward messages", ("pp_forward", "forward messages"), "#56b4e9"),
    ("backward messages", ("pp_backward", "backward messages"), "#0072b2"),
    ("gradient sums", ("dp_gradient", "gradient sums"), "#cc79a7"),
    ("embedding", ("embedding",), "#e69f00"),
    ("tensor sums", ("tensor sums",), "#d55e00"),
    ("the rest", ("the rest",), "#8d99a6"),
)


def parts_of(table):
    """{part: column} of a table of step times, in the order of PARTS."""
    found = {}
    for name, names, _ in PARTS:
        column = next((c for c in table.columns for word in names if c.startswith(word) and "(ms)" in c), None)
        if column:
            found[name] = column
    return found


def part_colour(name):
    return next(tint for part, _, tint in PARTS if part == name)


def part_handles(names, kind):
    return [
        style.plt.Rectangle((0, 0), 1, 1, label=name, **style.part(part_colour(name), kind)) for name, _, _ in PARTS if name in names
    ]


def stacked(axes, rows, labels, kind):
    """Horizontal bars of parts with the step's time behind, as [{"parts": {name: ms}, "step_ms": ms, "note": text}]."""
    end = max(max(r["step_ms"] for r in rows), 1e-9)
    for y, row in enumerate(rows):
        left = 0.0
        for name, _, tint in PARTS[::-1]:  # what cannot be saved first: the bars' ends are what differs
            width = row["parts"].get(name, float("nan"))
            if math.isfinite(width) and width > 0:
                axes.barh(y, width, left=left, height=0.66, **style.part(tint, kind))
                left += width
        axes.text(max(left, row["step_ms"]) + 0.015 * end, y, row["note"], va="center", fontsize=7.5, color=style.INK)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.42 * end)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def stack_of(arm):
    """The stack that a training arm is, else its own name: "CB rank 2, epilogue" is CB; all-backward compression is none."""
    if arm.lower() in ("dense", "none", "base", "baseline"):
        return BASELINE
    if found := re.fullmatch(r"CB rank \d+( without LEP)?, epilogue", arm):
        return "CB without LEP" if found[1] else "CB"
    return arm


def order(arm):
    """Stacks as the paper's table has them, then the others by name."""
    stack = stack_of(arm)
    return (STACKS.index(stack) if stack in STACKS else len(STACKS), arm)


def colours(arms):
    """{arm: colour}; stacks always have their own."""
    others = sorted(a for a in arms if stack_of(a) not in COLOURS)
    return {a: COLOURS.get(stack_of(a)) or _OTHERS[others.index(a) % len(_OTHERS)] for a in arms}


@dataclass
class Arms:
    """Training arms of one ground, as "M = 8, from scratch". `losses`: {arm: {column: final validation loss}}; `curves`: {arm: {step: mean loss over
    seeds}}."""

    losses: dict
    curves: dict
    tables: list
    profile: str
    ground: str = ""

    @property
    def dense(self):
        return next((a for a in self.losses if stack_of(a) == BASELINE), None)

    def ordered(self):
        return sorted(self.losses, key=order)

    def difference(self, arm, base=None):
        """(mean, low, high, pairs) of loss(arm) - loss(base), paired by seed; base: the dense arm."""
        base = self.losses.get(base or self.dense, {})
        pairs = [v - base[seed] for seed, v in self.losses[arm].items() if seed in base and math.isfinite(v - base[seed])]
        return (*claims_of.interval(pairs), len(pairs))


def ground_of(table):
    """What the arms of a table of losses share, in words; empty where the table does not say."""
    found = re.search(r"(?:\(nats per token\)|over steps), (.+)$", table.name)
    return found[1] if found else ""


def grounds_of(claims, *beginnings):
    """The training arms of these claims by ground. Arms of several claims are joined (they share runs) when they were trained on one ground in the same run of
    claims under the same profile. Of several such groups of one ground the one with most arms is taken."""
    groups = {}
    for table in claims.tables(*beginnings, name="validation loss"):
        if table.rows:
            groups.setdefault((ground_of(table), table.claim.reference, table.claim.profile), []).append(table)
    arms = lambda group: len({label for t in group for label, _ in t.rows})
    best = {}
    for (ground, _, profile), group in groups.items():
        if ground not in best or arms(group) > arms(best[ground][1]):
            best[ground] = (profile, group)
    return [_joined(ground, *best[ground]) for ground in sorted(best)]


def arms_of(claims, *beginnings):
    """grounds_of() with most arms, None where there is none."""
    return max(grounds_of(claims, *beginnings), key=lambda arms: len(arms.losses or arms.curves), default=None)


def _joined(ground, profile, chosen):
    losses, curves = {}, {}
    for table in chosen:
        over_steps = "over steps" in table.name
        for label, values in table.rows:
            if over_steps:
                known = {int(c.split()[-1]): v for c, v in values.items() if math.isfinite(v)}
                curves.setdefault(label, {}).update(known)
            else:
                losses.setdefault(label, {}).update(values)
    return Arms(losses, curves, chosen, profile, ground)


def margin_of(tables, default=float("nan")):
    """The margin in nats that the verdicts of these tables' claims compare losses with."""
    margins = {m.margin for t in tables for m in t.claim.measures if m.unit.startswith("nat") and math.isfinite(m.margin)}
    return max(margins) if margins else default


def arm_handles(arms, tints, line=True):
    """Legend entries of arms."""
    look = {"linestyle": "-" if line else "", "marker": "o", "markersize": 5}
    return [style.Line2D([], [], color=tints[a], label=label(a), **look) for a in arms]


def rank_of(arm):
    """Of the low-rank codec on boundary messages; None where an arm has none."""
    found = re.match(r"CB rank (\d+)", arm)
    return int(found[1]) if found else None


def label(arm):
    """A stack by the paper's name, with the arm's own beside it where it says more."""
    stack = stack_of(arm)
    return stack if stack == arm or stack == BASELINE else f"{stack} ({arm.removeprefix('CB ').replace(' without LEP', '')})"
