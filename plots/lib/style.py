"""One look for all figures: a colour per codec family, a marker per form and protocol, a fill per kind of point
(measured, emulated, modelled, published), and labels that do not run into each other."""
import contextlib
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import patheffects
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text

INK, SOFT, GRID = "#1f2933", "#616e7c", "#e4e7eb"

# Okabe and Ito's colours, which stay apart under the common forms of colour blindness; grey for the dense tensor.
FAMILY_COLOURS = {
    "none": "#4a5560",
    "cast": "#56b4e9",
    "autoencoder": "#009e73",
    "topk": "#d55e00",
    "randomk": "#e69f00",
    "quantize": "#0072b2",
    "powersgd": "#cc79a7",
}
# Families that join later (Tol's muted scheme), handed out by name so that every figure agrees.
_FURTHER_COLOURS = ("#882255", "#44aa99", "#999933", "#332288", "#aa4499", "#117733", "#ddcc77", "#88ccee")

STAGE_COLOURS = {"encode": "#243b53", "transfer": "#bcccdc", "decode": "#7f9bb5"}
STEP_COLOURS = {"compute": "#5b8f6b", **STAGE_COLOURS, "wait": "#e3e7ec"}
TIMELINE_COLOURS = {
    "forward": "#8fbf9b",
    "backward": "#3f7f5f",
    "encode": "#d55e00",
    "decode": "#e69f00",
    "transfer": "#0072b2",
    "wait": "#e3e7ec",
}
LINK_COLOURS = ("#00204d", "#7c7b78", "#c9a800", "#5b8fb9", "#a8483e", "#3f7f5f")
STATUS_MARKS = {"SKIPPED": "skip", "FAILED": "fail", "TIMEOUT": "time", "WRONG": "wrong"}

_MARKERS = {
    ("fair", "dense"): "o",
    ("fair", "rounds"): "s",
    ("fair", "gather"): "^",
    ("fair", "two_shot"): "D",
    ("fair", "point_to_point"): "h",
    ("released", "dense"): "8",
    ("released", "rounds"): "p",
    ("released", "gather"): "v",
    ("released", "two_shot"): "d",
    ("released", "point_to_point"): "X",
}

# Blue pays, orange costs, pale is 1; readable with every common form of colour blindness.
SPEEDUP_COLOURS = LinearSegmentedColormap.from_list(
    "speedup", ["#7f3b08", "#c9741a", "#f3c48b", "#f7f7f5", "#a9cfe5", "#4a97c9", "#134f85"]
)

HALO = [patheffects.withStroke(linewidth=2.2, foreground="white")]
WIDTH = 11.0  # inches; 1056 CSS pixels, the width of the report's column


def apply():
    """Sets matplotlib's defaults for every figure."""
    plt.rcdefaults()
    matplotlib.use("Agg")
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 9,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 8.5,
            "axes.edgecolor": "#9aa5b1",
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": SOFT,
            "ytick.color": SOFT,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "axes.linewidth": 0.8,
            "axes.grid": True,
            "grid.color": GRID,
            "grid.linewidth": 0.7,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "legend.frameon": False,
            "lines.linewidth": 1.5,
            "pdf.fonttype": 42,
            "svg.fonttype": "path",
            "svg.hashsalt": "thinwire",
            "hatch.linewidth": 0.7,
        }
    )


def colour(family):
    """The colour of a codec family, the same in every figure."""
    if family in FAMILY_COLOURS:
        return FAMILY_COLOURS[family]
    return _FURTHER_COLOURS[sum(family.encode()) % len(_FURTHER_COLOURS)]


def marker(form, protocol):
    """The marker of a form and protocol; unknown protocols share a plain one."""
    return _MARKERS.get((form, protocol), "*")


def point(family, form="fair", protocol="dense", kind="measured", size=42.0):
    """Keyword arguments of `scatter` for one point of a codec family: see `dot`."""
    return dot(colour(family), marker(form, protocol), kind, size)


def dot(tint, marker_="o", kind="measured", size=42.0):
    """Keyword arguments of `scatter` for one point: measured is filled, emulated hollow, modelled hollow and dotted,
    published a black outline star."""
    style = {
        "marker": marker_,
        "s": size,
        "linewidths": 0.8,
        "edgecolors": "white",
        "facecolors": tint,
        "zorder": 3,
    }
    if kind == "emulated":
        style.update(facecolors="white", edgecolors=tint, linewidths=1.4)
    elif kind == "modelled":
        style.update(facecolors="none", edgecolors=tint, linewidths=1.2, linestyle=":")
    elif kind == "published":
        style.update(marker="*", facecolors="white", edgecolors="black", linewidths=1.0, s=1.8 * size)
    return style


