"""How near codecs and kernels come to what the GPU can do, with the project's goals and what PyTorch does in the same run."""
import numpy as np

from plots.lib import data, device, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("device", "panel", "label", "codec_family", "peer", "dtype", "dense_bytes", "direction", "time_us", "bound", "fraction", "target")
TYPES = {"f32": "#4a6fa5", "bf16": "#d08c2f"}


@Figure(
    title="How fast codecs and kernels are on a GPU: share of what the device can do",
    order=180,
    reads=Source.DEVICE,
    how_to_read=(
        "Left: the time that moving the least possible bytes takes at the device's copy rate in the same run, over the time of encode"
        " (filled, pointing right) and decode (hollow, pointing left); for codecs made of matrix products, the time of the bare products"
        " over it. Three lines per codec are three sizes, the smallest on top; strokes are the project's goals. Rows in italics are PyTorch's."
        " Right: the trainer's kernels at the shapes of GPT-2 124M: products and attention against the rate of a large product, the"
        " others against the copy rate. Training steps stand in the table."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    codecs, kernels = device.rows(collected, "codec"), device.rows(collected, "kernel")
    codecs = codecs.where(operation="encode_decode")
    steps = _steps(collected)
    if not len(codecs) and not len(kernels) and not steps:
        return drawing.skipped(device.why_skipped(collected))
    shown = [r for row in codecs.rows() for r in _codec_rows(row)]
    done = [_kernel_row(row) for row in kernels.rows()]
    drawing.rows = shown + done
    labels = device.labels(codecs)
    names = list(dict.fromkeys(r["label"] for r in done))
    drawing.figure, axes = style.canvas(1, 2, height=1.0 + 0.3 * max(4, len(labels), len(names)), legend_rows=1)
    style.legend(drawing.figure, _handles(), 5)
    _codec_panel(axes[0, 0], shown, labels) if shown else style.empty_panel(axes[0, 0], "no data because no codec was timed on a GPU")
    _kernel_panel(axes[0, 1], done, names) if done else style.empty_panel(axes[0, 1], "no data because no kernel was timed on a GPU")
    drawing.seen = _seen(shown, done, steps)
    if not shown:
        drawing.gaps.append("no codec was timed on a GPU.")
    if not done:
        drawing.gaps.append("no kernel was timed on a GPU (bench_device --what kernels).")
    drawing.tables = [t for t in (_side_by_side(codecs), _steps_table(steps)) if t]
    return drawing


def _handles():
    grey = {"linestyle": "", "color": style.SOFT, "markersize": 6}
    return [
        style.Line2D([], [], marker=">", label="encode", **grey),
        style.Line2D([], [], marker="<", markerfacecolor="white", label="decode", **grey),
        style.Line2D([], [], color=style.INK, linewidth=1.6, label="goal"),
        *(style.plt.Rectangle((0, 0), 1, 1, color=tint, label=f"kernels, {dtype}") for dtype, tint in TYPES.items()),
    ]


def _codec_rows(row):
    products = np.isfinite(row["blas_fraction_encode"])
    for direction in ("encode", "decode"):
        yield {
            "device": row["device"],
            "panel": "codec",
            "label": device.label(row),
            "codec_family": row["family"],
            "peer": int(data.is_peer(row)),
            "dtype": "f32",
            "dense_bytes": int(row["dense_bytes"]),
            "direction": direction,
            "time_us": row[f"{direction}_us"],
            "bound": "products" if products else "copy",
            "fraction": row[f"blas_fraction_{direction}" if products else f"bound_fraction_{direction}"],
            "target": row["target_fraction"],
        }


def _kernel_row(row):
    return {
        "device": row["device"],
        "panel": "kernel",
        "label": row["operation"].replace("_", " "),
        "codec_family": "",
        "peer": 0,
        "dtype": row["dtype"],
        "dense_bytes": 0,
        "direction": "",
        "time_us": row["total_us"],
        "bound": "products" if np.isfinite(row["gflops"]) else "copy",
        "fraction": row["bound_fraction"],
        "target": row["target_fraction"],
    }


def _codec_panel(axes, rows, labels):
    places = [label for label, _, _ in labels]
    sizes = sorted({r["dense_bytes"] for r in rows})
    spots, seen = [], set()
    for r in rows:
        shift = 0.5 * (sizes.index(r["dense_bytes"]) / (len(sizes) - 1) - 0.5) if len(sizes) > 1 else 0
        y, tint, encode = places.index(r["label"]) + shift, style.colour(r["codec_family"]), r["direction"] == "encode"
        if np.isfinite(r["fraction"]):
            look = {"marker": ">" if encode else "<", "s": 28, "facecolors": tint if encode else "white", "edgecolors": tint, "linewidths": 1.1, "zorder": 3}
            spots.append((r["fraction"], y, look))
        if np.isfinite(r["target"]) and r["label"] not in seen:
            seen.add(r["label"])
            axes.plot([r["target"]] * 2, [places.index(r["label"]) - 0.36, places.index(r["label"]) + 0.36], color=style.INK, linewidth=1.6, zorder=2.5)
    style.scatter(axes, spots)
    axes.set(xlabel="fraction of the bound", title=words.listing(sorted({r["device"] for r in rows})))
    axes.set_xlim(0, max([1.05] + [1.05 * r["fraction"] for r in rows if np.isfinite(r["fraction"])]))
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.set_yticks(range(len(places)), places)
    for tick, (_, _, peer) in zip(axes.get_yticklabels(), labels):
        tick.set_fontstyle("italic" if peer else "normal")
    axes.tick_params(axis="y", length=0)


def _kernel_panel(axes, rows, names):
    for i, (dtype, tint) in enumerate(TYPES.items()):
        own = [r for r in rows if r["dtype"] == dtype and np.isfinite(r["fraction"])]
        axes.barh([names.index(r["label"]) + 0.38 * (i - 0.5) for r in own], [r["fraction"] for r in own], height=0.36, **style.bar(tint))
    axes.set(xlabel="fraction of the bound", title="kernels of the trainer")
    axes.set_xlim(0, max([1.05] + [1.05 * r["fraction"] for r in rows if np.isfinite(r["fraction"])]))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)


def _steps(collected):
    """Training steps on a GPU: ours (train_gpt --device cuda) and the peers', as rows of one table."""
    found = []
    for r in collected.training_time.rows():
        if data.on_gpu(r) and np.isfinite(r["step_ms"]):
            found.append((f"thinwire, {r['plan']}", r["step_ms"], r["step_iqr_ms"], r["tokens_per_second"], r["gflops"], r["mfu"], r["peak"], r["device"]))
    for r in device.rows(collected, "training").rows():
        tokens = r["batch"] * r["seq"] / r["total_us"] * 1e6
        found.append((r["method"], r["total_us"] * 1e-3, r["total_iqr_us"] * 1e-3, tokens, r["gflops"], r["bound_fraction"], "bf16 product of the same run", r["device"]))
    return found


def _steps_table(steps):
    rows = [
        [name, f"{words.number(ms, 3)} ms", f"{words.number(spread, 2)} ms", f"{tokens:,.0f}", f"{words.number(gflops * 1e-3, 3)}", words.percent(mfu, 1) if np.isfinite(mfu) else "n/a", peak, where]
        for name, ms, spread, tokens, gflops, mfu, peak, where in steps
    ]
    header = ["trainer", "step (median)", "spread", "tokens/s", "model TFLOP/s", "utilisation", "against", "device"]
    return ("Training steps on a GPU; utilisation = model FLOPs (6 N + 12 L hidden seq per token) over the peak", header, rows) if rows else None


def _side_by_side(codecs):
    """Ours and the peers of the same codec and size."""
    rows = []
    for (codec, size), here in codecs.groups("codec", "dense_bytes"):
        ours = [r for r in here.rows() if not data.is_peer(r)]
        for peer in (r for r in here.rows() if data.is_peer(r)):
            for own in ours:
                rows.append(
                    [
                        data.compact(codec),
                        peer["method"],
                        words.size(int(size)),
                        *(words.microseconds(r[c]) for c in ("encode_us", "decode_us") for r in (own, peer)),
                        words.times((peer["encode_us"] + peer["decode_us"]) / (own["encode_us"] + own["decode_us"])),
                    ]
                )
    header = ["codec", "PyTorch's method", "dense size", "encode, ours", "encode, PyTorch", "decode, ours", "decode, PyTorch", "ours is faster by"]
    return ("Side by side in one run", header, rows) if rows else None


def _seen(codecs, kernels, steps):
    seen = []
    judged = [r for r in codecs if np.isfinite(r["target"]) and np.isfinite(r["fraction"]) and not r["peer"]]
    short = [r for r in judged if r["fraction"] < r["target"]]
    if judged:
        seen.append(_goals(judged, short))
    for bound, of in (("products", "a large product"), ("copy", "the copy rate")):
        own = [r for r in kernels if r["bound"] == bound and np.isfinite(r["fraction"]) and r["label"] != "gemm peak"]
        if own:
            low, high = min(own, key=lambda r: r["fraction"]), max(own, key=lambda r: r["fraction"])
            seen.append(
                f"Against {of}, kernels reach {words.number(low['fraction'])} ({low['label']}, {low['dtype']}) to {words.number(high['fraction'])} ({high['label']}, {high['dtype']})."
            )
    for name, _, _, tokens, _, mfu, _, _ in steps:
        seen.append(f"{name} trains {tokens:,.0f} tokens/s" + (f", {words.percent(mfu, 1)} of the peak." if np.isfinite(mfu) else "."))
    return seen


def _goals(judged, short):
    listed = words.listing(
        ["{} of {} at {} ({} of {:g})".format(r["direction"], r["label"], words.size(r["dense_bytes"]), words.number(r["fraction"]), r["target"]) for r in short]
    )
    return f"{len(judged) - len(short)} of {len(judged)} goals for codecs are met" + (f"; short: {listed}." if short else ".")
