"""What coded activations cost fine-tuning, codec by task: the way the paper's tables are read."""
import math
import statistics

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize

from plots.lib import claim_drawing, fine_tuning, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("task", "metric", "arm", "value", "drop", "counts", "origin")
LOSES = LinearSegmentedColormap.from_list("loses", ["#a9cfe5", "#f7f7f5", "#f3c48b", "#c9741a", "#7f3b08"])
MOST = 30  # points; more is drawn alike


@Figure(
    title="Accuracy that coded activations cost in fine-tuning, by codec and task",
    order=421,
    reads=Source.CLAIMS,
    how_to_read=(
        "Each box: points of the task's metric (100 times accuracy, or correlation) that the arm loses against the dense arm, mean over seeds, below it the"
        " metric itself. Orange loses, blue gains. A task counts only if pre-training gains at least 2 points over a model from scratch (lower end of the"
        " interval above 0), and the dense arm is 5 points above chance; the others are marked NO TEST. These tasks resemble GLUE's in form only: never call the numbers GLUE scores."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    results, tables = fine_tuning.results(claims)
    if not results:
        return drawing.skipped(claims.why_none_of("fine_tuning_drop", what="metrics of fine-tuned models"))
    tasks, arms = list(results), list(next(iter(results.values())).arms)
    drops = np.full((len(arms), len(tasks)), math.nan)
    figure, axes = style.canvas(1, 1, height=1.1 + 0.42 * len(arms), foot=claim_drawing.origin_note(tables))
    drawing.figure, panel = figure, axes[0, 0]
    for x, task in enumerate(tasks):
        result = results[task]
        dense = statistics.fmean(result.arms[arms[0]])
        for y, arm in enumerate(arms):
            if arm not in result.arms:
                continue
            value = statistics.fmean(result.arms[arm])
            drops[y, x] = 100 * (dense - value)
            drawing.rows.append({"task": task, "metric": result.metric, "arm": arm, "value": value, "drop": drops[y, x], "counts": int(result.counts), "origin": result.origin})
            strong = drops[y, x] > 0.5 * MOST
            panel.text(x, y - 0.13, f"{drops[y, x]:+.1f}" if y else "dense", ha="center", va="center", fontsize=8.5, color="white" if strong else style.INK)
            panel.text(x, y + 0.22, f"{value:.3f}", ha="center", va="center", fontsize=7, color="white" if strong else style.SOFT)
    picture = panel.imshow(drops, cmap=LOSES, norm=Normalize(-MOST / 3, MOST), aspect="auto")
    panel.grid(False)
    panel.set_xticks(range(len(tasks)), [f"{t}, {results[t].metric}" + ("" if results[t].counts else "\nNO TEST") for t in tasks])
    panel.set_yticks(range(len(arms)), arms)
    panel.tick_params(length=0)
    panel.set_title(fine_tuning.title(results))
    figure.colorbar(picture, ax=panel, label="points lost", pad=0.02)
    drawing.seen = [_seen(arm, drops[y], tasks, results) for y, arm in enumerate(arms) if y > 0]
    return claim_drawing.finish(drawing, claims, tables)


def _seen(arm, drops, tasks, results):
    counted = [d for d, t in zip(drops, tasks) if results[t].counts and math.isfinite(d)]
    if not counted:
        return f"{arm}: no task counts."
    return f"{arm} loses {words.number(statistics.fmean(counted))} points over {words.count(len(counted), 'task')} that count, {words.number(max(counted))} at most."
