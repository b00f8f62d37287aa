"""How large gradients are, per kind of parameter, beside the log-normal of the same mean and deviation."""
import math

import numpy as np

from plots.lib import style, words
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("what", "kind", "step", "exponent", "share", "elements")
ZERO = -150  # results/row.h, exponent_of_zero
PANELS = 6
TINT = "#d55e00"


@Figure(
    title="How large gradients are: magnitudes per kind of parameter",
    order=81,
    reads=Source.BENCHES,
    under=Heading.ERROR,
    how_to_read=(
        "Share of a kind's elements (all layers together) per octave of their magnitude, as one micro-batch"
        " makes them; the largest kinds. Dashed: the earlier captured step, solid: the later. Thin grey: the"
        " log-normal of the later step's mean and deviation of log2; a threshold that is chosen for it misses"
        " where the two part. Zeros are not drawn; their share stands in the title."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    table = collected.magnitudes
    if not len(table):
        return drawing.without_data(
            "no data because the collected file holds no magnitudes (/magnitudes is empty): capture_traffic writes them."
        )
    sizes = {kind: int(rows.where(step=rows["step"].max())["count"].sum()) for (kind,), rows in table.groups("kind")}
    kinds = sorted(sizes, key=lambda kind: (-sizes[kind], kind))[:PANELS]
    figure, axes = style.canvas(-(-len(kinds) // 3), min(3, len(kinds)), height=2.6 * -(-len(kinds) // 3), legend_rows=1)
    line = lambda label, **look: style.Line2D([], [], label=label, **look)
    style.legend(
        figure,
        [
            line("earlier step", color=TINT, linestyle="--"),
            line("later step", color=TINT),
            line("log-normal", color=style.SOFT, linewidth=1),
        ],
        3,
    )
    drawing.figure = figure
    distances = {}
    for panel, kind in zip(axes.ravel(), kinds):
        distances[kind] = _panel(panel, kind, table.where(kind=kind), drawing.rows)
    for panel in axes.ravel()[len(kinds) :]:
        panel.set_visible(False)
    for row in axes:
        row[0].set_ylabel("share per octave")
    drawing.seen = _seen(distances)
    return drawing


def _panel(axes, kind, table, drawn):
    """Draws both steps; returns the largest distance between the later one's distribution and the log-normal's."""
    steps = sorted(set(int(step) for step in table["step"]))
    distance = zeros = 0.0
    for step, look in {steps[0]: (0, (4, 2)), steps[-1]: "-"}.items():
        here = table.where(step=step)
        order = np.argsort(here["exponent"], kind="stable")
        exponent, count = here["exponent"][order], here["count"][order].astype(float)
        elements = count.sum()
        zeros = float(count[exponent == ZERO].sum() / elements)
        exponent, count = exponent[exponent != ZERO], count[exponent != ZERO]
        if not len(count):
            continue
        share = count / elements
        axes.plot(2.0 ** (exponent + 0.5), share, color=TINT, linestyle=look, linewidth=1.4)
        drawn += [_row("measured", kind, step, e, s, c) for e, s, c in zip(exponent, share, count)]
        if step != steps[-1]:
            continue
        weight = count / count.sum()
        mean = float((weight * (exponent + 0.5)).sum())
        deviation = math.sqrt(float((weight * (exponent + 0.5 - mean) ** 2).sum()))
        if deviation > 0:
            below = lambda x: 0.5 * (1 + math.erf((x - mean) / (deviation * math.sqrt(2))))
            fitted = np.array([below(e + 1) - below(e) for e in exponent])
            axes.plot(2.0 ** (exponent + 0.5), fitted * (1 - zeros), color=style.SOFT, linewidth=1, zorder=1)
            drawn += [_row("log-normal", kind, step, e, f * (1 - zeros), float("nan")) for e, f in zip(exponent, fitted)]
            distance = float(np.max(np.abs(np.cumsum(weight) - np.array([below(e + 1) for e in exponent]))))
    name = kind.removesuffix(".weight")
    axes.set(xscale="log", title=name if zeros < 0.005 else f"{name} ({100 * zeros:.0f} % zeros)", xlabel="magnitude")
    axes.set_ylim(bottom=0)
    return distance


def _row(what, kind, step, exponent, share, elements):
    return {
        "what": what,
        "kind": kind,
        "step": int(step),
        "exponent": int(exponent),
        "share": float(share),
        "elements": float(elements),
    }


def _seen(distances):
    near = min(distances, key=distances.get)
    far = max(distances, key=distances.get)
    return [
        f"Farthest from a log-normal is {far}: the two distributions differ by up to {words.number(distances[far])} of its"
        f" elements; nearest is {near} ({words.number(distances[near])})."
    ]
