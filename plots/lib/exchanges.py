"""Codecs and protocols of one traffic class: bytes against the dense baseline, and speed-up per link. Figures of data-parallel exchanges share it."""
import numpy as np

from plots.lib import data, style, words

COLUMNS = (
    "what",
    "traffic",
    "panel",
    "link",
    "tensor",
    "label",
    "codec_family",
    "form",
    "protocol",
    "kind",
    "group",
    "value",
    "relative_l2",
    "total_us",
    "baseline_us",
    "rows",
    "status",
)


def draw(drawing, collected, classes):
    """A line of panels per traffic class that `collected` holds; `classes`: (traffic, its name in titles and gaps)."""
    lines = []
    for traffic, name in classes:
        cells = collected.cells.where(traffic=traffic)
        usable = data.delivered(cells)
        usable = usable.where(data.positive(usable["ratio"]))
        if len(usable):
            lines.append((traffic, name, cells, usable, data.methods(usable)))
        else:
            drawing.gaps.append(data.why_none(cells, f"{name} (bench_gradient)"))
    if not lines:
        return drawing.without_data(drawing.gaps.pop())
    links = data.links(collected.cells.where(traffic=tuple(traffic for traffic, *_ in lines)))
    every = [(form, protocol, kind) for _, _, _, usable, _ in lines for form, protocol, kind in zip(usable["form"], usable["protocol"], usable["kind"])]
    pairs = sorted({(form, protocol) for form, protocol, _ in every})
    handles = style.protocol_handles(pairs) + style.kind_handles({kind for *_, kind in every})
    heights = [0.34 * max(3, len(labels)) for *_, labels in lines]
    figure, axes = style.canvas(
        len(lines),
        1 + len(links),
        height=1.1 * len(lines) + sum(heights),
        legend_rows=style.legend_rows(handles, 7),
        sharey="row",
        height_ratios=heights,
    )
    style.legend(figure, handles, 7)
    drawing.figure = figure
    for row, (traffic, name, cells, usable, labels) in zip(axes, lines):
        first = name if len(lines) > 1 else ""
        _panel(row[0], traffic, "ratio", "", usable, labels, pairs, drawing.rows)
        row[0].set(title=f"{first}: link ratio" if first else "link ratio", xlabel="baseline bytes / bytes sent")
        row[0].set_yticks(range(len(labels)), [label for label, _ in labels])
        for tick, (_, family) in zip(row[0].get_yticklabels(), labels):
            tick.set_color(style.colour(family))
            tick.set_fontweight("bold")
        for panel, link in zip(row[1:], links):
            here = data.delivered(cells).where(link=link)
            here = here.where(data.positive(here["speedup"]))
            panel.set_title(style.link_name(link))
            if not len(here):
                _empty(panel, data.why_none(cells.where(link=link), f"{name} on {link}"), link, drawing)
                continue
            _panel(panel, traffic, "speedup", link, here, labels, pairs, drawing.rows)
            panel.set_xlabel("speed-up over dense baseline")
            drawing.seen.append(_seen(name if len(lines) > 1 else "", link, here))
            drawing.tables.append(_table(name if len(lines) > 1 else "", link, here))
    return drawing


def _empty(panel, reason, link, drawing):
    panel.text(
        0.5,
        0.5,
        style.wrap(reason, 30),
        transform=panel.transAxes,
        ha="center",
        va="center",
        color=style.SOFT,
    )
    panel.set_xticks([])
    drawing.gaps.append(f"{link}: {reason}")