def bar(tint, kind="measured"):
    """Keyword arguments of `bar` and `barh`, told apart as points are; published values are never bars."""
    look = {"facecolor": tint, "edgecolor": tint, "linewidth": 0.0, "zorder": 3}
    if kind == "emulated":
        look.update(facecolor="white", linewidth=1.6)
    elif kind == "modelled":
        look.update(facecolor="none", linewidth=1.6, linestyle=(0, (1, 1)))
    return look


def part(tint, kind="measured"):
    """Keyword arguments of a stacked bar's part, which must keep its colour: measured is full, emulated pale with an edge, modelled
    pale with a dotted edge."""
    if kind == "measured":
        return {"facecolor": tint, "linewidth": 0, "zorder": 3}
    pale = tuple(0.55 + 0.45 * c for c in matplotlib.colors.to_rgb(tint))
    return {"facecolor": pale, "edgecolor": tint, "linewidth": 1.1, "linestyle": "-" if kind == "emulated" else (0, (1, 1)), "zorder": 3}


def curve(tint, kind="measured"):
    """Keyword arguments of `plot` for a line through points: solid where measured or emulated, dotted where modelled."""
    return {"color": tint, "linestyle": (0, (1, 1.2)) if kind == "modelled" else "-", "linewidth": 1.4, "zorder": 2.5}


def scatter(axes, points):
    """Draws (x, y, keyword arguments of `scatter`): one call per look, a hundred times faster than one per point."""
    looks = {}
    for x, y, look in points:
        _, xs, ys = looks.setdefault(repr(sorted(look.items())), (look, [], []))
        xs.append(x)
        ys.append(y)
    for look, x, y in looks.values():
        axes.scatter(x, y, **look)


def link_name(link, rate=float("nan")):
    """A link's name with its measured rate, for titles."""
    if math.isfinite(rate):
        return f"{link} ({rate * 1000:.3g} Mbit/s)" if rate < 1 else f"{link} ({rate:.3g} Gbit/s)"
    return f"{link} (shared memory)" if link == "shm" else link or "no link"


# ---- canvases ------------------------------------------------------------------------------------------------------


def canvas(rows, columns, height, legend_rows=0, width=WIDTH, foot="", **subplots):
    """A figure whose panels leave `legend_rows` lines free at the top for `legend`. `height` is the panels' height. `foot` is
    written below all panels: where the numbers are from, when not from this run."""
    apply()
    band = 0.24 * legend_rows + (0.08 if legend_rows else 0.0)
    below = 0.24 if foot else 0.0
    total = height + band + below
    figure, axes = plt.subplots(rows, columns, figsize=(width, total), squeeze=False, **subplots)
    figure.set_layout_engine(
        ConstrainedLayoutEngine(
            rect=(0.0, below / total, 1.0, 1.0 - (band + below) / total),
            w_pad=0.06,
            h_pad=0.06,
            wspace=0.03,
            hspace=0.04,
        )
    )
    if foot:
        figure.text(0.995, 0.05 / total, foot, ha="right", va="bottom", fontsize=7.5, color=SOFT)
    return figure, axes


def legend(figure, handles, columns):
    """One legend for the whole figure, in the band at its top."""
    if handles:
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0),
            ncol=columns,
            handletextpad=0.5,
            columnspacing=1.6,
            borderaxespad=0.2,
        )


def legend_rows(handles, columns):
    return math.ceil(len(handles) / columns)


def family_handles(families):
    order = list(FAMILY_COLOURS)
    rank = lambda name: (order.index(name) if name in order else len(order), name)
    return [
        Line2D([], [], marker="o", linestyle="", color=colour(f), markersize=6.5, label=f)
        for f in sorted(set(families), key=rank)
    ]


def protocol_handles(pairs):
    """One entry per (form, protocol) that occurs; the form is named only where it is not `fair`."""
    known = [pair for pair in _MARKERS if pair in set(pairs)] + sorted(set(pairs) - set(_MARKERS))
    return [
        Line2D(
            [],
            [],
            marker=marker(*pair),
            linestyle="",
            color=SOFT,
            markersize=6,
            label=(pair[1] or "no protocol").replace("_", " ")
            + ("" if pair[0] == "fair" else f", {pair[0]}"),
        )
        for pair in known
    ]


def kind_handles(kinds, measured=False):
    """Entries for points that are not plainly measured; with `measured` for those, too, where several kinds stand together."""
    looks = {
        "measured": {"markeredgecolor": "white"},
        "emulated": {"markerfacecolor": "white"},
        "published": {"marker": "*", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 9},
    }
    shown = [
        k
        for k in ("measured", "emulated", "modelled", "published")
        if k in kinds and (k != "measured" or (measured and len(kinds) > 1))
    ]
    dotted = {"fill": False, "edgecolor": SOFT, "linestyle": (0, (1, 1)), "linewidth": 1.2}  # a marker's edge cannot be
    plain = {"marker": "o", "linestyle": "", "color": SOFT, "markersize": 6.5}
    return [
        plt.Rectangle((0, 0), 1, 1, label=k, **dotted) if k == "modelled" else Line2D([], [], **{**plain, "label": k, **looks[k]})
        for k in shown
    ]


