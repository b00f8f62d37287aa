"""Where a training step's time goes, per plan and link."""
import math

from plots.lib import data, plans, style, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "link",
    "plan",
    "compresses",
    "step_ms",
    "step_iqr_ms",
    "steps",
    "compute_ms",
    "encode_ms",
    "transfer_ms",
    "decode_ms",
    "wait_ms",
    "communication_share",
    "speedup",
    "trusted",
)


@Figure(
    title="Where a training step goes: compute, encode, transfer, decode, wait",
    order=150,
    reads=Source.TRAINING_RUNS,
    how_to_read=(
        "One bar per plan, the uncompressed one first: parts of a step, each rank's own, averaged over"
        " the ranks. Transfer is time with a message under way and nothing to compute; wait is the rest"
        " (the bubble of the pipeline, waiting for other ranks). The number is the step's time, the"
        " median over steps of the slowest rank, and the speed-up over the uncompressed plan; the dashed"
        " line is the uncompressed plan's bar. A star marks a link that was off its calibration."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    runs = plans.load(collected)
    drawing.gaps += runs.notes
    drawing.how_to_read += plans.processors(runs)
    if not runs.times:
        return drawing.without_data(plans.why_none(collected, "valid step times", "training_time"))
    columns = min(3, len(runs.links))
    lines = math.ceil(len(runs.links) / columns)
    most = max(sum((p.name, link) in runs.times for p in runs.plans) for link in runs.links)
    handles = [
        style.plt.Rectangle((0, 0), 1, 1, color=style.STEP_COLOURS[stage], label=stage)
        for stage in plans.STAGES
    ]
    handles.append(style.Line2D([], [], color=style.INK, linestyle=(0, (4, 2)), label="uncompressed"))
    figure, axes = style.canvas(lines, columns, height=lines * (0.9 + 0.27 * max(most, 3)), legend_rows=1)
    style.legend(figure, handles, 6)
    drawing.figure = figure
    for panel in axes.flat[len(runs.links) :]:
        panel.set_visible(False)
    for i, (panel, link) in enumerate(zip(axes.flat, runs.links)):
        rows = _rows(link, runs)
        if missing := plans.without_times(runs, link):
            drawing.gaps.append(missing)
        _panel(panel, rows)
        panel.set_title(style.link_name(link, data.rate_of(collected.all_cells, link)))
        drawing.rows += rows
        drawing.seen += _seen(link, rows, runs)
    return drawing


def _rows(link, runs):
    dense = runs.times.get((runs.dense.name, link)) if runs.dense else None
    return [
        {
            "link": link,
            "plan": plan.name,
            "compresses": plan.described(),
            "step_ms": time.step_ms,
            "step_iqr_ms": time.iqr_ms,
            "steps": time.steps,
            **{f"{stage}_ms": time.parts[stage] for stage in plans.STAGES},
            "communication_share": time.share,
            "speedup": dense.step_ms / time.step_ms if dense else float("nan"),
            "trusted": int(time.trusted),
        }
        for plan in runs.plans
        if (time := runs.times.get((plan.name, link))) is not None
    ]


def _length(row):
    return sum(v for stage in plans.STAGES if math.isfinite(v := row[f"{stage}_ms"]) and v > 0)


def _panel(axes, rows):
    end = max(max(_length(r) for r in rows), 1e-9)
    for y, row in enumerate(rows):
        left = 0.0
        for stage in plans.STAGES:
            width = row[f"{stage}_ms"]
            if math.isfinite(width) and width > 0:
                axes.barh(y, width, left=left, height=0.7, color=style.STEP_COLOURS[stage], linewidth=0)
                left += width
        note = words.microseconds(1e3 * row["step_ms"])
        if math.isfinite(row["speedup"]) and y > 0:
            note += f"  {plans.factor(row['speedup'])}"
        axes.text(
            left + 0.015 * end,
            y,
            note + ("" if row["trusted"] else " *"),
            va="center",
            fontsize=7.5,
            color=style.SOFT,
            zorder=3,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9},
        )
    if rows[0]["plan"].lower() in plans.DENSE_NAMES:
        axes.axvline(_length(rows[0]), color=style.INK, linestyle=(0, (4, 2)), linewidth=1.0, zorder=2.5)
    axes.set_yticks(range(len(rows)), [r["plan"] for r in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.5 * end)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time of a step, mean over ranks (ms)")


def _seen(link, rows, runs):
    why_not, off = plans.no_verdict(runs, link)
    if why_not:
        return [why_not]
    dense = next(r for r in rows if r["plan"] == runs.dense.name)
    text = f"On {link} a step of the uncompressed plan takes {words.microseconds(1e3 * dense['step_ms'])}"
    if math.isfinite(dense["communication_share"]):
        text += f", {100 * dense['communication_share']:.0f} % of it communication"
    uncounted = [f"Not counted on {link}, which was off its calibration: {plans.named(off)}."] if off else []
    coded = [r for r in rows if r is not dense and r["plan"] not in off]
    if not coded:
        return [text + ".", *uncounted]
    fastest = max(coded, key=lambda r: r["speedup"])
    pays = [r for r in coded if r["speedup"] > data.PAYS]
    slows = [r for r in coded if r["speedup"] < 1 / data.PAYS]
    text += (
        f"; {len(pays) or 'none'} of"
        f" {words.count(len(coded), 'compressed plan')} {'is' if len(pays) < 2 else 'are'} faster (by more"
        f" than {100 * (data.PAYS - 1):.0f} %), the fastest is '{fastest['plan']}' with"
        f" {plans.factor(fastest['speedup'])}"
    )
    if slows:
        speed = {r["plan"]: plans.factor(r["speedup"]) for r in slows}
        text += f"; slower: {plans.named(speed, speed.get)}"
    costly = max(coded, key=lambda r: _codec_ms(r))
    if _codec_ms(costly) > 0:
        text += (
            f". Encoding and decoding cost '{costly['plan']}' most:"
            f" {words.microseconds(1e3 * _codec_ms(costly))} per step"
        )
    return [text + ".", *uncounted]


def _codec_ms(row):
    return sum(v for v in (row["encode_ms"], row["decode_ms"]) if math.isfinite(v))
