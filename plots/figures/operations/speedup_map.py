"""The activation study as a map, methods by layout, batch and sequence, one map per link and traffic class."""
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from plots.lib import data, style, traffic_classes, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "link",
    "traffic",
    "label",
    "form",
    "layout",
    "shape",
    "status",
    "speedup",
    "rows",
    "text",
    "reason",
)
LIMIT = 3.0  # colours saturate at 2^3 and 2^-3


@Figure(
    title="Speed-up map: encode, transfer and decode against the dense baseline, cell by cell",
    order=10,
    reads=Source.BENCHES,
    how_to_read=(
        "Each box is one cell of the study: a number above 1 (blue) means that encode, transfer and"
        " decode together took less time than the uncompressed baseline in the same job, below 1 (orange)"
        " more. Columns are micro-batch and sequence within a layout (tensor, pipeline). An asterisk and"
        " hatching mark a MISTRUSTED link; words mark cells without a result; a dash marks a cell without"
        " a timing verdict."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    classes = data.classes_present(
        collected.cells, ("tp_forward", "pp_forward"), ("tp_backward", "pp_backward")
    )
    cells = collected.cells.where(traffic=classes)
    if not len(cells):
        return drawing.without_data(data.why_none(cells, "activation cells"))
    links = data.links(cells)
    order = {pair: i for i, pair in enumerate(data.methods(cells))}
    names = sorted(
        {(l, f, form) for l, f, form in zip(cells["label"], cells["family"], cells["form"])},
        key=lambda n: (order[n[:2]], n[2]),
    )
    columns = {
        t: sorted({tuple(r.values()) for r in cells.where(traffic=t).rows("tp", "pp", "batch", "seq")})
        for t in classes
    }
    widths = [max(3, len(columns[t])) for t in classes]
    figure, axes = style.canvas(
        len(links),
        len(classes),
        height=len(links) * (1.2 + 0.215 * max(len(names), 3)),
        legend_rows=0,
        gridspec_kw={"width_ratios": widths},
    )
    drawing.figure = figure
    for line, link in zip(axes, links):
        for panel, traffic in zip(line, classes):
            here = cells.where(link=link, traffic=traffic)
            name = style.link_name(link, data.rate_of(collected.cells, link))
            panel.set_title(
                f"{name if traffic == classes[0] or len(classes) < 3 else link}: {traffic}",
                pad=32 if len(classes) < 3 else 40,
            )
            boxes = _boxes(here, names, columns[traffic])
            if not boxes:
                reason = data.why_none(here, f"{traffic_classes.words_of(traffic)} on {link}")
                style.empty_panel(panel, reason)
                drawing.gaps.append(f"{link}, {traffic}: {reason}")
                continue
            _panel(panel, boxes, names, columns[traffic], "\n" if len(classes) > 2 else "×")
            drawing.rows += [box for box, _, _ in boxes]
            drawing.seen.append(_seen(link, traffic, [box for box, _, _ in boxes]))
    bar = figure.colorbar(
        ScalarMappable(Normalize(-LIMIT, LIMIT), style.SPEEDUP_COLOURS),
        ax=axes,
        location="bottom",
        aspect=42,
        shrink=0.55,
        fraction=0.14 / figure.get_figheight(),
        pad=0.2 / figure.get_figheight(),
    )
    bar.set_ticks([-3, -2, -1, 0, 1, 2, 3], labels=["⅛ or less", "¼", "½", "1", "2", "4", "8 or more"])
    bar.set_label("speed-up over the dense baseline (times)")
    bar.outline.set_visible(False)
    return drawing


def _boxes(cells, names, columns):
    """(row of the CSV, column index, row index) of every cell of one map."""
    boxes = []
    for (label, family, form, tp, pp, batch, seq), rows in cells.groups(
        "label", "family", "form", "tp", "pp", "batch", "seq"
    ):
        statuses = rows.distinct("status")
        status = (
            next(s for s in reversed(data.STATUSES) if s in statuses)
            if any(s in data.STATUSES for s in statuses)
            else statuses[0]
        )
        valued = data.delivered(rows)
        speedup = valued.median("speedup") if len(valued) else float("nan")
        if status not in ("OK", "MISTRUSTED"):
            text = style.STATUS_MARKS.get(status, status.lower())
        elif np.isfinite(speedup) and speedup > 0:
            text = _short(speedup) + ("*" if status == "MISTRUSTED" else "")
        else:
            text = "–" + ("*" if status == "MISTRUSTED" else "")
        reason = next((r for s, r in zip(rows["status"], rows["reason"]) if s == status and r), "")
        boxes.append(
            (
                {
                    "link": rows["link"][0],
                    "traffic": rows["traffic"][0],
                    "label": label,
                    "form": form,
                    "layout": f"({tp},{pp})",
                    "shape": f"{batch}×{seq}",
                    "status": status,
                    "speedup": float(speedup),
                    "rows": len(rows),
                    "text": text,
                    "reason": reason,
                },
                columns.index((tp, pp, batch, seq)),
                names.index((label, family, form)),
            )
        )
    return boxes


def _short(value):
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"[1:]


def _panel(axes, boxes, names, columns, times):
    for box, x, y in boxes:
        if box["status"] in ("OK", "MISTRUSTED") and np.isfinite(box["speedup"]) and box["speedup"] > 0:
            shade = (np.clip(np.log2(box["speedup"]), -LIMIT, LIMIT) + LIMIT) / (2 * LIMIT)
            face, ink = style.SPEEDUP_COLOURS(shade), "white" if abs(shade - 0.5) > 0.36 else style.INK
        else:
            face, ink = "#eef1f4", style.SOFT
        hatch = "////" if box["status"] == "MISTRUSTED" else None
        axes.add_artist(  # add_patch would widen the limits, which are set below, and takes twice as long
            Rectangle(
                (x - 0.5, y - 0.5),
                1,
                1,
                facecolor=face,
                edgecolor="#8895a3" if hatch else "white",
                hatch=hatch,
                linewidth=0.0 if hatch else 0.8,
            )
        )
        words_only = box["text"][0].isalpha()
        plate = {"facecolor": face, "edgecolor": "none", "pad": 0.8} if hatch else None
        axes.text(
            x,
            y,
            box["text"],
            ha="center",
            va="center",
            fontsize=6.5 if words_only else 7.5,
            color=ink,
            fontstyle="italic" if words_only else "normal",
            bbox=plate,
        )
    for artist in (*axes.patches, *axes.texts):  # a thousand of them, all inside the panel: the layout need not ask where they end
        artist.set_in_layout(False)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_yticks(
        range(len(names)), [label + ("" if form == "fair" else f" ({form})") for label, _, form in names]
    )
    for tick, (_, family, _) in zip(axes.get_yticklabels(), names):
        tick.set_color(style.colour(family))
        tick.set_fontweight("bold")
    axes.set_xticks(range(len(columns)), [f"{batch}{times}{seq}" for _, _, batch, seq in columns], fontsize=7)
    axes.xaxis.tick_top()
    starts = [i for i, c in enumerate(columns) if i == 0 or c[:2] != columns[i - 1][:2]] + [len(columns)]
    for begin, end in zip(starts, starts[1:]):
        if begin:
            axes.axvline(begin - 0.5, color="white", linewidth=4)
        axes.annotate(
            f"layout ({columns[begin][0]},{columns[begin][1]})",
            xy=((begin + end - 1) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 17 if times == "×" else 25),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=style.SOFT,
        )


def _seen(link, traffic, boxes):
    valid = [b for b in boxes if b["status"] == "OK" and np.isfinite(b["speedup"]) and b["label"] != "none"]
    by_method = {}
    for box in valid:
        by_method.setdefault(box["label"], []).append(box["speedup"])
    if not by_method:
        return f"On {link}, {traffic}: no compressor has a valid timing verdict."
    medians = {label: float(np.median(values)) for label, values in by_method.items()}
    paying = [label for label, value in medians.items() if value > data.PAYS]
    best_box = max(valid, key=lambda b: b["speedup"])
    cells = sum(b["speedup"] > data.PAYS for b in valid)
    text = (
        f"On {link}, {traffic}: {len(paying)} of {words.count(len(medians), 'compressor')} beat the dense"
        " baseline in the median of their cells"
    )
    text += f" ({words.listing(paying)})" if paying and len(paying) < len(medians) else ""
    text += f", and {cells} of {words.count(len(valid), 'cell')} do ({words.percent(cells, len(valid))}). "
    text += (
        f"The largest speed-up is {words.times(best_box['speedup'])} by {best_box['label']} at"
        f" {best_box['layout']} {best_box['shape']}."
        if best_box["speedup"] > data.PAYS
        else (
            f"None pays here; the nearest is {best_box['label']} at"
            f" {best_box['layout']} {best_box['shape']} with {words.times(best_box['speedup'])}."
        )
    )
    noise = [
        b["speedup"]
        for b in boxes
        if b["label"] == "none" and b["status"] == "OK" and np.isfinite(b["speedup"])
    ]
    if len(noise) > 1:
        text += (
            f" The uncompressed method itself measures {words.number(min(noise))} to"
            f" {words.times(max(noise))}: the noise of one cell."
        )
    marked = [
        f"{sum(b['status'] == s for b in boxes)} {s}"
        for s in data.STATUSES[1:]
        if any(b["status"] == s for b in boxes)
    ]
    return text + (f" Marked cells: {words.listing(marked)}." if marked else "")
