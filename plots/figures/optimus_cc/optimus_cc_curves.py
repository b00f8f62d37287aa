"""Optimus-CC's Fig. 9, validation perplexity over training per stack."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C1", "optimus_cc.C2", "optimus_cc.C13")
COLUMNS = ("what", "arm", "stack", "step", "value", "seeds", "kind", "origin")


@Figure(
    title="Optimus-CC's curves: validation perplexity over training (Fig. 9's shape)",
    order=200,
    reads=Source.CLAIMS,
    how_to_read=(
        "One small GPT per arm, trained from the same weights on the same data, averaged over the seeds. Left: perplexity of"
        " held-out text, exp of the loss per byte. Right: loss above that of the uncompressed arm at the same step; the dashed"
        " line is the margin beyond which the claims call quality lost. Stacks have the paper's names; the other arms are the"
        " claims' stress tests and controls. All points are measured; the paper's own values are not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    arms = optimus_cc.arms_of(claims, *CLAIMS)
    if arms is None or not arms.curves:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses of training arms"))
    names = [a for a in arms.ordered() if a in arms.curves]
    tints = optimus_cc.colours(names)
    dense = arms.curves.get(arms.dense, {})
    for arm in names:
        for step, loss in sorted(arms.curves[arm].items()):
            drawing.rows.append(_row(arms, "perplexity", arm, step, math.exp(min(20.0, loss))))
            if arm != arms.dense and step in dense:
                drawing.rows.append(_row(arms, "difference", arm, step, loss - dense[step]))
    handles = optimus_cc.arm_handles(names, tints)
    figure, axes = style.canvas(
        1, 2, height=3.9, legend_rows=style.legend_rows(handles, 4), foot=claim_drawing.origin_note(arms.tables)
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    for panel, what in zip(axes[0], ("perplexity", "difference")):
        _panel(panel, [r for r in drawing.rows if r["what"] == what], tints)
    left, right = axes[0]
    left.set(title="validation perplexity", xlabel="optimiser step", ylabel="perplexity per byte")
    left.set_yscale("log")
    style.number_ticks(left.yaxis, *left.get_ylim())
    right.set(title="loss above the uncompressed arm", xlabel="optimiser step", ylabel="nats per token")
    right.axhline(0, color=tints.get(arms.dense, style.INK), linewidth=1.6, zorder=2)
    margin = optimus_cc.margin_of(arms.tables)
    if math.isfinite(margin):
        right.axhline(margin, color=style.SOFT, linestyle=(0, (4, 2)), linewidth=1.0, zorder=1.5)
    drawing.seen = _seen(arms, names, dense)
    return claim_drawing.finish(drawing, claims, arms.tables)


def _row(arms, what, arm, step, value):
    origin = next(t.claim for t in arms.tables if any(label == arm for label, _ in t.rows)).origin
    return {
        "what": what,
        "arm": arm,
        "stack": optimus_cc.stack_of(arm),
        "step": step,
        "value": value,
        "seeds": sum(math.isfinite(v) for v in arms.losses.get(arm, {}).values()),
        "kind": "measured",
        "origin": origin,
    }


def _panel(axes, rows, tints):
    for arm in dict.fromkeys(r["arm"] for r in rows):
        points = [(r["step"], r["value"]) for r in rows if r["arm"] == arm]
        axes.plot(*zip(*points), color=tints[arm], marker="o", markersize=3.5, linewidth=1.4, zorder=3)


def _seen(arms, names, dense):
    if not dense:
        return ["Without an uncompressed arm there is nothing to compare with."]
    last = max(dense)
    ends = {a: math.exp(arms.curves[a][last]) for a in names if last in arms.curves[a]}
    others = words.listing([f"{optimus_cc.label(a)} {ends[a]:.3f}" for a in ends if a != arms.dense], 12)
    text = f"After {last} steps (profile {arms.profile}) the uncompressed arm has a validation perplexity of {ends[arms.dense]:.3f} per byte"
    return [f"{text}; {others}." if others else f"{text}."]
