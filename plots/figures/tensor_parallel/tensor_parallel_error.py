"""What a rank receives in a step of a layer on a process grid, against the error of its results, dense and compressed."""
import math

from plots.lib import data, style, tensor_parallel, words
from plots.lib.figure import Figure, Heading, Source

COLUMNS = ("unit", "shape", "method", "scheme", "ranks", "codec", "what", "received_bytes", "relative_l2", "on_front", "link")
RESULTS = ("output", "input gradient", "weight gradient")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
UNITS = ("layer", "mlp", "linear")


@Figure(
    title="Tensor parallelism in 1, 2, 2.5 and 3 dimensions: received bytes against error, dense and compressed",
    order=110,
    reads=Source.BENCHES,
    under=Heading.ERROR,
    how_to_read=(
        "One point per process grid and codec: payload that a rank receives in one forward and backward pass (mean over ranks), against"
        " the relative L2 error of the result, the same layer on one rank in float64 being exact. Colour is the scheme, marker the codec,"
        " which compresses activations, their gradients, weights and weight gradients on the way; layernorm and loss stay exact. Left is"
        " fewer bytes, down more exact; the stepped line is the front that no other point beats. Time does not enter. `quantize` is its 8 bits."
    ),
    columns=COLUMNS,
)
def draw(drawing, collected):
    cells = collected.grid_cells
    points = _points(cells)
    if not points:
        return drawing.without_data(data.why_none(cells, "layers on process grids (bench_tensor_parallel)"))
    settings = {}
    for p in points:
        settings.setdefault((p["unit"], p["shape"]), []).append(p)
    # The layer with most codecs; of its numbers of ranks the largest three.
    best = max(settings, key=lambda g: (len({p["codec"] for p in settings[g]}), -UNITS.index(g[0]) if g[0] in UNITS else -9, len(settings[g])))
    ranks = sorted({p["ranks"] for p in settings[best]})[-3:]
    chosen = [p for p in settings[best] if p["ranks"] in ranks]
    others = [f"{unit} ({shape})" for unit, shape in settings if (unit, shape) != best]
    others += [f"{p} ranks" for p in sorted({p["ranks"] for p in settings[best]}) if p not in ranks]
    if others:
        drawing.gaps.append(f"Not drawn: {words.listing(others)}; the table of cells has them.")
    for reason, methods in _skipped(cells).items():
        drawing.gaps.append(f"Not measured, {words.listing(methods)}: {reason}.")
    codecs = sorted({p["codec"] for p in chosen}, key=lambda c: (c != "none", c))
    markers = {c: MARKERS[i % len(MARKERS)] for i, c in enumerate(codecs)}
    handles = [
        style.Line2D([], [], color=tensor_parallel.COLOURS[s], marker="o", linestyle="-", markersize=5, label=s)
        for s in tensor_parallel.SCHEMES
        if any(p["scheme"] == s for p in chosen)
    ] + [
        style.Line2D([], [], color=style.SOFT, marker=markers[c], linestyle="", markersize=6.5, label="dense" if c == "none" else data.compact(c))
        for c in codecs
    ]
    figure, axes = style.canvas(len(ranks), 3, height=3.1 * len(ranks), legend_rows=style.legend_rows(handles, 7), sharey=True)
    style.legend(figure, handles, 7)
    drawing.figure = figure
    for line, p in zip(axes, ranks):
        for panel, what in zip(line, RESULTS):
            own = [dict(point) for point in chosen if point["what"] == what and point["ranks"] == p]
            _front(own)
            drawing.rows += own
            if own:
                _panel(panel, own, markers)
            else:
                style.empty_panel(panel, f"no data because no row on {p} ranks holds the error of the {what}.")
            panel.set_title(f"{what}, {p} ranks")
        line[0].set_ylabel("relative L2 error")
    for panel in axes[-1]:
        panel.set_xlabel(f"received per rank and step ({best[0]}, {best[1]})", fontsize=8)
    drawing.seen = _seen(drawing.rows)
    return drawing


