"""Encode and decode throughput of each codec against memcpy of the same run, and the fraction of its bound."""
import numpy as np

from plots.lib import data, style, words
from plots.lib.figure import Figure, Source

COLUMNS = (
    "label",
    "codec_family",
    "form",
    "tensor",
    "dense_bytes",
    "direction",
    "gbps",
    "memcpy_gbps",
    "bound",
    "bound_fraction",
    "target",
    "threads",
)


@Figure(
    title="How fast the codecs are: encode and decode against memcpy",
    order=70,
    reads=Source.BENCHES,
    how_to_read=(
        "Left: input bytes per second of encode (filled, pointing right) and decode (hollow, pointing"
        " left); the band is the memcpy rate of the same run. Right: the fraction of the bound, (bytes"
        " read + bytes written) / (2 × memcpy rate), or for codecs made of matrix products of the BLAS"
        " rate for their shapes; short vertical strokes are the codecs' goals (solid encode, dotted"
        " decode), which files from before 2026-11-27 lack. The largest tensor that each codec was measured on."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = collected.cells.where(traffic="codec")
    usable = cells.where(
        data.positive(cells["encode_gbps"]) | data.positive(cells["decode_gbps"]), status="OK"
    )
    if not len(usable):
        return drawing.without_data(data.why_none(cells, "codecs alone (bench_codec)"))
    rows = _rows(usable)
    drawing.rows = rows
    labels = list(dict.fromkeys((r["label"], r["codec_family"], r["form"]) for r in rows))
    handles = [
        style.Line2D([], [], marker=">", linestyle="", color=style.SOFT, markersize=6, label="encode"),
        style.Line2D(
            [],
            [],
            marker="<",
            linestyle="",
            color=style.SOFT,
            markerfacecolor="white",
            markersize=6,
            label="decode",
        ),
        style.plt.Rectangle((0, 0), 1, 1, color="#d9e2ec", label="memcpy of the same run"),
    ]
    figure, axes = style.canvas(1, 2, height=1.0 + 0.27 * max(3, len(labels)), legend_rows=1, sharey=True)
    style.legend(figure, handles, 3)
    drawing.figure = figure
    _throughput(axes[0, 0], rows, labels)
    _fractions(axes[0, 1], rows, labels)
    drawing.seen = _seen(rows)
    missing = len(cells) - len(usable)
    if missing:
        drawing.gaps.append(
            f"{words.count(missing, 'codec row')} not drawn:"
            f" {data.why_none(cells.where(status=data.STATUSES[1:]), 'codecs')}"
        )
    return drawing


def _rows(cells):
    order = {pair: i for i, pair in enumerate(data.methods(cells))}
    result = []
    for (label, family, form), rows in sorted(
        cells.groups("label", "family", "form"), key=lambda g: (order[g[0][:2]], g[0][2])
    ):
        large = rows.where(dense_bytes=int(rows["dense_bytes"].max()))
        tensor = large["tensor"][0]
        large = large.where(tensor=tensor)
        # A codec made of matrix products is bound by the BLAS rate for its shapes, the others by memory.
        bound = "blas" if np.isfinite(large.median("blas_fraction_encode")) else "bound"
        for direction in ("encode", "decode"):
            result.append(
                {
                    "label": label,
                    "codec_family": family,
                    "form": form,
                    "tensor": tensor,
                    "dense_bytes": int(large["dense_bytes"][0]),
                    "direction": direction,
                    "gbps": large.median(f"{direction}_gbps"),
                    "memcpy_gbps": large.median("memcpy_gbps"),
                    "bound": bound,
                    "bound_fraction": large.median(f"{bound}_fraction_{direction}"),
                    "threads": int(large["threads"].max()),
                    "target": large.median(f"target_fraction_{direction}"),
                }
            )
    return result


def _dots(axes, rows, labels, column):
    for row in rows:
        if not (np.isfinite(row[column]) and row[column] > 0):
            continue
        y = labels.index((row["label"], row["codec_family"], row["form"]))
        tint = style.colour(row["codec_family"])
        encode = row["direction"] == "encode"
        axes.scatter(
            row[column],
            y + (-0.14 if encode else 0.14),
            marker=">" if encode else "<",
            s=40,
            facecolors=tint if encode else "white",
            edgecolors=tint,
            linewidths=1.2,
            zorder=3,
        )
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _throughput(axes, rows, labels):
    memcpy = [r["memcpy_gbps"] for r in rows if np.isfinite(r["memcpy_gbps"]) and r["memcpy_gbps"] > 0]
    speeds = [r["gbps"] for r in rows if np.isfinite(r["gbps"]) and r["gbps"] > 0]
    axes.set(xscale="log", xlabel="throughput (10⁹ input bytes per second)", title="throughput")
    low, high = style.log_limits(speeds + memcpy)
    axes.set_xlim(low, high)
    style.number_ticks(axes.xaxis, low, high)
    if memcpy:
        axes.axvspan(min(memcpy) / 1.005, max(memcpy) * 1.005, color="#d9e2ec", zorder=1)
    _dots(axes, rows, labels, "gbps")
    axes.set_yticks(
        range(len(labels)), [label + ("" if form == "fair" else f" ({form})") for label, _, form in labels]
    )


def _fractions(axes, rows, labels):
    axes.set(xlabel="fraction of the bound", title="fraction of the bound, with the goals")
    for row in rows:
        if np.isfinite(row["target"]):
            y = labels.index((row["label"], row["codec_family"], row["form"])) + (
                -0.14 if row["direction"] == "encode" else 0.14
            )
            axes.plot(
                [row["target"]] * 2,
                [y - 0.16, y + 0.16],
                color=style.INK,
                linewidth=1.6,
                linestyle="-" if row["direction"] == "encode" else (0, (1, 1)),
                zorder=2.5,
            )
    known = [r["bound_fraction"] for r in rows if data.positive(r["bound_fraction"])]
    axes.set_xlim(0, max([1.05] + [1.05 * k for k in known]))
    _dots(axes, rows, labels, "bound_fraction")
    if not known:
        axes.text(
            0.5,
            0.5,
            "no data because no row carries a bound",
            transform=axes.transAxes,
            ha="center",
            color=style.SOFT,
        )


def _seen(rows):
    coded = [r for r in rows if r["codec_family"] != "none" and np.isfinite(r["gbps"])]
    seen = []
    if coded:
        fast, slow = max(coded, key=lambda r: r["gbps"]), min(coded, key=lambda r: r["gbps"])
        memcpy = [r["memcpy_gbps"] for r in rows if np.isfinite(r["memcpy_gbps"])]
        seen.append(
            f"The fastest step is {fast['direction']} of {fast['label']} with"
            f" {words.number(fast['gbps'])} GB/s, the slowest {slow['direction']} of {slow['label']} with"
            f" {words.number(slow['gbps'])} GB/s"
            + (
                f"; memcpy moved {words.number(float(np.median(memcpy)))} GB/s in the same run."
                if memcpy
                else "."
            )
        )
    judged = [r for r in rows if np.isfinite(r["target"]) and np.isfinite(r["bound_fraction"])]
    short = [r for r in judged if r["bound_fraction"] < r["target"]]
    if judged:
        listed = words.listing(
            [
                f"{r['direction']} of {r['label']} ({words.number(r['bound_fraction'])} of {r['target']:g})"
                for r in short
            ]
        )
        seen.append(
            f"{len(judged) - len(short)} of {len(judged)} goals are met in this run"
            + (f"; short of its goal: {listed}." if short else ".")
        )
    return seen
