"""Optimus-CC's Fig. 9, validation perplexity over training per stack."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C1", "optimus_cc.C2", "optimus_cc.C13")
COLUMNS = ("ground", "what", "arm", "stack", "step", "value", "seeds", "kind", "origin")
DASHES = {2: "-", 4: (0, (5, 1.5)), 8: (0, (3, 1.5, 1, 1.5)), 16: (0, (1, 1.2))}


@Figure(
    title="Optimus-CC's curves: validation perplexity over training (Fig. 9's shape)",
    order=200,
    reads=Source.CLAIMS,
    how_to_read=(
        "One row per setting: M micro-batches in each pipeline; from scratch, or begun in training (all arms go on from the same uncompressed steps, which"
        " are not drawn). One small GPT per arm, trained from the same weights on the same data, averaged over the seeds. Left: perplexity of"
        " held-out text, exp of the loss per byte. Right: loss above that of the uncompressed arm at the same step; the dashed"
        " line is the margin beyond which the claims call quality lost. Stacks have the paper's names and colours, ranks their line; the other arms are the"
        " claims' stress tests and controls. All points are measured; the paper's own values are not available."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    grounds = [g for g in optimus_cc.grounds_of(claims, *CLAIMS) if g.curves and len(g.curves) > 1]
    if not grounds:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses of training arms"))
    names = sorted({a for g in grounds for a in g.curves}, key=optimus_cc.order)
    tints = optimus_cc.colours(names)
    tables = [t for g in grounds for t in g.tables]
    handles = [style.Line2D([], [], color=tints[a], label=optimus_cc.label(a), linestyle=_dashes(a), marker="o", markersize=4) for a in names]
    figure, axes = style.canvas(
        len(grounds), 2, height=0.6 + 2.9 * len(grounds), legend_rows=style.legend_rows(handles, 4), foot=claim_drawing.origin_note(tables)
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    margin = optimus_cc.margin_of(tables)
    for arms, (left, right) in zip(grounds, axes):
        rows = _rows(arms)
        drawing.rows += rows
        for panel, what in ((left, "perplexity"), (right, "difference")):
            _panel(panel, [r for r in rows if r["what"] == what], tints)
        left.set(title=arms.ground or "validation perplexity", xlabel="optimiser step", ylabel="perplexity per byte")
        left.set_yscale("log")
        style.number_ticks(left.yaxis, *left.get_ylim())
        right.set(title="loss above the uncompressed arm", xlabel="optimiser step", ylabel="nats per token")
        right.axhline(0, color=tints.get(arms.dense, style.INK), linewidth=1.6, zorder=2)
        if math.isfinite(margin):
            right.axhline(margin, color=style.SOFT, linestyle=(0, (4, 2)), linewidth=1.0, zorder=1.5)
        drawing.seen += _seen(arms)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(arms):
    dense = arms.curves.get(arms.dense, {})
    rows = []
    for arm in sorted(arms.curves, key=optimus_cc.order):
        for step, loss in sorted(arms.curves[arm].items()):
            rows.append(_row(arms, "perplexity", arm, step, math.exp(min(20.0, loss))))
            if arm != arms.dense and step in dense:
                rows.append(_row(arms, "difference", arm, step, loss - dense[step]))
    return rows


def _row(arms, what, arm, step, value):
    origin = next(t.claim for t in arms.tables if any(label == arm for label, _ in t.rows)).origin
    return {
        "ground": arms.ground,
        "what": what,
        "arm": arm,
        "stack": optimus_cc.stack_of(arm),
        "step": step,
        "value": value,
        "seeds": sum(math.isfinite(v) for v in arms.losses.get(arm, {}).values()),
        "kind": "measured",
        "origin": origin,
    }


def _dashes(arm):
    return DASHES.get(optimus_cc.rank_of(arm), "-")


def _panel(axes, rows, tints):
    for arm in dict.fromkeys(r["arm"] for r in rows):
        points = [(r["step"], r["value"]) for r in rows if r["arm"] == arm]
        axes.plot(*zip(*points), color=tints[arm], marker="o", markersize=3, linewidth=1.3, linestyle=_dashes(arm), zorder=3)


def _seen(arms):
    where = f"{arms.ground}: after" if arms.ground else "After"
    dense = arms.curves.get(arms.dense, {})
    if not dense:
        return [f"{arms.ground or 'One setting'} has no uncompressed arm, so there is nothing to compare with."]
    last = max(dense)
    ends = {a: math.exp(arms.curves[a][last]) for a in sorted(arms.curves, key=optimus_cc.order) if last in arms.curves[a]}
    others = words.listing([f"{optimus_cc.label(a)} {ends[a]:.3f}" for a in ends if a != arms.dense], 12)
    text = f"{where} {last} steps (profile {arms.profile}) the uncompressed arm has a validation perplexity of {ends[arms.dense]:.3f} per byte"
    return [f"{text}; {others}." if others else f"{text}."]