def _points(cells):
    """One point per grid, codec and kind of result. Bytes are those of the row `step`."""
    good = [r for r in cells.rows() if r["status"] in ("OK", "MISTRUSTED")]
    key = lambda r: (r["cell_id"], r["method"])
    bytes_of = {key(r): int(r["received_bytes"]) for r in good if r["operation"] == "step"}
    whole = {key(r): r["codec"] for r in good if r["operation"] == "step"}
    points, done = [], set()
    for r in good:
        what = r["operation"].removeprefix("error of ")
        if what == r["operation"] or what not in RESULTS or key(r) not in bytes_of or not math.isfinite(r["relative_l2"]):
            continue
        point = {
            "unit": r["tensor"],
            "shape": f"b {r['batch']}, s {r['seq']}, h {r['hidden']}",
            "method": r["method"],
            "scheme": tensor_parallel.scheme_of(r["method"]) or "1-D",
            "ranks": int(r["ranks"]),
            "codec": whole[key(r)] or "none",
            "what": what,
            "received_bytes": bytes_of[key(r)],
            "relative_l2": float(r["relative_l2"]),
            "on_front": 0,
            "link": r["link"],
        }
        same = (point["unit"], point["shape"], point["method"], point["codec"], point["ranks"], what)
        if same not in done:  # other links measure the same bytes and errors again
            done.add(same)
            points.append(point)
    return points


def _skipped(cells):
    """{reason: what was skipped}"""
    found = {}
    for row in cells.where(status="SKIPPED").rows():
        name = f"{tensor_parallel.name_of(row['method'])}, {data.compact(row['codec'])}"
        if name not in found.setdefault(row["reason"], []):
            found[row["reason"]].append(name)
    return found


def _front(points):
    for p in points:
        p["on_front"] = int(
            not any(
                q["received_bytes"] <= p["received_bytes"]
                and q["relative_l2"] <= p["relative_l2"]
                and (q["received_bytes"], q["relative_l2"]) != (p["received_bytes"], p["relative_l2"])
                for q in points
            )
        )


def _panel(axes, points, markers):
    methods = {p["method"]: p["scheme"] for p in points}
    floor = min((p["relative_l2"] for p in points if p["relative_l2"] > 0), default=1e-8)
    level = lambda p: p["relative_l2"] if p["relative_l2"] > 0 else floor / 3
    for method, scheme in methods.items():
        own = [at[::-1] for at in sorted((level(p), p["received_bytes"]) for p in points if p["method"] == method)]
        axes.plot(*zip(*own), color=tensor_parallel.COLOURS[scheme], linewidth=0.7, alpha=0.5, zorder=2)
    style.scatter(axes, [(p["received_bytes"], level(p), style.dot(tensor_parallel.COLOURS[p["scheme"]], markers[p["codec"]], size=40)) for p in points])
    front = sorted((p["received_bytes"], level(p)) for p in points if p["on_front"])
    if len(front) > 1:
        axes.step(*zip(*front), where="post", color=style.INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.8)
    axes.set(xscale="log", yscale="log")
    low, high = style.log_limits([p["received_bytes"] for p in points])
    axes.set_xlim(low, high)
    ticks = [2**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    ticks = ticks[:: max(1, -(-len(ticks) // 4))]
    axes.set_xticks(ticks, [words.size(t) for t in ticks])
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())


def _seen(rows):
    seen = []
    for p in sorted({r["ranks"] for r in rows}):
        dense = {r["method"]: r["received_bytes"] for r in rows if r["codec"] == "none" and r["ranks"] == p}
        if dense:
            listed = words.listing([f"{tensor_parallel.name_of(m)} {words.size(b)}" for m, b in sorted(dense.items(), key=lambda i: i[1])])
            seen.append(f"Dense, on {p} ranks a rank receives: {listed}.")
        for what in RESULTS:
            coded = [r for r in rows if r["what"] == what and r["codec"] != "none" and r["ranks"] == p]
            if coded:
                best = min(coded, key=lambda r: r["relative_l2"])
                few = min(coded, key=lambda r: r["received_bytes"])
                seen.append(
                    f"On {p} ranks the {what} is most exact with {data.compact(best['codec'])} under {tensor_parallel.name_of(best['method'])} (error"
                    f" {words.number(best['relative_l2'])}, {words.size(best['received_bytes'])}); fewest bytes: {data.compact(few['codec'])} under"
                    f" {tensor_parallel.name_of(few['method'])} ({words.size(few['received_bytes'])}, error {words.number(few['relative_l2'])})."
                )
    return seen
