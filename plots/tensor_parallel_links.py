"""Figure 33: measured steps of a layer under 1-D, 2-D, 2.5-D and 3-D, per link, beside the cost model."""
import math

from plots import optimus_cc, style, tensor_parallel, words
from plots.drawing import Drawing

CLAIMS = ("tensor_parallel.C8", "tensor_parallel.C10b", "tensor_parallel.C14b", "tensor_parallel.M1")
COLUMNS = ("claim", "table", "what", "method", "scheme", "ranks", "link_gbps", "batch", "kind", "ms", "low", "high", "predicted_ms", "origin")


def draw(claims):
    drawing = Drawing(
        name="tensor_parallel_links",
        title="1-D, 2-D, 2.5-D and 3-D: measured steps per link, beside the cost model",
        how_to_read=(
            "Forward and backward of one layer over the rate of the link, one panel per number of ranks and batch; lower is better. Hollow"
            " points with 95 % intervals were timed on the emulated link (computing measured alone and replayed), filled ones on namespaces;"
            " dotted lines are what the cost model says of the same step from the same computing time. From claims C8, C10b, C14b and M1."
        ),
        columns=COLUMNS,
    )
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("measured", "(ms)")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="timed steps per link"))
    done = set()
    for table in tables:
        for row in _rows(table):
            key = (row["method"], row["what"], row["ranks"], row["link_gbps"], row["batch"], row["ms"])
            if key not in done:  # claims share cells
                done.add(key)
                drawing.rows.append(row)
    if not drawing.rows:
        return drawing.skipped("no data because no timed step names its grid and link.")
    panels = sorted({(r["ranks"], r["batch"]) for r in drawing.rows}, key=lambda p: (p[0], p[1]))
    # Those with most schemes; a page holds six.
    if len(panels) > 6:
        count = lambda p: (len({r["scheme"] for r in drawing.rows if (r["ranks"], r["batch"]) == p}), len([r for r in drawing.rows if (r["ranks"], r["batch"]) == p]))
        kept = sorted(sorted(panels, key=count)[-6:])
        drawing.gaps.append("Not drawn, but in the CSV: " + words.listing([_title(*p) for p in panels if p not in kept], 12) + ".")
        panels = kept
    kinds = {r["kind"] for r in drawing.rows}
    handles = tensor_parallel.scheme_handles({r["scheme"] for r in drawing.rows}) + style.kind_handles(kinds, measured=True)
    if any(math.isfinite(r["predicted_ms"]) for r in drawing.rows):
        handles.append(style.Line2D([], [], color=style.SOFT, linestyle=(0, (1, 1.2)), label="cost model"))
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = style.canvas(
        lines, columns, height=3.2 * lines, legend_rows=style.legend_rows(handles, 7), foot=optimus_cc.origin_note(tables), width=style.WIDTH if columns > 1 else 6.4
    )
    style.legend(figure, handles, 7)
    drawing.figure = figure
    for panel in axes.flat[len(panels) :]:
        panel.set_visible(False)
    for panel, (ranks, batch) in zip(axes.flat, panels):
        _panel(panel, [r for r in drawing.rows if (r["ranks"], r["batch"]) == (ranks, batch)])
        panel.set_title(_title(ranks, batch))
    for panel in axes[:, 0]:
        panel.set_ylabel("step (ms)")
    drawing.seen = _seen(drawing.rows)
    return optimus_cc.finish(drawing, claims, tables)


def _title(ranks, batch):
    return f"{ranks} ranks" + (f", batch {batch:g}" if math.isfinite(batch) else "")


