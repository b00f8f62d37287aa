"""TeraPipe's step by its formula against the measured one, and by the number of slices."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C17",)
COLUMNS = ("what", "slicing", "stages", "slices", "ms", "low", "high", "predicted_ms", "kind", "origin")
NAMES = {"uniform": "equal slices", "DP": "slices of the dynamic program", "micro-batches": "one micro-batch, whole sequences"}
LOOKS = {"uniform": ("#0072b2", "o"), "DP": ("#d55e00", "D"), "micro-batches": ("#4a5560", "s")}


@Figure(
    title="TeraPipe: measured step against slices, and against the formula",
    order=360,
    reads=Source.CLAIMS,
    how_to_read=(
        "Left: the step of a token-sliced pipeline over the number of slices per sequence, one panel per number of stages: timed (bars: half the"
        " quartiles' distance each way), and as dotted lines sum t_i + (K-1) max t_i from slice times measured on one stage alone. The diamond is"
        " the slicing of the dynamic program, the square all sequences in one micro-batch. Right: predicted against measured; the band is"
        " claim C17's largest error, 20 %. Filled: a core per stage; hollow: timed compute over an emulated link."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("measured", "(ms)") and t.column("predicted", "(ms)")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="measured and predicted steps of sliced pipelines"))
    drawing.rows = [r for t in tables for r in _rows(t)]
    stages = sorted({r["stages"] for r in drawing.rows})
    handles = [
        style.Line2D([], [], color=t, marker=m, linestyle="", markersize=6, label=NAMES[n])
        for n, (t, m) in LOOKS.items()
        if any(r["slicing"] == n for r in drawing.rows)
    ]
    handles += style.kind_handles({r["kind"] for r in drawing.rows}, measured=True)
    handles.append(style.Line2D([], [], color=style.SOFT, linestyle=(0, (1, 1.2)), label="formula"))
    figure, axes = style.canvas(1, len(stages) + 1, height=3.5, legend_rows=style.legend_rows(handles, 6), foot=claim_drawing.origin_note(tables))
    style.legend(figure, handles, 6)
    drawing.figure = figure
    for panel, count in zip(axes.flat, stages):
        _panel(panel, [r for r in drawing.rows if r["stages"] == count])
        panel.set_title(f"{count} stages")
    axes[0, 0].set_ylabel("step (ms)")
    _against(axes[0, -1], drawing.rows)
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, tables)


def _slicing(label):
    return "DP" if "best slices" in label else "micro-batches" if "micro-batch" in label else "uniform"


def _rows(table):
    rows = []
    measured = table.column("measured", "(ms)")
    for label, values in table.rows:
        if math.isfinite(values[measured]):
            half = 0.5 * table.number(values, "interquartile")
            rows.append(
                {
                    "what": label,
                    "slicing": _slicing(label),
                    "stages": int(table.number(values, "stages")),
                    "slices": int(table.number(values, "slices")),
                    "ms": values[measured],
                    "low": values[measured] - half,
                    "high": values[measured] + half,
                    "predicted_ms": table.number(values, "predicted", "(ms)"),
                    "kind": table.claim.kind,
                    "origin": table.claim.origin,
                }
            )
    return rows


def _panel(axes, rows):
    for name, (tint, mark) in LOOKS.items():
        own = sorted((r for r in rows if r["slicing"] == name), key=lambda r: r["slices"])
        if not own:
            continue
        x = [r["slices"] for r in own]
        if name == "uniform":
            axes.plot(x, [r["ms"] for r in own], **style.curve(tint))
            axes.plot(x, [r["predicted_ms"] for r in own], **style.curve(tint, "modelled"))
        else:
            axes.plot(x, [r["predicted_ms"] for r in own], marker="_", markersize=12, linestyle="", color=tint)
        claim_drawing.whiskers(axes, x, [r["low"] for r in own], [r["high"] for r in own], [tint] * len(own))
        style.scatter(axes, [(r["slices"], r["ms"], style.dot(tint, mark, r["kind"])) for r in own])
    ticks = sorted({r["slices"] for r in rows if r["slicing"] == "uniform"}) or sorted({r["slices"] for r in rows})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.set_xlabel("slices per sequence")
    axes.set_ylim(bottom=0)


def _against(axes, rows):
    values = [v for r in rows for v in (r["ms"], r["predicted_ms"]) if math.isfinite(v)]
    low, high = style.log_limits(values, pad=0.08)
    axes.fill_between([low, high], [0.8 * low, 0.8 * high], [1.2 * low, 1.2 * high], color="#e8eef4", linewidth=0, zorder=0.5)
    axes.plot([low, high], [low, high], color=style.SOFT, linewidth=0.8, zorder=1.5)
    style.scatter(axes, [(r["ms"], r["predicted_ms"], style.dot(*LOOKS[r["slicing"]], r["kind"], size=34)) for r in rows if math.isfinite(r["predicted_ms"])])
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel="measured step (ms)", ylabel="predicted step (ms)", title="against the formula")
    for axis in (axes.xaxis, axes.yaxis):
        style.number_ticks(axis, low, high)


def _seen(rows):
    off = sorted(abs(r["predicted_ms"] / r["ms"] - 1) for r in rows if math.isfinite(r["predicted_ms"]))
    seen = [f"The formula is within {100 * off[-1]:.0f} % of all {words.count(len(off), 'step')}, {100 * off[len(off) // 2]:.0f} % in the median."] if off else []
    for count in sorted({r["stages"] for r in rows}):
        own = {r["slices"]: r["ms"] for r in rows if r["stages"] == count and r["slicing"] == "uniform"}
        chosen = next((r for r in rows if r["stages"] == count and r["slicing"] == "DP"), None)
        if own:
            best = min(own, key=own.get)
            tail = f"; the dynamic program's {words.number(chosen['ms'], 3)} ms ({chosen['slices']} slices)" if chosen else ""
            seen.append(f"{count} stages: equal slices are fastest at {best} ({words.number(own[best], 3)} ms; one slice {words.number(own.get(1, math.nan), 3)} ms){tail}.")
    return seen
