"""Validation loss against time, on each link."""
import math

import numpy as np

from plots.lib import data, plans, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("link", "plan", "compresses", "step", "step_ms", "seconds", "validation_loss", "trusted")


@Figure(
    title="Loss against time: on each link",
    order=140,
    reads=Source.TRAINING_RUNS,
    how_to_read=(
        "Loss of each plan by step, drawn at step × the median time of that plan's step on the link. Step"
        " times were measured on the link with timed compute (each piece of computing replayed as a wait"
        " of the duration it has alone on a core), losses in a run with real compute: numerics do not"
        " depend on the link. A star behind a plan marks times of a link that was off its calibration."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    runs = plans.load(collected)
    drawing.gaps += runs.notes
    drawing.how_to_read += plans.processors(runs)
    curves = {name: c for name, c in runs.curves.items() if len(c.validated()[0])}
    links = [link for link in runs.links if any((name, link) in runs.times for name in curves)]
    if not links:
        return drawing.without_data(_why(collected, runs, curves))
    shown = [runs.curves[p.name].plan for p in runs.plans if p.name in curves]
    handles = plans.handles(shown)
    columns = min(3, len(links))
    figure, axes = style.canvas(
        math.ceil(len(links) / columns),
        columns,
        height=3.5 * math.ceil(len(links) / columns),
        legend_rows=style.legend_rows(handles, 6),
    )
    style.legend(figure, handles, 6)
    drawing.figure = figure
    for panel in axes.flat[len(links) :]:
        panel.set_visible(False)
    for panel, link in zip(axes.flat, links):
        if missing := plans.without_times(runs, link):
            drawing.gaps.append(missing)
        _panel(panel, link, runs, curves, drawing)
        panel.set_title(style.link_name(link, data.rate_of(collected.all_cells, link)))
        drawing.seen += _seen(link, runs, curves)
    return drawing


def _why(collected, runs, curves):
    if not runs.curves:
        return plans.why_none(collected, "training loss", "training_curve")
    if not curves:
        return "no data because no training run was validated."
    if not runs.times:
        return plans.why_none(collected, "valid step times", "training_time")
    return "no data because no plan has both a loss curve and a step time."


def _panel(axes, link, runs, curves, drawing):
    here = []
    for name, curve in curves.items():
        time = runs.times.get((name, link))
        if time is None:
            continue
        steps, losses, _ = curve.validated()
        here += [
            {
                "link": link,
                "plan": name,
                "compresses": curve.plan.described(),
                "step": int(step),
                "step_ms": time.step_ms,
                "seconds": (int(step) + 1) * time.step_ms / 1e3,
                "validation_loss": float(loss),
                "trusted": int(time.trusted),
            }
            for step, loss in zip(steps, losses)
        ]
    longest = max(r["seconds"] for r in here)
    unit, scale = ("min", 60.0) if longest > 300 else ("s", 1.0)
    for name, curve in curves.items():
        rows = [r for r in here if r["plan"] == name]
        if rows:
            axes.plot(
                [r["seconds"] / scale for r in rows],
                [r["validation_loss"] for r in rows],
                **curve.plan.look,
                markersize=3.5,
            )
            if not rows[0]["trusted"]:
                axes.annotate(
                    "*",
                    (rows[-1]["seconds"] / scale, rows[-1]["validation_loss"]),
                    xytext=(3, -2),
                    textcoords="offset points",
                    color=curve.plan.look["color"],
                )
    axes.set_xlim(left=0)
    axes.set(xlabel=f"time ({unit})", ylabel="validation loss (nats per token)")
    plans.draw_target(axes, runs)
    drawing.rows += here


def _seen(link, runs, curves):
    why_not, off = plans.no_verdict(runs, link)
    target = plans.target_of(runs)
    if why_not or not math.isfinite(target):
        return [why_not or f"On {link} there is no validated uncompressed plan to compare with."]
    dense, need = runs.dense.name, {}
    for name, curve in curves.items():
        if (name, link) in runs.times and name not in off:
            steps, losses, _ = curve.validated()
            need[name] = plans.reaches((steps + 1) * runs.times[name, link].step_ms / 1e3, losses, target)
    mine = need.pop(dense)
    text = (
        f"On {link} the uncompressed plan takes {words.microseconds(1e6 * mine)} to a validation loss of"
        f" {target:.3f}"
    )
    uncounted = [f"Not counted on {link}, which was off its calibration: {plans.named(off)}."] if off else []
    if not need:
        return [text + ".", *uncounted]
    gain = {n: mine / t for n, t in need.items() if np.isfinite(t)}
    faster = sorted((n for n in gain if gain[n] > data.PAYS), key=gain.get, reverse=True)
    slower = sorted((n for n in gain if gain[n] < 1 / data.PAYS), key=gain.get)
    alike = [n for n in gain if n not in faster and n not in slower]
    never = [n for n in need if n not in gain]
    named = lambda names: plans.named(names, lambda n: plans.factor(gain[n]))
    parts = [
        f"sooner there: {named(faster)}" if faster else "no plan gets there sooner",
        f"within {100 * (data.PAYS - 1):.0f} % of its time: {named(alike)}" if alike else "",
        f"later: {named(slower)}" if slower else "",
        f"never within this run: {plans.named(never)}" if never else "",
    ]
    return ["; ".join([text, *(p for p in parts if p)]) + ".", *uncounted]
