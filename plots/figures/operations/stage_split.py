"""Where the time goes, encode / transfer / decode against the dense baseline, for one representative cell per link."""
import itertools

import numpy as np

from plots.lib import data, style, traffic_classes, words
from plots.lib.figure import Figure, Source

STAGES = ("encode", "transfer", "decode")
COLUMNS = (
    "link",
    "traffic",
    "layout",
    "shape",
    "label",
    "form",
    "status",
    "encode_us",
    "transfer_us",
    "decode_us",
    "total_us",
    "baseline_us",
    "speedup",
    "baseline_line_us",
    "axis_end_us",
)


@Figure(
    title="Where the time goes: encode, transfer, decode against the dense baseline",
    order=20,
    reads=Source.BENCHES,
    how_to_read=(
        "One representative cell per traffic class, the same on every link: the largest shape and widest"
        " group that nearly all methods have a valid row for. Bars are medians over repetitions of the"
        " slowest rank; the vertical line is the uncompressed baseline measured in the same job. The number"
        " at a bar's end is total time and speed-up. A bar that leaves the panel ends in an arrow."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    classes = data.classes_present(
        collected.cells, ("tp_forward", "pp_forward"), ("tp_backward", "pp_backward")
    )
    cells = collected.cells.where(traffic=classes)
    valid = np.ones(len(cells), dtype=bool)
    for stage in STAGES:
        valid &= np.isfinite(cells[f"{stage}_us"]) & (cells[f"{stage}_us"] >= 0)
    usable = cells.where(valid, status=("OK", "MISTRUSTED"))
    if not len(usable):
        return drawing.without_data(data.why_none(cells, "activation cells"))
    links = data.links(cells)
    chosen = {traffic: _representative(usable.where(traffic=traffic)) for traffic in classes}
    count = max(len(data.methods(cells)), 3)
    handles = [style.plt.Rectangle((0, 0), 1, 1, color=style.STAGE_COLOURS[s], label=s) for s in STAGES]
    handles.append(style.Line2D([], [], color=style.INK, linestyle=(0, (4, 2)), label="dense baseline"))
    figure, axes = style.canvas(
        len(links), len(classes), height=len(links) * (0.9 + 0.165 * count), legend_rows=1
    )
    style.legend(figure, handles, 4)
    drawing.figure = figure
    for line, link in zip(axes, links):
        for panel, traffic in zip(line, classes):
            here = cells.where(link=link, traffic=traffic)
            bars = _bars(usable.where(link=link, traffic=traffic), chosen[traffic]) if chosen[traffic] else []
            name = style.link_name(link, data.rate_of(collected.cells, link)) if len(classes) < 3 else link
            if not bars:
                reason = data.why_none(here, f"{traffic_classes.words_of(traffic)} on {link}")
                style.empty_panel(panel, reason)
                drawing.gaps.append(f"{link}, {traffic}: {reason}")
                panel.set_title(f"{name}: {traffic}")
                continue
            _panel(panel, bars, 1.30 if len(classes) < 3 else 1.5)
            panel.set_title(
                f"{name}: {traffic} {bars[0]['layout']}"
                + (f", {bars[0]['shape']}" if len(classes) < 3 else "")
            )
            drawing.rows += bars
            drawing.seen.append(_seen(link, traffic, bars))
    return drawing


def _representative(cells):
    """(layout, shape) with the most tokens, then the widest group, among those that have nearly the most rows."""
    if not len(cells):
        return None
    groups = cells.groups("layout", "shape")
    enough = 0.9 * max(len(rows) for _, rows in groups)
    tokens = lambda rows: rows["batch"][0] * rows["seq"][0]
    return max(
        (g for g in groups if len(g[1]) >= enough), key=lambda g: (tokens(g[1]), g[1]["group"][0], len(g[1]))
    )[0]


def _bars(cells, chosen):
    layout, shape = chosen
    cells = cells.where(layout=layout, shape=shape)
    order = {pair: i for i, pair in enumerate(data.methods(cells))}
    if not len(cells):
        return []
    baseline = cells.median("baseline_us")
    bars = []
    for (label, family, form), rows in sorted(
        cells.groups("label", "family", "form"), key=lambda g: (order[g[0][:2]], g[0][2])
    ):
        bar = {
            name: rows.median(name)
            for name in ("encode_us", "transfer_us", "decode_us", "total_us", "baseline_us", "speedup")
        }
        status = "MISTRUSTED" if "MISTRUSTED" in rows.distinct("status") else "OK"
        bars.append(
            {
                **bar,
                "link": rows["link"][0],
                "traffic": rows["traffic"][0],
                "layout": layout,
                "shape": shape,
                "label": label,
                "form": form,
                "status": status,
                "baseline_line_us": baseline,
            }
        )
    sums = sorted(_sum(bar) for bar in bars)
    usual = np.percentile(sums, 75)
    end = 1.04 * (
        sums[-1]
        if sums[-1] <= 2.5 * max(usual, baseline if np.isfinite(baseline) else 0)
        else 1.3 * max(usual, baseline if np.isfinite(baseline) else 0)
    )
    for bar in bars:
        bar["axis_end_us"] = float(end)
    return bars


def _sum(bar):
    return bar["encode_us"] + bar["transfer_us"] + bar["decode_us"]


def _panel(axes, bars, room_for_numbers):
    end = bars[0]["axis_end_us"]
    unit, scale = ("ms", 1e3) if end >= 2e3 else ("µs", 1.0)
    room = room_for_numbers  # the numbers stand right of the bars
    for y, bar in enumerate(bars):
        widths = [bar[f"{stage}_us"] / scale for stage in STAGES]
        *lefts, left = itertools.accumulate(widths, initial=0.0)
        axes.barh([y] * len(STAGES), widths, left=lefts, height=0.72, color=[style.STAGE_COLOURS[stage] for stage in STAGES], linewidth=0)
        cut = left > end / scale
        speed = f"  {words.times(bar['speedup'])}" if np.isfinite(bar["speedup"]) else ""
        note = (
            f"{words.microseconds(bar['total_us'])}{speed}{'  mistrusted' if bar['status'] == 'MISTRUSTED' else ''}"
        )
        axes.text(
            min(left, end / scale) + 0.012 * end / scale,
            y,
            ("▸ " if cut else "") + note,
            va="center",
            fontsize=7.5,
            color=style.SOFT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9},
        )
    baseline = bars[0]["baseline_line_us"]
    if np.isfinite(baseline):
        axes.axvline(baseline / scale, color=style.INK, linestyle=(0, (4, 2)), linewidth=1.1, zorder=2.5)
    axes.set_yticks(
        range(len(bars)),
        [bar["label"] + ("" if bar["form"] == "fair" else f" ({bar['form']})") for bar in bars],
    )
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, room * end / scale)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"time per operation ({unit})")


def _seen(link, traffic, bars):
    coded = [b for b in bars if b["label"] != "none"]
    if not coded:
        return f"On {link}, {traffic}: only the dense transfer was measured."
    shares = [b["transfer_us"] / _sum(b) for b in coded if _sum(b) > 0]
    text = (
        f"On {link}, {traffic} {bars[0]['layout']} at {bars[0]['shape']} (dense baseline"
        f" {words.microseconds(bars[0]['baseline_line_us'])}), the median compressor spends"
        f" {100 * float(np.median(shares)):.0f} % of its time on the link"
    )
    heavy = max(coded, key=lambda b: b["encode_us"])
    text += f"; the costliest encoder is {heavy['label']} with {words.microseconds(heavy['encode_us'])}."
    slower = [b["label"] for b in coded if b["encode_us"] + b["decode_us"] > b["baseline_line_us"]]
    if slower:
        text += (
            f" For {len(slower)} of {len(coded)} compressors ({words.listing(slower)}) encoding and decoding"
            " alone take longer than the whole dense transfer."
        )
    return text