def _panel(axes, traffic, column, link, cells, labels, pairs, drawn):
    used = {}  # protocols of each codec, spread evenly around its line
    for label, pair in sorted(
        set(zip(cells["label"], zip(cells["form"], cells["protocol"]))),
        key=lambda u: (u[0], pairs.index(u[1])),
    ):
        used.setdefault(label, []).append(pair)
    offset = lambda label, pair: 0.26 * (used[label].index(pair) - (len(used[label]) - 1) / 2)
    largest = int(cells["group"].max())
    for (label, family, form, protocol, kind, group), rows in cells.groups(
        "label", "family", "form", "protocol", "kind", "group"
    ):
        y = labels.index((label, family)) + offset(label, (form, protocol))
        base = {
            "traffic": traffic,
            "panel": column,
            "link": link,
            "label": label,
            "codec_family": family,
            "form": form,
            "protocol": protocol,
            "kind": kind,
            "group": int(group),
        }
        singles = []
        for (tensor,), same in rows.groups("tensor"):
            singles.append({**base, "what": "matrix", "tensor": tensor, **_values(same, column)})
        median = {**base, "what": "median", "tensor": "", **_values(rows, column)}
        median["value"] = float(np.median([s["value"] for s in singles]))
        drawn += [median]
        if len(singles) > 1:
            drawn += singles
            axes.scatter(
                [s["value"] for s in singles],
                [y] * len(singles),
                s=9,
                color=style.colour(family),
                alpha=0.45,
                linewidths=0,
                zorder=2,
            )
        axes.scatter(
            median["value"],
            y,
            **style.point(family, form, protocol, kind, size=44 if group == largest else 20),
        )
    values = [d["value"] for d in drawn if (d["traffic"], d["panel"], d["link"]) == (traffic, column, link)]
    low, high = style.log_limits(values + [1.0])
    axes.set(xscale="log", xlim=(low, high))
    style.number_ticks(axes.xaxis, low, high)
    if len(axes.get_xticks()) > 6:
        axes.xaxis.set_major_locator(style.matplotlib.ticker.FixedLocator(list(axes.get_xticks())[::2]))
    axes.axvline(1, color=style.INK, linewidth=0.9, zorder=1)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _values(rows, column):
    return {
        "value": rows.median(column),
        "relative_l2": rows.median("relative_l2"),
        "total_us": rows.median("total_us"),
        "baseline_us": rows.median("baseline_us"),
        "rows": len(rows),
        "status": "MISTRUSTED" if "MISTRUSTED" in rows.distinct("status") else "OK",
    }


def _coded(cells):
    return cells.where((cells["family"] != "none") & (cells["status"] == "OK"))


def _seen(name, link, cells):
    coded = _coded(cells)
    if not len(coded):
        return f"{_where(name, link)} only the dense exchange has a valid timing verdict."
    coded = coded.where(group=int(coded["group"].max()))
    medians = {key: rows.median("speedup") for key, rows in coded.groups("label", "protocol")}
    paying = {key: value for key, value in medians.items() if value > data.PAYS}
    best = max(medians, key=medians.get)
    text = (
        f"{_where(name, link)}, among {coded['group'][0]} replicas, {len(paying)} of {len(medians)} pairs of codec and"
        " protocol beat the dense baseline in the median over matrices; the fastest is "
    )
    text += (
        f"{best[0]} by {best[1]} ({words.times(medians[best])})."
        if paying
        else f"none; the nearest is {best[0]} by {best[1]} ({words.times(medians[best])})."
    )
    contests = []
    for label in coded.distinct("label"):
        rivals = {p: v for (name, p), v in medians.items() if name == label}
        if len(rivals) > 1:
            winner = max(rivals, key=rivals.get)
            contests.append(f"{label} is fastest by {winner.replace('_', ' ')}")
    return text + (f" Where a codec has a choice: {words.listing(contests)}." if contests else "")


def _where(name, link):
    return f"On {link}, {name}" if name else f"On {link}"


def _table(name, link, cells):
    rows = []
    for (tensor, group), here in _coded(cells).groups("tensor", "group"):
        best = here.take([int(np.argmax(here["speedup"]))]).rows()[0]
        good = here.where(here["relative_l2"] <= data.LOW_ERROR)
        low = good.take([int(np.argmax(good["speedup"]))]).rows()[0] if len(good) else None
        rows.append(
            [
                tensor,
                int(group),
                words.size(int(here["dense_bytes"][0])),
                words.microseconds(here.median("baseline_us")),
                f"{best['label']}, {best['protocol']}",
                words.times(best["speedup"]),
                words.number(best["relative_l2"]),
                f"{low['label']}, {low['protocol']}" if low else "none",
                words.times(low["speedup"]) if low else "n/a",
            ]
        )
    return (
        f"Fastest pair per matrix on {link}" + (f": {name}" if name else ""),
        [
            "matrix",
            "replicas",
            "dense size",
            "dense baseline",
            "fastest",
            "speed-up",
            "error",
            f"fastest with error ≤ {data.LOW_ERROR:g}",
            "speed-up",
        ],
        rows,
    )
