"""Error of a decoded tensor against the compression ratio, every codec of each tensor, with the Pareto front named."""
import os

import numpy as np

from plots.lib import data, pareto, style, traffic_classes, words
from plots.lib.figure import Figure, Heading, Source

# Largest vNMSE that `bench_codec --all` calls tolerable, too: the square of the figures' low relative L2 error.
TOLERABLE = data.LOW_ERROR**2
COLUMNS = (
    "panel",
    "label",
    "codec_family",
    "form",
    "ratio",
    "vnmse",
    "relative_l2",
    "cosine",
    "slope_bias",
    "encode_gbps",
    "decode_gbps",
    "bound_fraction_encode",
    "bound_fraction_decode",
    "break_even_gbps",
    "threads",
    "rows",
    "on_front",
)
TABLE = ("codec", "ratio", "bits per element", "vNMSE", "rel. L2", "cosine", "slope bias", "encode (GB/s)", "decode (GB/s)", "break-even (Gbit/s)")


@Figure(
    title="What a codec costs a tensor: error against ratio",
    order=75,
    reads=Source.BENCHES,
    under=Heading.ERROR,
    how_to_read=(
        "Codecs alone (bench_codec), one panel per traffic class of captured tensors, else per tensor. Right is"
        " fewer bytes, down is a more exact tensor: vNMSE is the squared L2 norm of the error over that of the"
        " tensor. Named: the Pareto front, codecs that no other beats in both; the stepped line joins them. Pale:"
        f" all others, in the CSV by name. Below the dotted line the error is at most {TOLERABLE:g}, a relative L2"
        " error of 0.1, which says nothing about training. Neither coordinate depends on time."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    alone = collected.cells.where(traffic="codec")
    panels = {name: points for name, points in _panels(data.delivered(alone)) if points}
    if not panels:
        return drawing.without_data(data.why_none(alone, "codecs alone (bench_codec)"))
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    handles = _handles()
    figure, axes = style.canvas(lines, columns, height=(5.4 if columns == 1 else 4.6) * lines, legend_rows=1)
    style.legend(figure, handles, len(handles))
    drawing.figure = figure
    labels = [(panel, *_draw_panel(panel, name, points)) for panel, (name, points) in zip(axes.flat, panels.items())]
    for panel in axes.flat[len(panels) :]:
        panel.set_visible(False)
    style.freeze_layout(figure)
    left_out = [text for panel, named, dots in labels for text in style.place_labels(panel, named, dots)]
    if left_out:
        drawing.gaps.append(f"no room for the label(s) {words.listing(left_out)}; their points are drawn and listed in the CSV.")
    for name, points in panels.items():
        drawing.rows += points
        drawing.seen.append(_seen(name, points))
        drawing.tables.append((f"Codecs on {name}, those with a vNMSE of at most {TOLERABLE:g} first", TABLE, _table(points)))
    missing = alone.where(status=tuple(s for s in data.STATUSES if s not in ("OK", "MISTRUSTED")))
    if len(missing):
        drawing.gaps.append(f"{words.count(len(missing), 'codec row')} without a result: {data.why_none(missing, 'them')}")
    return drawing


def _panels(cells):
    """(title, points) per class of captured tensors, and per tensor where there is no class."""
    names = [
        f"{traffic_classes.words_of(kind)} ({kind})" if kind else os.path.basename(tensor) or "unnamed tensor"
        for kind, tensor in zip(cells["tensor_class"], cells["tensor"])
    ]
    cells = cells.with_column("panel", names)
    cells = cells.with_column("ratio", data.message_ratio(cells), np.float64).with_column("vnmse", data.vnmse(cells), np.float64)
    cells = cells.where(data.positive(cells["ratio"]) & np.isfinite(cells["vnmse"]) & (cells["vnmse"] >= 0))
    for (name,), rows in cells.groups("panel"):
        yield name, _points(name, rows)


def _points(name, cells):
    """Dictionaries of COLUMNS: medians over the rows of a codec, as several tensors of a class give."""
    points = []
    order = {pair: i for i, pair in enumerate(data.methods(cells))}
    for (label, family, form), rows in sorted(cells.groups("label", "family", "form"), key=lambda g: (order[g[0][:2]], g[0][2])):
        medians = {column: rows.median(column) for column in COLUMNS[COLUMNS.index("ratio") : COLUMNS.index("threads")]}
        label += "" if form == "fair" else f" ({form})"
        point = {"panel": name, "label": label, "codec_family": family, "form": form, "threads": int(rows["threads"].max()), "rows": len(rows)}
        points.append({**point, **medians})
    pareto.mark_front(points, "vnmse")
    return points


def _handles():
    dot = lambda text, **look: style.Line2D([], [], marker="o", linestyle="", color=style.SOFT, label=text, **look)
    return [
        dot("on the Pareto front", markersize=7),
        dot("beaten", markersize=5, alpha=0.3),
        style.Line2D([], [], color=style.INK, linewidth=1.0, linestyle=(0, (4, 2)), label="least error that a ratio costs"),
    ]


def _draw_panel(axes, name, points):
    """Returns the labels, placed once the layout is final, and the points that they should not hide."""
    place = pareto.scale_axes(axes, points, "vnmse", "compression ratio (f32 bytes / payload bytes)", "vNMSE of the decoded tensor")
    axes.set_title(name)
    low, high = axes.get_ylim()
    if low < TOLERABLE < high:
        axes.axhline(TOLERABLE, color=style.SOFT, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        pareto.note(axes, TOLERABLE, f"tolerable: {TOLERABLE:g}")
    pareto.draw_front(axes, points, "vnmse", place)
    for p in points:
        look = style.point(p["codec_family"], p["form"], "point_to_point", size=52 if p["on_front"] else 26)
        axes.scatter(p["ratio"], place(p), **look, alpha=1.0 if p["on_front"] else 0.3)
    best = pareto.front(points, "vnmse")
    # Equal points have one label between them.
    named = {}
    for p in best:
        named.setdefault((p["ratio"], place(p)), []).append(p)
    labels = [(x, y, " = ".join(p["label"] for p in same), style.INK) for (x, y), same in named.items()]
    return labels, [(p["ratio"], place(p)) for p in points]


def _ranked(points):
    """The tolerable by falling ratio, then the others by rising error: the order of bench_codec's own table."""
    return sorted(points, key=lambda p: (p["vnmse"] > TOLERABLE, -p["ratio"] if p["vnmse"] <= TOLERABLE else p["vnmse"], p["vnmse"]))


def _table(points):
    three = lambda value: words.number(float(value), 3)
    return [
        [p["label"], three(p["ratio"]), three(32 / p["ratio"]), *(three(p[c]) for c in ("vnmse", "relative_l2", "cosine", "slope_bias", "encode_gbps", "decode_gbps", "break_even_gbps"))]
        for p in _ranked(points)
    ]


def _seen(name, points):
    coded = [p for p in points if p["codec_family"] != "none"]
    if not coded:
        return f"{name}: only the dense tensor is present."
    text = f"{name}: the Pareto front of {words.count(len(points), 'codec')} is {words.listing([p['label'] for p in pareto.front(points, 'vnmse')])}."
    good = [p for p in coded if p["vnmse"] <= TOLERABLE]
    if not good:
        least = min(coded, key=lambda p: p["vnmse"])
        return f"{text} None has a vNMSE of at most {TOLERABLE:g}; the most exact is {least['label']} with {words.number(least['vnmse'])}."
    best = _ranked(good)[0]
    text += f" With a vNMSE of at most {TOLERABLE:g} the largest ratio is {words.number(best['ratio'])} ({best['label']}, vNMSE {words.number(best['vnmse'])})"
    return text + (f"; it pays on links below {words.number(best['break_even_gbps'])} Gbit/s here." if data.positive(best["break_even_gbps"]) else ".")
