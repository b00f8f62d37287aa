"""Validation loss against what all ranks sent over the links to get there."""
import numpy as np

from plots.lib import plans, style, words
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("what", "plan", "compresses", "runs", "step", "link_bytes", "validation_loss")


@Figure(
    title="Loss against bytes: what all ranks send for it",
    order=130,
    reads=Source.TRAINING_RUNS,
    under=Heading.ERROR,
    how_to_read=(
        "Left: each line is a plan; a point is a validation, drawn at the bytes that all ranks together"
        " had sent by then (validation itself not counted). Further left is less traffic for the same"
        " loss. A plan that compresses only a small class starts where the dense plan does. Right: bytes"
        " until the plan first gets down to the dotted line of the left panel (between two validations by"
        " a straight line). The table counts one step by traffic class."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    runs = plans.load(collected)
    drawing.gaps += runs.notes
    curves = [c for c in runs.curves.values() if np.any(c.validated()[2] > 0)]
    if not curves:
        return drawing.without_data(
            "no data because no training run was validated."
            if runs.curves
            else plans.why_none(collected, "training loss", "training_curve")
        )
    for curve in curves:
        drawing.rows += [
            {
                "what": "curve",
                "plan": curve.plan.name,
                "compresses": curve.plan.described(),
                "runs": curve.runs,
                "step": int(step),
                "link_bytes": float(sent),
                "validation_loss": float(loss),
            }
            for step, loss, sent in zip(*curve.validated())
            if sent > 0
        ]
    handles = plans.handles([c.plan for c in curves])
    figure, axes = style.canvas(
        1, 2, height=4.2, legend_rows=style.legend_rows(handles, 7), gridspec_kw={"width_ratios": [1.5, 1]}
    )
    style.legend(figure, handles, 7)
    drawing.figure = figure
    panel = axes[0, 0]
    unit, scale = ("GB", 1e9) if max(r["link_bytes"] for r in drawing.rows) >= 2e9 else ("MB", 1e6)
    for curve in curves:
        here = [r for r in drawing.rows if r["plan"] == curve.plan.name]  # so far curves only
        panel.plot(
            [r["link_bytes"] / scale for r in here],
            [r["validation_loss"] for r in here],
            **curve.plan.look,
            markersize=4,
        )
    low, high = style.log_limits([r["link_bytes"] / scale for r in drawing.rows], pad=0.05)
    panel.set(xscale="log", xlim=(low, high), xlabel=f"sent by all ranks since the start ({unit})")
    panel.set(ylabel="validation loss (nats per token)", title="loss by bytes")
    style.number_ticks(panel.xaxis, low, high)
    plans.draw_target(panel, runs)
    _race(axes[0, 1], runs, curves, drawing, unit, scale)
    drawing.tables = _tables(runs, set(collected.training_time.where(compute="timed")["cell_id"]))
    drawing.seen = _seen(runs, curves)
    return drawing


def _race(axes, runs, curves, drawing, unit, scale):
    """Bars: bytes to the common target; a plan that never gets there is named without a bar."""
    target = plans.target_of(runs)
    axes.set_title(
        f"sent until the loss is {target:.3f}" if np.isfinite(target) else "sent until a common loss"
    )
    if not np.isfinite(target):
        reason = "no data because no uncompressed plan was validated: there is no common target."
        style.empty_panel(axes, style.wrap(reason, 40))
        drawing.gaps.append(reason)
        return
    needs = [plans.reaches(c.validated()[2], c.validated()[1], target) for c in curves]
    end = max((n for n in needs if np.isfinite(n)), default=1e6)
    base = next((n for n, c in zip(needs, curves) if c.plan.dense), float("nan"))
    for y, (need, curve) in enumerate(zip(needs, curves)):
        drawing.rows.append(
            {
                "what": "until_target",
                "plan": curve.plan.name,
                "compresses": curve.plan.described(),
                "runs": curve.runs,
                "step": -1,
                "link_bytes": need,
                "validation_loss": target,
            }
        )
        known = np.isfinite(need)
        if known:
            axes.barh(y, need / scale, height=0.66, color=curve.plan.look["color"], linewidth=0)
        share = f"  {100 * need / base:.0f} %" if known and not curve.plan.dense and base > 0 else ""
        note = words.megabytes(need) + share if known else "not reached in this run"
        axes.text(
            ((need if known else 0) + 0.015 * end) / scale,
            y,
            note,
            va="center",
            fontsize=7.5,
            color=style.SOFT,
            zorder=3,
        )
    axes.set_yticks(range(len(curves)), [c.plan.name for c in curves])
    axes.set_ylim(len(curves) - 0.4, -0.6)
    axes.set_xlim(0, 1.45 * end / scale)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"sent by all ranks ({unit})")


def _tables(runs, timed):
    rows = []
    for plan in runs.plans:
        table = runs.traffic.where(plan=plan.name)
        for (traffic, codec), one in sorted(
            table.groups("traffic", "codec"), key=lambda g: (plans.class_rank(g[0][0]), g[0])
        ):
            if codec in ("", "none") and not plan.dense:
                continue  # as in the dense plan
            dense, link = one.median("dense_bytes"), one.median("link_bytes")
            alone = one.where([cell in timed for cell in one["cell_id"]])  # encoding at its own pace
            rows.append(
                [
                    plan.name,
                    traffic,
                    codec or "none",
                    words.megabytes(dense),
                    words.megabytes(one.median("payload_bytes")),
                    words.megabytes(link),
                    words.microseconds(alone.median("encode_us")),
                    words.microseconds(alone.median("decode_us")),
                    words.number(one.median("relative_error")),
                ]
            )
    header = ["plan", "traffic", "codec", "dense", "payload", "on links", "encode", "decode", "error"]
    caption = (
        "One step by traffic class: bytes are sums over ranks, times (where compute was timed) means over"
        " ranks; of a plan only what it compresses"
    )
    return [(caption, header, rows)] if rows else []


def _seen(runs, curves):
    seen = []
    total = {c.plan.name: float(c.sent[np.isfinite(c.sent)][-1]) for c in curves}
    dense = runs.dense.name if runs.dense and runs.dense.name in total else None
    least = min(total, key=total.get)
    if dense and len(total) > 1:
        text = f"The uncompressed plan sends {words.megabytes(total[dense])} in all"
        if least != dense:
            text += (
                f"; '{least}' sends the least, {words.megabytes(total[least])},"
                f" {words.times(total[dense] / total[least])} less"
            )
        seen.append(text + ".")
    else:
        seen.append(
            f"'{least}' sends {words.megabytes(total[least])} in all, the least of"
            f" {words.count(len(total), 'plan')}."
        )
    target = plans.target_of(runs)
    if not (dense and np.isfinite(target)):
        return seen
    need = {c.plan.name: plans.reaches(c.validated()[2], c.validated()[1], target) for c in curves}
    goal = f"a validation loss of {target:.3f} ({100 * plans.NEAR:.0f} % above the uncompressed plan's last)"
    fewer = sorted((n for n in need if n != dense and need[n] < need[dense]), key=need.get)
    never = [n for n in need if not np.isfinite(need[n])]
    more = [n for n in need if need[n] >= need[dense] and n != dense]
    if fewer:
        share = lambda n: f"{100 * need[n] / need[dense]:.0f} %"
        seen.append(
            f"To {goal} the uncompressed plan sends {words.megabytes(need[dense])}; with fewer bytes get"
            f" there {plans.named(fewer, share)}."
        )
    if more:
        where = "there" if fewer else f"to {goal}"
        seen.append(
            f"{plans.named(more)} send{'s' if len(more) == 1 else ''} at least as much on the way {where}."
        )
    if never:
        there = "there" if fewer else f"to {goal}"
        seen.append(
            f"Within this run {plans.named(never)} never get{'s' if len(never) == 1 else ''} {there}."
        )
    return seen
