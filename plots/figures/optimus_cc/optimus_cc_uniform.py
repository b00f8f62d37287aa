"""Optimus-CC's claim C9, selected stages against uniform compression at equal step time."""
import math
import re

from plots.lib import claims as claims_of
from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C9",)
COLUMNS = ("what", "stages", "arm", "rank", "value", "low", "high", "seeds", "kind", "origin")
SELECTED, UNIFORM = "#009e73", "#d55e00"


@Figure(
    title="Optimus-CC's selected stages against uniform compression: losses at equal step time (claim C9)",
    order=260,
    reads=Source.CLAIMS,
    how_to_read=(
        "For each number K of compressed stages: SC compresses the gradients of the first K, the uniform arm those of all stages,"
        " at the rank whose modelled step time comes closest. Left: validation loss above the uncompressed arm, measured, with"
        " 95 % intervals over paired seeds. Middle: what selecting wins at each K and in the mean over K. Right: step times of"
        " both by the event model, hollow and dotted because nothing of them was measured."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    arms = optimus_cc.arms_of(claims, *CLAIMS)
    times = next((t for t in claims.tables(*CLAIMS, name="step time") if t.rows), None)
    if arms is None or times is None:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses at equal step time"))
    pairs = _pairs(arms, times)
    drawing.rows = _rows(arms, times, pairs)
    if not any(r["what"] == "gain" for r in drawing.rows):
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses of both arms at any K"))
    tables = [*arms.tables, times]
    handles = [
        style.Line2D([], [], color=tint, marker="o", linestyle="", markersize=6, label=text)
        for tint, text in ((SELECTED, "first K stages"), (UNIFORM, "all stages, at the rank of equal time"))
    ] + style.kind_handles({"measured", "modelled"}, measured=True)
    figure, axes = style.canvas(1, 3, height=3.5, legend_rows=1, foot=claim_drawing.origin_note(tables))
    style.legend(figure, handles, 5)
    drawing.figure = figure
    _losses(axes[0, 0], [r for r in drawing.rows if r["what"] == "difference"])
    _gains(axes[0, 1], [r for r in drawing.rows if r["what"] in ("gain", "pooled gain")])
    _times(axes[0, 2], [r for r in drawing.rows if r["what"] == "step"])
    drawing.seen = _seen(drawing.rows, arms)
    return claim_drawing.finish(drawing, claims, tables)


def _pairs(arms, times):
    """[(K, arm of SC, uniform arm)] whose losses are both there."""
    found = []
    for name, values in times.rows:
        uniform = next((a for a in arms.losses if re.fullmatch(rf"uniform rank {int(values['uniform rank'])}", a)), None)
        if name in arms.losses and uniform:
            found.append((int(values["stages K"]), name, uniform))
    return found


def _rows(arms, times, pairs):
    rows = []
    add = lambda what, k, arm, numbers, seeds=0, kind="measured", claim=times.claim: rows.append(
        {
            "what": what,
            "stages": k,
            "arm": arm,
            "rank": int(found[-1]) if (found := re.findall(r"\d+", arm)) else 0,
            "value": numbers[0],
            "low": numbers[1],
            "high": numbers[2],
            "seeds": seeds,
            "kind": kind,
            "origin": claim.origin,
        }
    )
    nan = float("nan")
    per_seed = {}
    for k, selected, uniform in pairs:
        if arms.dense:
            for arm in (selected, uniform):
                *numbers, seeds = arms.difference(arm)
                add("difference", k, arm, numbers, seeds)
        *numbers, seeds = arms.difference(uniform, base=selected)
        add("gain", k, uniform, numbers, seeds)
        for seed, loss in arms.losses[uniform].items():
            if seed in arms.losses[selected]:
                per_seed.setdefault(seed, []).append(loss - arms.losses[selected][seed])
    whole = [math.fsum(g) / len(g) for g in per_seed.values() if len(g) == len(pairs)]
    if whole:
        add("pooled gain", 0, "mean over K", claims_of.interval(whole), len(whole))
    for name, values in times.rows:
        k, rank = int(values["stages K"]), int(values["uniform rank"])
        add("step", k, name, (values["SC (ms)"], nan, nan), kind="modelled")
        add("step", k, f"uniform rank {rank}", (values["uniform (ms)"], nan, nan), kind="modelled")
    return rows


def _side(row):
    """(shift to the left or right of K, colour)."""
    return (0.12, UNIFORM) if row["arm"].startswith("uniform") else (-0.12, SELECTED)


def _losses(axes, rows):
    axes.set(title="loss above the uncompressed arm", xlabel="compressed stages K", ylabel="nats per token")
    if not rows:
        style.empty_panel(axes, "no data because the uncompressed arm has no losses.")
        return
    where = [(r["stages"] + _side(r)[0], _side(r)[1]) for r in rows]
    claim_drawing.whiskers(axes, [x for x, _ in where], [r["low"] for r in rows], [r["high"] for r in rows], [t for _, t in where])
    for (x, tint), r in zip(where, rows):
        axes.scatter(x, r["value"], **style.dot(tint))
        top = r["high"] if math.isfinite(r["high"]) else r["value"]
        axes.annotate(
            f"rank {r['rank']}", (x, top), xytext=(0, 4), textcoords="offset points", fontsize=7, ha="center", color=tint,
            rotation=90, va="bottom",
        )  # fmt: skip
    _stages_axis(axes, rows)
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))  # room for the ranks


def _gains(axes, rows):
    axes.set(title="gain of selecting: L(uniform) − L(SC)", xlabel="compressed stages K", ylabel="nats per token")
    last = max((r["stages"] for r in rows), default=0)
    at = [r["stages"] if r["what"] == "gain" else last + 1 for r in rows]
    claim_drawing.whiskers(axes, at, [r["low"] for r in rows], [r["high"] for r in rows], [style.INK] * len(rows))
    for x, r in zip(at, rows):
        axes.scatter(x, r["value"], **style.dot(style.INK, "o" if r["what"] == "gain" else "D"))
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    axes.set_xticks(at, [str(r["stages"]) if r["what"] == "gain" else "mean" for r in rows])
    axes.set_xlim(min(at) - 0.5, max(at) + 0.5)


def _times(axes, rows):
    axes.set(title="step time by the event model", xlabel="compressed stages K", ylabel="step (ms)")
    for r in rows:
        shift, tint = _side(r)
        axes.bar(r["stages"] + 1.4 * shift, r["value"], width=0.28, **style.bar(tint, "modelled"))
    _stages_axis(axes, rows)
    axes.set_ylim(0, 1.12 * max(r["value"] for r in rows))


def _stages_axis(axes, rows):
    stages = sorted({r["stages"] for r in rows})
    axes.set_xticks(stages)
    axes.set_xlim(stages[0] - 0.5, stages[-1] + 0.5)


def _seen(rows, arms):
    interval = lambda r: f"{r['value']:+.4f} nat" + (f" [{r['low']:+.4f}, {r['high']:+.4f}]" if math.isfinite(r["low"]) else "")
    seen = [
        f"Selecting stages wins {interval(r)} in the mean over K ({words.count(r['seeds'], 'seed')}, profile {arms.profile})."
        for r in rows
        if r["what"] == "pooled gain"
    ]
    gains = [r for r in rows if r["what"] == "gain"]
    each = [f"K = {r['stages']}: {interval(r)}" for r in gains]
    seen.append(f"By K: {words.listing(each)}.")
    return seen
