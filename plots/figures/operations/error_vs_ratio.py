"""Relative L2 error of the result against the link ratio, per codec and traffic class, with the Pareto front."""
import numpy as np

from plots.lib import data, pareto, style, traffic_classes, words
from plots.lib.figure import Figure, Heading, Source

USUAL = ("tp_forward", "pp_forward", "dp_gradient", "embedding")
FURTHER = ("tp_backward", "pp_backward", "grad_reduce_scatter", "param_all_gather", "tp_weight", "tp_weight_gradient")
COLUMNS = (
    "traffic",
    "what",
    "label",
    "codec_family",
    "form",
    "protocol",
    "kind",
    "group",
    "ratio",
    "relative_l2",
    "rows",
    "on_front",
)


@Figure(
    title="What an error buys: result error against link ratio",
    order=40,
    reads=Source.BENCHES,
    under=Heading.ERROR,
    how_to_read=(
        "Right is fewer bytes on the link, down is a more exact result. A large marker is the median over"
        " shapes, tensors and links of one method in the largest group of ranks, smaller markers are"
        " smaller groups, joined by a thin line; dots are single cells. The stepped line is the Pareto"
        " front. Exact results sit on the bottom line. Neither coordinate depends on time, so rows of"
        " mistrusted links count here."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    classes = data.classes_present(collected.cells, USUAL, FURTHER)
    panels = {traffic: _points(data.delivered(collected.cells).where(traffic=traffic)) for traffic in classes}
    everything = [p for points in panels.values() for p in points]
    if not everything:
        return drawing.without_data(
            data.why_none(collected.cells.where(traffic=classes), "these traffic classes")
        )
    handles = (
        style.family_handles({p["codec_family"] for p in everything})
        + style.protocol_handles({(p["form"], p["protocol"]) for p in everything if p["what"] == "median"})
        + style.kind_handles({p["kind"] for p in everything})
    )
    lines = -(-len(classes) // 2)
    figure, axes = style.canvas(lines, 2, height=4.2 * lines, legend_rows=style.legend_rows(handles, 7))
    style.legend(figure, handles, 7)
    drawing.figure = figure
    late = []
    for panel, (traffic, points) in zip(axes.flat, panels.items()):
        if not points:
            reason = data.why_none(collected.cells.where(traffic=traffic), traffic_classes.words_of(traffic))
            style.empty_panel(panel, reason)
            drawing.gaps.append(f"{traffic}: {reason}")
        else:
            late.append((panel, *_panel(panel, points)))
            drawing.seen.append(_seen(traffic, points))
        panel.set_title(f"{traffic_classes.words_of(traffic)} ({traffic})")
        drawing.rows += points
    for panel in axes.flat[len(classes) :]:
        panel.set_visible(False)
    style.freeze_layout(figure)
    left_out = [text for panel, labels, dots in late for text in style.place_labels(panel, labels, dots)]
    if left_out:
        drawing.gaps.append(
            f"no room for the label(s) {words.listing(left_out)}; their points are drawn and listed in the"
            " CSV."
        )
    return drawing


def _points(cells):
    """Dictionaries of COLUMNS: every single cell, and the medians with their place on the front."""
    cells = cells.where(
        data.positive(cells["ratio"]) & np.isfinite(cells["relative_l2"]) & (cells["relative_l2"] >= 0)
    )
    points, medians = [], []
    cells = cells.with_column(
        "label",
        [f"{label}, {scheme}" if scheme else label for label, scheme in zip(cells["label"], cells["scheme"])],
    )
    order = {pair: i for i, pair in enumerate(data.methods(cells))}
    names = ("label", "family", "form", "protocol", "kind", "group")
    for key, rows in sorted(cells.groups(*names), key=lambda g: (order[g[0][:2]], g[0][2:])):
        base = dict(
            zip(("label", "codec_family", "form", "protocol", "kind", "group"), key),
            traffic=rows["traffic"][0],
            on_front=0,
        )
        base["group"] = int(base["group"])
        spots = sorted(set(zip(rows["ratio"].tolist(), rows["relative_l2"].tolist())))
        points += [
            {**base, "what": "cell", "ratio": r, "relative_l2": e, "rows": 1}
            for r, e in spots
            if len(spots) > 1
        ]
        medians.append(
            {
                **base,
                "what": "median",
                "ratio": rows.median("ratio"),
                "relative_l2": rows.median("relative_l2"),
                "rows": len(rows),
            }
        )
    pareto.mark_front(medians, "relative_l2")
    return points + medians


def _panel(axes, points):
    """Draws one class; returns the labels, placed once the layout is final, and the points that they should not hide."""
    place = pareto.scale_axes(
        axes,
        points,
        "relative_l2",
        "link ratio (bytes of the dense baseline / bytes sent)",
        "relative L2 error of the result",
    )
    medians = [p for p in points if p["what"] == "median"]
    dot = lambda p: {
        "s": 5,
        "color": style.colour(p["codec_family"]),
        "alpha": 0.35,
        "linewidths": 0,
        "zorder": 2,
    }
    style.scatter(axes, [(p["ratio"], place(p), dot(p)) for p in points if p["what"] == "cell"])
    for name in dict.fromkeys((p["label"], p["form"], p["protocol"], p["kind"]) for p in medians):
        same = sorted(
            (p for p in medians if (p["label"], p["form"], p["protocol"], p["kind"]) == name),
            key=lambda p: p["group"],
        )
        axes.plot(
            [p["ratio"] for p in same],
            [place(p) for p in same],
            color=style.colour(same[0]["codec_family"]),
            linewidth=0.8,
            alpha=0.6,
            zorder=2,
        )
    largest = max(p["group"] for p in medians)
    for p in medians:
        axes.scatter(
            p["ratio"],
            place(p),
            **style.point(
                p["codec_family"],
                p["form"],
                p["protocol"],
                p["kind"],
                size=46 if p["group"] == largest else 26,
            ),
        )
    pareto.draw_front(axes, medians, "relative_l2", place)
    widest = {}
    for p in medians:
        name = (p["label"], p["form"], p["protocol"], p["kind"])
        if name not in widest or p["group"] > widest[name]["group"]:
            widest[name] = p
    labels = [(p["ratio"], place(p), p["label"], style.colour(p["codec_family"])) for p in widest.values()]
    return labels, [(p["ratio"], place(p)) for p in medians]


def _seen(traffic, points):
    medians = [p for p in points if p["what"] == "median"]
    lossy = [p for p in medians if p["codec_family"] != "none"]
    if not lossy:
        return f"{traffic}: only the dense transfer is present."
    front = list(dict.fromkeys(p["label"] for p in pareto.front(lossy, "relative_l2")))
    good = [p for p in lossy if p["relative_l2"] <= data.LOW_ERROR]
    text = (
        f"{traffic}: the Pareto front among the compressors present is formed by "
        f"{words.listing(front) if front else 'none but the dense transfer'}."
    )
    if good:
        best = max(good, key=lambda p: p["ratio"])
        text += (
            f" With an error of at most {data.LOW_ERROR:g}, the largest ratio is"
            f" {words.number(best['ratio'])} ({best['label']}, error {words.number(best['relative_l2'])},"
            f" groups of {best['group']})."
        )
    else:
        least = min(lossy, key=lambda p: p["relative_l2"])
        text += (
            f" No compressor stays below an error of {data.LOW_ERROR:g}; the most exact is"
            f" {least['label']} with {words.number(least['relative_l2'])}."
        )
    swollen = sorted({p["label"] for p in lossy if p["ratio"] < 1})
    if swollen:
        text += (
            f" {words.listing(swollen)} put{'s' if len(swollen) == 1 else ''} more bytes on the link than the"
            " dense baseline in at least one group size."
        )
    return text