def empty_panel(axes, reason):
    """An explicit "no data because ..." in place of a panel."""
    axes.set_axis_off()
    axes.text(
        0.5,
        0.5,
        wrap(reason, 62),
        ha="center",
        va="center",
        transform=axes.transAxes,
        fontsize=9,
        color=SOFT,
        bbox={"boxstyle": "round,pad=0.8", "facecolor": "#f5f7fa", "edgecolor": GRID},
    )


def wrap(text, width):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join(lines + [line])


def log_limits(values, pad=0.12):
    """Limits of a logarithmic axis around the positive finite values, at least a factor of 2 apart."""
    values = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    low, high = float(np.min(values)), float(np.max(values))
    if high < 2 * low:
        low, high = low / math.sqrt(2), high * math.sqrt(2)
    room = (high / low) ** pad
    return low / room, high * room


def number_ticks(axis, low, high):
    """Plain numbers (0.5, 1, 2, 5, ...) as ticks of a logarithmic axis that spans a few decades."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [m * 10.0**e for e in exponents for m in steps if low <= m * 10.0**e <= high]
        if len(ticks) >= (4 if len(steps) == 1 else 3):
            break
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axis.set_major_formatter(
        matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:.4g}" if 1e-4 <= v < 1e5 else f"{v:.0e}")
    )
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


# ---- labels ----------------------------------------------------------------------------------------------------------


def freeze_layout(figure):
    """Runs the layout once and keeps it, so that pixel positions are final. Without an engine, not with the engine "none": savefig draws twice where there is any."""
    with contextlib.suppress(ValueError):  # as where matplotlib draws: without a layout a picture can still be read
        figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)


def _box(x, y, width, height):
    return x, y, x + width, y + height


def _overlap(a, b):
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


def place_labels(axes, labels, avoid=(), fontsize=7.5):
    """Writes (x, y, text, colour) beside their points so that no two labels overlap and none leaves the panel; a label
    that has to move away keeps a hairline to its point. Points in `avoid` are covered only if need be. Returns the texts for which no free place was found.

    Call after `freeze_layout`: greedy, nearest free place of 16 directions and growing distance."""
    renderer = axes.figure.canvas.get_renderer()
    scale = axes.figure.dpi / 72.0
    left, bottom, right, top = axes.get_window_extent(renderer).extents.tolist()
    to_pixels = lambda x, y: axes.transData.transform((x, y)).tolist()
    points = [to_pixels(x, y) for x, y, _, _ in labels]
    obstacles = [to_pixels(x, y) for x, y in avoid] + points
    # Boxes are (left, bottom, right, top) in plain numbers: every place is compared with every box, which with matplotlib's own takes seconds.
    taken = [
        tuple(Text.get_window_extent(text, renderer).extents.tolist())
        for text in axes.texts
        if text.get_text() and text.get_visible()
    ]
    dots = [_box(px - 4 * scale, py - 4 * scale, 8 * scale, 8 * scale) for px, py in obstacles]
    left_out = []
    for (x, y, text, tint), (px, py) in zip(labels, points):
        probe = axes.text(x, y, text, fontsize=fontsize)
        width, height = probe.get_window_extent(renderer).size.tolist()
        probe.remove()
        best = None
        for distance in (6, 10, 15, 21, 28, 36, 46, 58):
            if best is not None and best[0] <= distance:
                break  # no place this far away costs less
            for turn in range(16):
                angle = 2 * math.pi * ((turn + 1) // 2 * (-1) ** turn) / 16 + math.pi / 8
                cx = px + math.cos(angle) * (distance * scale + width / 2)
                cy = py + math.sin(angle) * (distance * scale + height / 2)
                box = _box(cx - width / 2 - scale, cy - height / 2 - scale, width + 2 * scale, height + 2 * scale)
                inside = left <= box[0] and box[2] <= right and bottom <= box[1] and box[3] <= top
                if not inside or any(_overlap(box, other) for other in taken):
                    continue
                hidden = sum(_overlap(box, dot) for dot in dots)
                cost = distance + 9 * hidden
                if best is None or cost < best[0]:
                    best = (cost, box, distance, cx, cy)
        if best is None:
            left_out.append(text)
            continue
        _, box, distance, cx, cy = best
        taken.append(box)
        ax, ay = axes.transData.inverted().transform((cx, cy))
        far = distance > 10
        axes.annotate(
            text,
            xy=(x, y),
            xytext=(ax, ay),
            fontsize=fontsize,
            color=tint,
            ha="center",
            va="center",
            zorder=5,
            path_effects=HALO,
            arrowprops=(
                {"arrowstyle": "-", "color": tint, "linewidth": 0.5, "alpha": 0.7, "shrinkA": 1, "shrinkB": 2}
                if far
                else None
            ),
        )
    return left_out
