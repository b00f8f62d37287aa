"""What the figures of tensor parallelism share: one colour and marker per scheme, names of grids, how a modelled range is drawn."""
import re

from plots.lib import style

# Okabe and Ito's colours; 1-D is grey as the dense tensor is elsewhere: what the others are compared with.
SCHEMES = ("1-D", "2-D", "2.5-D", "3-D")
COLOURS = {"1-D": "#4a5560", "2-D": "#d55e00", "2.5-D": "#009e73", "3-D": "#0072b2"}
MARKERS = {"1-D": "o", "2-D": "s", "2.5-D": "D", "3-D": "^"}
POLICY_LINES = {"keep": "-", "again": (0, (5, 1.6)), "again-literally": (0, (2, 1.4))}

_NAMES = {"1d": "1-D", "2d": "2-D", "2.5d": "2.5-D", "3d": "3-D"}


def scheme_of(label):
    """`2.5d 2x2x2`, `3d 4x4x4, gather keep`, `3-D, 64 GPUs`, `1D on 4 ranks` -> 1-D, 2-D, 2.5-D or 3-D; nothing for other texts."""
    found = re.search(r"(?<![\d.])(2\.5|[123])-?[dD](?![a-zA-Z])", label)
    return f"{found[1]}-D" if found else None


def policy_of(label):
    """keep, again, again-literally; empty where the label names none."""
    found = re.search(r"gather (keep|again-literally|again)\b", label)
    return found[1] if found else ""


def name_of(label):
    """`2d 8x8` -> `2-D 8×8`; `3d 4x4x4, gather keep` -> `3-D 4×4×4, keep`."""
    text = re.sub(r"^(1d|2d|2\.5d|3d)\b", lambda m: _NAMES[m[1]], label).replace(", gather ", ", ")
    return re.sub(r"(?<=\d)x(?=\d)", "×", text)


def scheme_handles(schemes, line=False):
    """Legend entries in the order of SCHEMES."""
    look = {"linestyle": "-" if line else "", "markersize": 6}
    return [style.Line2D([], [], color=COLOURS[s], marker=MARKERS[s], label=s, **look) for s in SCHEMES if s in set(schemes)]


def span(axes, at, low, high, tint, offset=0.0, form=""):
    """A modelled range as a dotted box between two values at position `at`; trees are narrower and hatched."""
    width = 0.14 if form == "tree" else 0.2
    axes.add_patch(
        style.plt.Rectangle(
            (at + offset - width / 2, low), width, high - low, facecolor="none", edgecolor=tint, linewidth=1.3,
            linestyle=(0, (1, 1)), hatch="////" if form == "tree" else None, zorder=2.4,
        )  # fmt: skip
    )
    axes.update_datalim([(at, low), (at, high)])


def span_handles(forms):
    """Legend entries of `span`."""
    look = {"facecolor": "none", "edgecolor": style.SOFT, "linestyle": (0, (1, 1)), "linewidth": 1.2}
    names = {"pipelined": "modelled range", "tree": "modelled, broadcasts along trees"}
    return [style.plt.Rectangle((0, 0), 1, 1, label=names[f], hatch="////" if f == "tree" else None, **look) for f in forms]


def star(axes, x, y, tint, hollow=False):
    """A published value: a star, black edge; `hollow` is a second reading of the same row, or a recollected one."""
    look = {"s": 170, "facecolors": "white", "edgecolors": tint, "zorder": 3.8} if hollow else {"s": 100, "facecolors": tint, "edgecolors": "black", "zorder": 4}
    axes.scatter([x], [y], marker="*", linewidths=1.0, **look)
