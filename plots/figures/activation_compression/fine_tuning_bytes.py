"""What is left of the accuracy above chance, against how many times fewer bytes the activations take on the links."""
import statistics

from plots.lib import claim_drawing, fine_tuning, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("task", "arm", "ratio", "retention", "low", "high", "origin")
FAMILIES = (("auto-encoder", "autoencoder"), ("Top-K", "topk"), ("Random-K", "randomk"), ("bits", "quantize"), ("PowerSGD", "powersgd"))


@Figure(
    title="Accuracy against link bytes in fine-tuning",
    order=422,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per task that counts. Up: what an arm has of the dense arm's metric above chance; 1 loses nothing, 0 is the commonest label everywhere. Right: the"
        " dense arm's bytes of activations and their gradients over the arm's, all links together. Points are means over seeds, lines reach from the worst seed to the best."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    results, tables = fine_tuning.results(claims)
    ratios = fine_tuning.ratios(claims)
    counting = {task: r for task, r in results.items() if r.counts}
    if not counting or not ratios:
        what = "link bytes of fine-tuning" if counting else "metrics of fine-tuned models on a task that counts"
        return drawing.skipped(claims.why_none_of("fine_tuning_drop", what=what))
    figure, axes = style.canvas(1, len(counting), height=3.4, legend_rows=2, foot=claim_drawing.origin_note(tables), sharey=True)
    drawing.figure = figure
    handles = {}
    for panel, (task, result) in zip(axes[0], counting.items()):
        dense, *arms = result.arms
        above = statistics.fmean(result.arms[dense]) - result.chance
        for arm in arms:
            parts = [(v - result.chance) / above for v in result.arms[arm]]
            if arm not in ratios:
                continue
            row = {"task": task, "arm": arm, "ratio": ratios[arm], "retention": statistics.fmean(parts), "low": min(parts), "high": max(parts), "origin": result.origin}
            drawing.rows.append(row)
            look = {"color": style.colour(_family(arm)), "marker": _mark(arm, arms)}
            panel.plot([row["ratio"]] * 2, [row["low"], row["high"]], color=look["color"], linewidth=1.4, alpha=0.7, zorder=2.5)
            panel.plot([row["ratio"]], [row["retention"]], markersize=6, linestyle="", zorder=3, **look)
            handles[arm] = style.Line2D([], [], label=arm, linestyle="", markersize=6, **look)
        panel.axhline(1, color=style.INK, linewidth=1, zorder=1)
        panel.axhline(0, color=style.SOFT, linewidth=0.8, linestyle=":", zorder=1)
        panel.set(xscale="log", title=f"{task}, {result.metric}", xlabel="times fewer bytes")
        low, high = style.log_limits([r["ratio"] for r in drawing.rows if r["task"] == task] + [1.0])
        panel.set_xlim(low, high)
        style.number_ticks(panel.xaxis, low, high)
    axes[0][0].set_ylabel("left of the metric above chance")
    style.legend(figure, list(handles.values()), 4)
    best = {task: max((r for r in drawing.rows if r["task"] == task and r["retention"] >= 0.9), key=lambda r: r["ratio"], default=None) for task in counting}
    drawing.seen = [
        f"{task}: the fewest bytes at 0.9 and more: {row['arm']}, {words.times(row['ratio'])} fewer." if row else f"{task}: no arm keeps 0.9." for task, row in best.items()
    ]
    return claim_drawing.finish(drawing, claims, tables)


def _family(arm):
    return next((family for word, family in FAMILIES if word in arm), arm)


def _mark(arm, arms):
    """Arms of one family apart."""
    same = [a for a in arms if _family(a) == _family(arm)]
    return "os^Dv"[same.index(arm) % 5]
