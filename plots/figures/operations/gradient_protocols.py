"""Data-parallel gradients, every codec and protocol, per matrix and link."""
import numpy as np

from plots.lib import data, style, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "what",
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


@Figure(
    title="Data-parallel gradients: which reduction protocol suits which codec",
    order=50,
    reads=Source.BENCHES,
    how_to_read=(
        "Rows are codecs, markers the protocol that sums their payloads over ranks: large in the largest"
        " group of replicas, small in smaller groups; dots are single weight matrices, the marker their"
        " median. First panel: bytes of the dense baseline over bytes sent. Others: speed-up over the dense"
        " baseline per link; right of the line at 1 the method pays."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = collected.cells.where(traffic="dp_gradient")
    usable = data.delivered(cells)
    usable = usable.where(data.positive(usable["ratio"]))
    if not len(usable):
        return drawing.without_data(data.why_none(cells, "data-parallel gradients (bench_gradient)"))
    links = data.links(cells)
    labels = data.methods(usable)
    pairs = sorted(set(zip(usable["form"], usable["protocol"])))
    handles = style.protocol_handles(pairs) + style.kind_handles(set(usable["kind"]))
    figure, axes = style.canvas(
        1,
        1 + len(links),
        height=1.1 + 0.34 * max(3, len(labels)),
        legend_rows=style.legend_rows(handles, 7),
        sharey=True,
    )
    style.legend(figure, handles, 7)
    drawing.figure = figure
    _panel(axes[0, 0], "ratio", "", usable, labels, pairs, drawing.rows)
    axes[0, 0].set(title="link ratio", xlabel="baseline bytes / bytes sent")
    axes[0, 0].set_yticks(range(len(labels)), [label for label, _ in labels])
    for tick, (_, family) in zip(axes[0, 0].get_yticklabels(), labels):
        tick.set_color(style.colour(family))
        tick.set_fontweight("bold")
    for panel, link in zip(axes[0, 1:], links):
        here = data.delivered(cells).where(link=link)
        here = here.where(data.positive(here["speedup"]))
        panel.set_title(style.link_name(link))
        if not len(here):
            reason = data.why_none(cells.where(link=link), f"gradients on {link}")
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
            continue
        _panel(panel, "speedup", link, here, labels, pairs, drawing.rows)
        panel.set_xlabel("speed-up over dense baseline")
        drawing.seen.append(_seen(link, here))
        drawing.tables.append(_table(link, here))
    return drawing


def _panel(axes, column, link, cells, labels, pairs, drawn):
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
    values = [d["value"] for d in drawn if d["panel"] == column and d["link"] == link]
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


def _seen(link, cells):
    coded = _coded(cells)
    if not len(coded):
        return f"On {link} only the dense reduction has a valid timing verdict."
    coded = coded.where(group=int(coded["group"].max()))
    medians = {key: rows.median("speedup") for key, rows in coded.groups("label", "protocol")}
    paying = {key: value for key, value in medians.items() if value > data.PAYS}
    best = max(medians, key=medians.get)
    text = (
        f"On {link}, among {coded['group'][0]} replicas, {len(paying)} of {len(medians)} pairs of codec and"
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


def _table(link, cells):
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
        f"Fastest pair per matrix on {link}",
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
