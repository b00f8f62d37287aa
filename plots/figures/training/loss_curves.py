"""Loss of one model trained under several compression plans, against the optimiser step."""
import numpy as np

from plots.lib import plans, style, words
from plots.lib.entropy import entropy_of
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("what", "plan", "compresses", "runs", "step", "value")


@Figure(
    title="Loss against step: one model, trained under several compression plans",
    order=120,
    reads=Source.TRAINING_RUNS,
    under=Heading.ERROR,
    how_to_read=(
        "The same model, data and seed, trained once per compression plan; what a plan compresses stands"
        " in the table below. Left: training loss of each step's batch, as a running median. Middle: loss"
        " on held-out text. Right: how far the held-out loss is above that of the uncompressed plan at"
        " the same step; the scale is linear within ±0.01 and logarithmic beyond. Colour is the codec"
        " family, the marker the traffic class that is compressed."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    runs = plans.load(collected)
    curves = list(runs.curves.values())
    drawing.gaps += runs.notes
    if not curves:
        return drawing.without_data(plans.why_none(collected, "training loss", "training_curve"))
    drawing.rows = _rows(curves, runs.curves.get(runs.dense.name) if runs.dense else None)
    entropy = _bigram_entropy(collected, drawing)
    if entropy is not None:
        drawing.rows.append(_row("bigram_entropy", None, -1, entropy))
    handles = plans.handles([c.plan for c in curves])
    if entropy is not None:
        handles.append(style.Line2D([], [], color=style.SOFT, linestyle=(0, (2, 2)), label="bigram entropy"))
    figure, axes = style.canvas(1, 3, height=3.7, legend_rows=style.legend_rows(handles, 6))
    style.legend(figure, handles, 6)
    drawing.figure = figure
    for panel, what, title in zip(
        axes[0],
        ("training", "validation", "difference"),
        ("training loss", "validation loss", "validation loss minus dense"),
    ):
        _panel(panel, what, curves, drawing)
        panel.set_title(title)
        if entropy is not None and what != "difference" and panel.axison:
            panel.axhline(entropy, color=style.SOFT, linestyle=(0, (2, 2)), linewidth=1.1, zorder=1.5)
    drawing.tables = [("The plans", *plans.overview(runs))]
    drawing.seen = _seen(runs, entropy)
    return drawing


def _row(what, curve, step, value):
    return {
        "what": what,
        "plan": curve.plan.name if curve else "",
        "compresses": curve.plan.described() if curve else "",
        "runs": curve.runs if curve else 0,
        "step": int(step),
        "value": float(value),
    }


def _rows(curves, dense):
    rows = []
    reference = dict(zip(*dense.validated()[:2])) if dense else {}
    for curve in curves:
        known = np.isfinite(curve.loss)
        loss = curve.loss[known]
        width = max(1, len(loss) // 40)  # a running median over 5 % of the run
        smooth = [np.median(loss[max(0, i - width) : i + width + 1]) for i in range(len(loss))]
        rows += [_row("training", curve, s, v) for s, v in zip(curve.step[known], smooth)]
        steps, losses, _ = curve.validated()
        rows += [_row("validation", curve, s, v) for s, v in zip(steps, losses)]
        if dense and curve is not dense:
            rows += [
                _row("difference", curve, s, v - reference[s])
                for s, v in zip(steps, losses)
                if s in reference
            ]
    return rows


def _panel(axes, what, curves, drawing):
    drawn = []
    for curve in curves:
        here = [
            (r["step"], r["value"])
            for r in drawing.rows
            if r["what"] == what and r["plan"] == curve.plan.name
        ]
        if not here:
            continue
        steps, values = zip(*here)
        drawn += values
        look = dict(curve.plan.look)
        look.update({"marker": ""} if what == "training" else {"markersize": 3.5})
        axes.plot(steps, values, **look)
    if not drawn:
        reason = {
            "training": "no data because no run holds a finite training loss.",
            "validation": "no data because no run was validated.",
            "difference": "no data because no compressed plan was validated at a step of the dense plan.",
        }[what]
        style.empty_panel(axes, style.wrap(reason, 34))
        drawing.gaps.append(f"{what}: {reason}")
        return
    axes.set(xlabel="optimiser step", ylabel="nats per token")
    if what == "difference":
        axes.axhline(0, color=style.colour("none"), linewidth=1.6, zorder=2)
        axes.set_yscale("symlog", linthresh=0.01, linscale=0.7)
        low, high = min(-0.01, *drawn), max(0.01, *drawn)
        ticks = [s * m for m in (0.01, 0.03, 0.1, 0.3, 1, 3, 10) for s in (-1, 1)] + [0.0]
        axes.set_ylim(1.3 * low, 1.3 * high)
        axes.yaxis.set_major_locator(
            style.matplotlib.ticker.FixedLocator(sorted(t for t in ticks if 1.3 * low <= t <= 1.3 * high))
        )
        axes.yaxis.set_major_formatter(
            style.matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:+.2g}" if v else "0")
        )
        axes.yaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())


def _bigram_entropy(collected, drawing):
    """The bigram entropy of the text, if the file names it and it belongs to the text that was trained on."""
    value = entropy_of(collected.training_attributes, "bigram")
    trained = {c for c in collected.training_cells["corpus"] if c}
    captured = {c for c in collected.cells["corpus"] if c}
    if value is not None and trained and captured and not trained & captured:
        drawing.gaps.append("no entropy line because the file knows the entropy of another text only.")
        return None
    return value


def _seen(runs, entropy):
    seen = []
    ends = {n: float(c.validated()[1][-1]) for n, c in runs.curves.items() if len(c.validated()[1])}
    dense = runs.dense.name if runs.dense else None
    if dense in ends:
        steps = int(runs.curves[dense].step[-1]) + 1
        text = (
            f"After {words.count(steps, 'step')} the uncompressed plan reaches a validation loss of"
            f" {ends[dense]:.3f} nats per token"
        )
        if entropy is not None:
            gap = entropy - ends[dense]
            text += f", {abs(gap):.2f} {'below' if gap > 0 else 'above'} the bigram entropy of the text" + (
                ": it uses more context than one byte" if gap > 0 else ""
            )
        seen.append(text + ".")
        gaps = {n: v - ends[dense] for n, v in ends.items() if n != dense}
        near = sorted((n for n, d in gaps.items() if abs(d) <= plans.NEAR * ends[dense]), key=gaps.get)
        worse = sorted((n for n, d in gaps.items() if d > plans.NEAR * ends[dense]), key=gaps.get)
        better = sorted((n for n, d in gaps.items() if d < -plans.NEAR * ends[dense]), key=gaps.get)
        near_text = f"within {100 * plans.NEAR:.0f} % of it"
        change = lambda n: plans.signed(gaps[n])
        if near:
            seen.append(f"{plans.named(near, change)} end{'s' if len(near) == 1 else ''} {near_text}.")
        if worse:
            seen.append(
                f"Visibly worse at the end {'is' if len(worse) == 1 else 'are'} {plans.named(worse, change)}."
            )
        if better:
            seen.append(
                f"{plans.named(better, change)} end{'s' if len(better) == 1 else ''} lower than the"
                " uncompressed plan."
            )
        if gaps and all(runs.curves[n].runs == 1 for n in [dense, *gaps]):
            seen.append("Every plan was trained once, so the spread between seeds is unknown.")
    elif ends:
        best = min(ends, key=ends.get)
        seen.append(
            "Without an uncompressed run there is nothing to compare with; the lowest validation loss is"
            f" {ends[best]:.3f} ('{best}')."
        )
    else:
        curve = min(runs.curves.values(), key=lambda c: c.loss[np.isfinite(c.loss)][-1])
        seen.append(
            "No run was validated; the lowest training loss at the end is"
            f" {curve.loss[np.isfinite(curve.loss)][-1]:.3f} ('{curve.plan.name}')."
        )
    return seen
