"""Synchronising the gradient of a tied embedding table, in two steps or fused, dense or compressed."""
import numpy as np

from plots.lib import data, style, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "panel",
    "link",
    "label",
    "codec_family",
    "form",
    "scheme",
    "value",
    "link_bytes",
    "total_us",
    "relative_l2",
    "status",
    "rows",
)
HATCH = {"fused": "", "two-step": "////"}


@Figure(
    title="Embedding gradient: two steps against one fused reduction",
    order=60,
    reads=Source.BENCHES,
    how_to_read=(
        "Two steps: a data-parallel reduction, then the sum of first and last stage; fused: one reduction"
        " over both. First panel: bytes that a rank sends (mean over ranks); others: time of the whole"
        " synchronisation per link. Hatched bars are two-step."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = collected.cells.where(traffic="embedding")
    usable = data.delivered(cells)
    usable = usable.where(usable["link_bytes"] > 0) if len(usable) else usable
    if not len(usable):
        return drawing.without_data(data.why_none(cells, "the embedding gradient (bench_embedding)"))
    links = data.links(cells)
    labels = [
        (l, f, form) for (l, f) in data.methods(usable) for form in sorted(set(usable.where(label=l)["form"]))
    ]
    schemes = [s for s in ("two-step", "fused") if s in usable.distinct("scheme")] + sorted(
        set(usable["scheme"]) - set(HATCH)
    )
    handles = [
        style.plt.Rectangle(
            (0, 0),
            1,
            1,
            facecolor="#cbd2d9" if HATCH.get(s) else style.SOFT,
            hatch=HATCH.get(s, ""),
            edgecolor="white",
            label=s,
        )
        for s in schemes
    ]
    figure, axes = style.canvas(
        1, 1 + len(links), height=1.0 + 0.42 * max(2, len(labels)), legend_rows=1, sharey=True
    )
    style.legend(figure, handles, 6)
    drawing.figure = figure
    _panel(
        axes[0, 0], "link_bytes", "", usable, labels, schemes, drawing.rows, 2.0**20, "MiB sent per rank"
    )
    axes[0, 0].set_title("link bytes")
    axes[0, 0].set_yticks(
        range(len(labels)), [l + ("" if form == "fair" else f" ({form})") for l, _, form in labels]
    )
    for panel, link in zip(axes[0, 1:], links):
        here = usable.where(link=link)
        here = here.where(data.positive(here["total_us"])) if len(here) else here
        panel.set_title(style.link_name(link))
        if not len(here):
            reason = data.why_none(cells.where(link=link), f"the embedding gradient on {link}")
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
        _panel(panel, "total_us", link, here, labels, schemes, drawing.rows, 1e3, "time (ms)")
        drawing.seen.append(_seen(link, here))
    return drawing


def _panel(axes, column, link, cells, labels, schemes, drawn, unit, axis):
    thick = 0.8 / len(schemes)
    for (label, family, form, scheme), rows in cells.groups("label", "family", "form", "scheme"):
        value = rows.median(column)
        row = {
            "panel": column,
            "link": link,
            "label": label,
            "codec_family": family,
            "form": form,
            "scheme": scheme,
            "value": value,
            "link_bytes": rows.median("link_bytes"),
            "total_us": rows.median("total_us"),
            "relative_l2": rows.median("relative_l2"),
            "status": "MISTRUSTED" if "MISTRUSTED" in rows.distinct("status") else "OK",
            "rows": len(rows),
        }
        drawn.append(row)
        y = labels.index((label, family, form)) + (schemes.index(scheme) - (len(schemes) - 1) / 2) * thick
        axes.barh(
            y,
            value / unit,
            height=0.88 * thick,
            color=style.colour(family),
            alpha=0.55 if HATCH.get(scheme) else 1.0,
            hatch=HATCH.get(scheme, ""),
            edgecolor="white",
            linewidth=0,
        )
        axes.annotate(
            words.number(value / unit) + ("*" if row["status"] == "MISTRUSTED" else ""),
            xy=(value / unit, y),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=style.SOFT,
        )
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(
        0, 1.28 * max(d["value"] for d in drawn if d["panel"] == column and d["link"] == link) / unit
    )
    axes.xaxis.set_major_locator(style.matplotlib.ticker.MaxNLocator(4))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(axis)


def _seen(link, cells):
    dense = {s: cells.where(family="none", scheme=s).median("total_us") for s in cells.distinct("scheme")}
    text = f"On {link}"
    fused, split = dense.get("fused", float("nan")), dense.get("two-step", float("nan"))
    if np.isfinite(fused) and np.isfinite(split):
        text += (
            f", without compression, two steps take {words.microseconds(split)} and the fused reduction"
            f" {words.microseconds(fused)} ({words.times(split / fused)})"
        )
    valid = cells.where(status="OK")
    if len(valid):
        best = valid.take([int(np.argmin(valid["total_us"]))]).rows()[0]
        text += (
            f"; the fastest of all is {best['label']} {best['scheme']} with"
            f" {words.microseconds(best['total_us'])} (error {words.number(best['relative_l2'])})"
        )
    return text + "."
