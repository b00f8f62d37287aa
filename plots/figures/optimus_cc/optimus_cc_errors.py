"""Optimus-CC's Fig. 11, errors of messages against differences of activations on the last stage."""
import math

import numpy as np

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C10",)
COLUMNS = ("what", "training_percent", "pair", "activation", "value", "low", "high", "kind", "origin")
PAIRS = (("cosine", "cosine"), ("mean of e", "mean of e"), ("mean of dX", "mean of dX"))
TINTS = ("#7f9bb5", "#0072b2", "#d55e00", "#009e73", "#882255")


@Figure(
    title="Optimus-CC's errors: of messages, against differences of activations (Fig. 11's shape)",
    order=220,
    reads=Source.CLAIMS,
    how_to_read=(
        "On the last stage, all backward messages compressed with lazy error propagation, at three points of the training: e is what"
        " the compression of micro-batch i lost, dX the difference between the stage's inputs of micro-batches i and i+1. Left: their"
        " cosine, one point per pair of one seed's run. Middle: means of e and of dX over all elements. Right: mean cosine over all"
        " pairs with 95 % intervals over seeds, for the last stage's input and for inputs of layers on the sending boundary's other"
        " side; shaded is the claim's margin. Everything is measured; the paper's own values are not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    pairs = next((t for t in claims.tables(*CLAIMS, name="error and activation") if t.rows), None)
    others = next((t for t in claims.tables(*CLAIMS, name="other activations") if t.rows), None)
    if pairs is None:
        return drawing.skipped(claims.why_none(*CLAIMS, what="cosines of pairs"))
    tables = [t for t in (pairs, others) if t is not None]
    drawing.rows = _rows(pairs, others)
    checkpoints = sorted({r["training_percent"] for r in drawing.rows})
    tints = {c: TINTS[i % len(TINTS)] for i, c in enumerate(checkpoints)}
    handles = [
        style.Line2D([], [], color=tints[c], marker="o", linestyle="", markersize=5, label=f"{c:g} % of training") for c in checkpoints
    ]
    figure, axes = style.canvas(
        1, 3, height=3.5, legend_rows=1, foot=claim_drawing.origin_note(tables), width_ratios=(1.0, 1.0, 1.15)
    )
    style.legend(figure, handles, 5)
    drawing.figure = figure
    _cosines(axes[0, 0], [r for r in drawing.rows if r["what"] == "cosine"], tints)
    _means(axes[0, 1], [r for r in drawing.rows if r["what"].startswith("mean of")], tints)
    _summary(axes[0, 2], [r for r in drawing.rows if r["what"] == "mean cosine"], tints, _margin(pairs.claim))
    drawing.seen = _seen(drawing.rows, pairs)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(pairs, others):
    nan = float("nan")
    row = lambda what, at, pair, activation, numbers, claim: {
        "what": what,
        "training_percent": at,
        "pair": pair,
        "activation": activation,
        "value": numbers[0],
        "low": numbers[1],
        "high": numbers[2],
        "kind": "measured",
        "origin": claim.origin,
    }
    rows, counts = [], {}
    for _, values in pairs.rows:
        at = values["training (%)"]
        counts[at] = counts.get(at, 0) + 1
        for what, column in PAIRS:
            if math.isfinite(values[column]):
                rows.append(row(what, at, counts[at], "", (values[column], nan, nan), pairs.claim))
    for label, values in others.rows if others else ():
        numbers = (values["mean cosine"], values["low"], values["high"])
        rows.append(row("mean cosine", values["training (%)"], 0, label, numbers, others.claim))
    return rows


def _margin(claim):
    return next((m.margin for m in claim.measures if "cosine" in m.name and math.isfinite(m.margin)), float("nan"))


def _cosines(axes, rows, tints):
    for at, tint in tints.items():
        points = [(r["pair"], r["value"]) for r in rows if r["training_percent"] == at]
        if points:
            axes.scatter(*zip(*points), s=9, color=tint, linewidths=0, alpha=0.75, zorder=3)
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    reach = max(0.05, 1.15 * max(abs(r["value"]) for r in rows))
    axes.set(title="cosine of e and dX", xlabel="pair of micro-batches", ylabel="cosine", ylim=(-reach, reach))


def _means(axes, rows, tints):
    for what, marker in (("mean of e", "o"), ("mean of dX", "^")):
        for at, tint in tints.items():
            points = [(r["pair"], r["value"]) for r in rows if r["training_percent"] == at and r["what"] == what]
            if points:
                axes.scatter(*zip(*points), s=9, color=tint, marker=marker, linewidths=0, alpha=0.75, zorder=3)
    sizes = [abs(r["value"]) for r in rows if r["value"]]
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    if sizes:  # e is an error of a gradient, dX a difference of activations: orders of magnitude apart
        small = float(np.median([abs(r["value"]) for r in rows if r["what"] == "mean of e"] or sizes)) or min(sizes)
        small = 10.0 ** math.floor(math.log10(small))
        top = 10.0 ** math.ceil(math.log10(max(sizes)))
        axes.set_yscale("symlog", linthresh=small, linscale=0.6)
        decades = [small * 10.0**k for k in range(0, 20, max(1, round(math.log10(top / small)) // 3)) if small * 10.0**k <= 1.01 * top]
        axes.yaxis.set_major_locator(style.matplotlib.ticker.FixedLocator([s * d for d in decades for s in (-1, 1)] + [0]))
        axes.yaxis.set_major_formatter(style.matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:.0e}" if v else "0"))
        axes.yaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        axes.set_ylim(-2 * top, 600 * top)  # room for the legend
    axes.legend(
        handles=[
            style.Line2D([], [], color=style.SOFT, marker=m, linestyle="", markersize=4.5, label=w) for w, m in (("e", "o"), ("dX", "^"))
        ],
        loc="upper right",
        ncol=2,
        handletextpad=0.1,
        columnspacing=0.8,
    )
    axes.set(title="means over all elements", xlabel="pair of micro-batches", ylabel="mean (linear near 0)")


def _summary(axes, rows, tints, margin):
    axes.set_title("mean cosine [95 %]")
    if not rows:
        style.empty_panel(axes, style.wrap("no data because the claim holds no means over seeds.", 34))
        return
    names = list(dict.fromkeys(r["activation"] for r in rows))
    if math.isfinite(margin):
        axes.axvspan(-margin, margin, color="#e8eef4", zorder=0.5)
    for i, (at, tint) in enumerate(tints.items()):
        here = [r for r in rows if r["training_percent"] == at]
        y = [names.index(r["activation"]) + 0.2 * (i - (len(tints) - 1) / 2) for r in here]
        claim_drawing.whiskers(axes, y, [r["low"] for r in here], [r["high"] for r in here], [tint] * len(here), horizontal=True)
        style.scatter(axes, [(r["value"], at_, style.dot(tint, size=30)) for r, at_ in zip(here, y)])
    axes.axvline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    axes.set_yticks(range(len(names)), [style.wrap(n, 20) for n in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("cosine")
    axes.xaxis.set_major_locator(style.matplotlib.ticker.MaxNLocator(5))


def _seen(rows, pairs):
    seen = []
    for at in sorted({r["training_percent"] for r in rows}):
        of = {what: [r["value"] for r in rows if r["what"] == what and r["training_percent"] == at] for what, _ in PAIRS}
        if of["cosine"]:
            seen.append(
                f"At {at:g} % of training the cosine of {len(of['cosine'])} pairs has mean {np.mean(of['cosine']):+.4f} and root mean"
                f" square {math.sqrt(np.mean(np.square(of['cosine']))):.4f}; e has mean {words.number(float(np.mean(of['mean of e'])))}, dX"
                f" {words.number(float(np.mean(of['mean of dX'])))} ({pairs.name.split(', ')[-1]})."
            )
    return seen