def _rows(table):
    rows = []
    measured = table.column("measured", "(ms)", without=("low", "high"))
    predicted = table.column("predicted", "(ms)") or table.column("model", "(ms)")
    for label, values in table.rows:
        scheme = tensor_parallel.scheme_of(label)
        gbps = table.number(values, "link", "gbit")
        if scheme is None or not math.isfinite(values[measured]) or not math.isfinite(gbps):
            continue
        rows.append(
            {
                "claim": table.claim.id,
                "table": table.name,
                "what": label,
                "method": label.split(",")[0].split(" on ")[0],
                "scheme": scheme,
                "ranks": int(table.number(values, "ranks")),
                "link_gbps": gbps,
                "batch": table.number(values, "batch"),
                "kind": table.claim.kind,
                "ms": values[measured],
                "low": table.number(values, "low"),
                "high": table.number(values, "high"),
                "predicted_ms": values[predicted] if predicted else math.nan,
                "origin": table.claim.origin,
            }
        )
    return rows


def _panel(axes, rows):
    series = sorted({(tensor_parallel.SCHEMES.index(r["scheme"]), r["what"].split(" at ")[0].split(" on ")[0], r["kind"]) for r in rows})
    for index, what, kind in series:
        own = sorted((r for r in rows if r["what"].split(" at ")[0].split(" on ")[0] == what and r["kind"] == kind), key=lambda r: r["link_gbps"])
        scheme = tensor_parallel.SCHEMES[index]
        tint, mark = tensor_parallel.COLOURS[scheme], tensor_parallel.MARKERS[scheme]
        x = [r["link_gbps"] for r in own]
        if len(own) > 1:
            axes.plot(x, [r["ms"] for r in own], **style.curve(tint))
        modelled = [(r["link_gbps"], r["predicted_ms"]) for r in own if math.isfinite(r["predicted_ms"])]
        if modelled:
            axes.plot(*zip(*modelled), **{**style.curve(tint, "modelled"), "marker": "_" if len(modelled) == 1 else None, "markersize": 12})
        optimus_cc.whiskers(axes, x, [r["low"] for r in own], [r["high"] for r in own], [tint] * len(own))
        style.scatter(axes, [(r["link_gbps"], r["ms"], style.dot(tint, mark, kind)) for r in own])
    axes.set(xscale="log", yscale="log", xlabel="link (Gbit/s)")
    rates, times = [r["link_gbps"] for r in rows], [v for r in rows for v in (r["ms"], r["predicted_ms"]) if math.isfinite(v) and v > 0]
    for axis, values, set_limits in ((axes.xaxis, rates, axes.set_xlim), (axes.yaxis, times, axes.set_ylim)):
        low, high = style.log_limits(values, pad=0.1)
        set_limits(low, high)
        style.number_ticks(axis, low, high)


def _seen(rows):
    seen = []
    for ranks, batch in sorted({(r["ranks"], r["batch"]) for r in rows}):
        parts = []
        for gbps in sorted({r["link_gbps"] for r in rows if (r["ranks"], r["batch"]) == (ranks, batch)}):
            own = [r for r in rows if (r["ranks"], r["batch"], r["link_gbps"]) == (ranks, batch, gbps)]
            line = min((r["ms"] for r in own if r["scheme"] == "1-D"), default=math.nan)
            grids = [r for r in own if r["scheme"] != "1-D"]
            if math.isfinite(line) and grids:
                best = min(grids, key=lambda r: r["ms"])
                parts.append(f"{words.number(gbps, 3)} Gbit/s {tensor_parallel.name_of(best['method'])} at {words.number(line / best['ms'], 3)}x of 1-D's speed")
        if parts:
            seen.append(f"{_title(ranks, batch)}, the fastest grid: {words.listing(parts)}.")
    off = [abs(r["predicted_ms"] / r["ms"] - 1) for r in rows if math.isfinite(r["predicted_ms"])]
    if off:
        seen.append(f"The cost model is within {100 * max(off):.0f} % of all {words.count(len(off), 'step')} ({100 * sorted(off)[len(off) // 2]:.0f} % in the median).")
    return seen or [f"{words.count(len(rows), 'step')} timed, none beside a 1-D step of the same batch and link."]
