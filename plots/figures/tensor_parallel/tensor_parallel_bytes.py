"""What a rank receives under each scheme, against batch and against the number of ranks."""
import math
import re

from plots.lib import claim_drawing, style, tensor_parallel, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C5",)
COLUMNS = ("panel", "method", "scheme", "policy", "ranks", "batch", "million_elements", "kind", "origin")


@Figure(
    title="1-D, 2-D, 2.5-D, 3-D: what a rank receives per sequence and layer",
    order=320,
    reads=Source.CLAIMS,
    how_to_read=(
        "Elements that one rank receives in the forward and backward pass of a Transformer layer, per sequence (s = 512, h = 8192), by"
        " the formulas that the counters of real runs are held against (claim C4). Left against the batch on 64 ranks: 1-D sends"
        " activations only, a grid also weights, so small batches favour 1-D; rings mark the crossings. Right against the number of"
        " ranks at a batch of 32, where a scheme has such a grid. 3-D solid: gathered tensors kept; dashed: gathered again; dotted: as"
        " the first released code. Crosses: counted on 64 running ranks (claim C5b) with h and s divided by 32, times 32²; biases and layernorms,"
        " which the formulas leave out here, weigh 32 times as much there."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    batch = [t for t in claims.tables(*CLAIMS, name="over the batch") if t.rows][:1]
    ranks = [t for t in claims.tables(*CLAIMS, name="over ranks") if t.rows][:1]
    if not batch or not ranks:
        return drawing.skipped(claims.why_none(*CLAIMS, what="bytes by formula"))
    counted = [t for t in claims.tables("tensor_parallel.C5b", name="64 ranks") if t.rows][:1]
    drawing.rows = _over_batch(batch[0]) + _over_ranks(ranks[0]) + [r for t in counted for r in _counted(t)]
    if not counted:
        drawing.gaps.append("Without counted points: " + claims.why_none("tensor_parallel.C5b", what="counted elements"))
    schemes = {r["scheme"] for r in drawing.rows}
    handles = tensor_parallel.scheme_handles(schemes, line=True) + [
        style.Line2D([], [], color=tensor_parallel.COLOURS["3-D"], linestyle=line, label=f"3-D, {policy}")
        for policy, line in tensor_parallel.POLICY_LINES.items()
        if any(r["policy"] == policy for r in drawing.rows)
    ]
    handles.append(style.Line2D([], [], marker="o", linestyle="", markersize=9, markerfacecolor="none", markeredgecolor=style.INK, label="as much as 1-D"))
    if counted:
        handles.append(style.Line2D([], [], marker="x", linestyle="", markersize=6, markeredgewidth=1.6, color=style.INK, label="counted on 64 ranks (C5b)"))
    figure, axes = style.canvas(1, 2, height=4.3, legend_rows=style.legend_rows(handles, 5), foot=claim_drawing.origin_note(batch + ranks + counted))
    style.legend(figure, handles, 5)
    drawing.figure = figure
    crossings = _batch_panel(axes[0, 0], [r for r in drawing.rows if r["panel"] == "batch"])
    for r in drawing.rows:
        if r["kind"] == "measured":
            axes[0, 0].plot([r["batch"]], [r["million_elements"]], marker="x", markersize=7, markeredgewidth=1.6, linestyle="", color=tensor_parallel.COLOURS[r["scheme"]], zorder=5)
    _rank_panel(axes[0, 1], [r for r in drawing.rows if r["panel"] == "ranks"])
    drawing.rows += crossings
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, batch + ranks + counted)


def _row(table, panel, label, ranks, batch, value):
    return {
        "panel": panel, "method": label, "scheme": tensor_parallel.scheme_of(label), "policy": tensor_parallel.policy_of(label), "ranks": int(ranks),
        "batch": batch, "million_elements": value, "kind": "modelled", "origin": table.claim.origin,
    }  # fmt: skip


def _over_batch(table):
    methods = [c for c in table.columns if c != "batch"]
    return [_row(table, "batch", m, 64, values["batch"], values[m]) for _, values in table.rows for m in methods]


def _over_ranks(table):
    return [_row(table, "ranks", label, values["ranks"], 32.0, values["million elements"]) for label, values in table.rows]


def _counted(table):
    """Counters of a layer of h / 32 and s / 32, without recomputation, times 32 squared; s = 512 as the curves."""
    rows = []
    for label, values in table.rows:
        found = re.search(r"batch (\d+), s = 512/32", label)
        if found:
            rows.append({**_row(table, "counted", label, 64, float(found[1]), table.number(values, "step", without=("recomputation",)) * 32**2 * 1e-6), "kind": "measured"})
    return rows


def _crossing(line, grid):
    """(batch, value) where two curves over the batch meet; between points both are A + B / b, so two points give it exactly."""
    points = sorted(set(line) & set(grid))
    for a, b in zip(points, points[1:]):
        before, after = grid[a] - line[a], grid[b] - line[b]
        if before > 0 >= after:
            slope = (before - after) / (1 / a - 1 / b)  # d(grid - line) / d(1/b)
            inverse = 1 / b - after / slope
            return 1 / inverse
    return None


def _batch_panel(axes, rows):
    methods = list(dict.fromkeys(r["method"] for r in rows))
    of = {m: {r["batch"]: r["million_elements"] for r in rows if r["method"] == m} for m in methods}
    line = next(m for m in methods if tensor_parallel.scheme_of(m) == "1-D")
    crossings, labels = [], []
    for m in methods:
        scheme, policy = tensor_parallel.scheme_of(m), tensor_parallel.policy_of(m)
        x, y = zip(*sorted(of[m].items()))
        axes.plot(x, y, color=tensor_parallel.COLOURS[scheme], linestyle=tensor_parallel.POLICY_LINES.get(policy, "-"), linewidth=1.5, zorder=2.5)
        at = None if m == line else _crossing(of[line], of[m])
        if at:
            level = next(iter(of[line].values()))
            axes.scatter([at], [level], s=80, facecolors="none", edgecolors=style.INK, linewidths=1.1, zorder=4)
            labels.append((at, level, f"{tensor_parallel.name_of(m)}: b = {words.number(at, 3)}", tensor_parallel.COLOURS[scheme]))
            first = next(r for r in rows if r["method"] == m)
            crossings.append({**first, "panel": "crossing with 1-D", "batch": at, "million_elements": level})
    axes.set(xscale="log", yscale="log", xlabel="batch (sequences)", ylabel="million elements per sequence and layer", title="64 ranks, against the batch")
    for axis, values in ((axes.xaxis, [r["batch"] for r in rows]), (axes.yaxis, [r["million_elements"] for r in rows])):
        style.number_ticks(axis, min(values), max(values))
    labels.sort()
    for i, (x, y, text, tint) in enumerate(labels):
        axes.annotate(
            text, xy=(x, y), xytext=(0.42, 0.96 - 0.055 * i), textcoords="axes fraction", fontsize=7.5, color=tint, va="center",
            arrowprops={"arrowstyle": "-", "color": tint, "linewidth": 0.5, "alpha": 0.6, "shrinkB": 5, "relpos": (0, 0.5)},
        )  # fmt: skip
    return crossings


def _rank_panel(axes, rows):
    for scheme in tensor_parallel.SCHEMES:
        for policy in ("", "keep", "again", "again-literally"):
            points = sorted((r["ranks"], r["million_elements"]) for r in rows if r["scheme"] == scheme and r["policy"] == policy)
            if not points:
                continue
            x, y = zip(*points)
            tint = tensor_parallel.COLOURS[scheme]
            if scheme != "2.5-D":  # several depths to a number of ranks: points only
                axes.plot(x, y, color=tint, linestyle=tensor_parallel.POLICY_LINES.get(policy, "-"), linewidth=1.3, zorder=2.5)
            axes.scatter(x, y, **{**style.dot(tint, tensor_parallel.MARKERS[scheme], size=30), "facecolors": "white", "edgecolors": tint})
    axes.set(xscale="log", yscale="log", xlabel="ranks", title="batch 32, against the number of ranks")
    for axis, values in ((axes.xaxis, [r["ranks"] for r in rows]), (axes.yaxis, [r["million_elements"] for r in rows])):
        style.number_ticks(axis, min(values), max(values))


def _seen(rows):
    crossings = [r for r in rows if r["panel"] == "crossing with 1-D"]
    seen = []
    if crossings:
        seen.append(
            "On 64 ranks a rank receives more than under 1-D below a batch of "
            + words.listing([f"{words.number(r['batch'], 3)} ({tensor_parallel.name_of(r['method'])})" for r in sorted(crossings, key=lambda r: r["batch"])], 12)
            + "."
        )
    at = lambda batch, wanted: {r["method"]: r["million_elements"] for r in rows if r["panel"] == "batch" and r["batch"] == batch and wanted(r)}
    for batch in (32.0, 512.0):
        found = at(batch, lambda r: True)
        if found:
            least = min(found, key=found.get)
            line = next(v for m, v in found.items() if tensor_parallel.scheme_of(m) == "1-D")
            square = next((v for m, v in found.items() if tensor_parallel.scheme_of(m) == "2-D"), math.nan)
            seen.append(
                f"At a batch of {batch:g} {tensor_parallel.name_of(least)} receives least: {words.number(found[least] / line, 2)} of 1-D,"
                f" {words.number(found[least] / square, 2)} of 2-D."
            )
    counted = [r for r in rows if r["panel"] == "counted"]
    if counted:
        listed = [f"{tensor_parallel.name_of(r['method'].split(', batch')[0])} {words.number(r['million_elements'], 3)}" for r in counted]
        seen.append(f"Counted on 64 ranks at the paper's batches, in million elements: {words.listing(listed)}.")
    few = sorted({r["ranks"] for r in rows if r["panel"] == "ranks"})
    for p in (few[1] if len(few) > 1 else few[0], 64):
        found = {r["method"]: r["million_elements"] for r in rows if r["panel"] == "ranks" and r["ranks"] == p}
        if len(found) > 1:
            least = min(found, key=found.get)
            seen.append(f"On {p} ranks at a batch of 32 the least is that of {tensor_parallel.name_of(least)}, {words.number(found[least], 3)} million elements.")
    return seen
