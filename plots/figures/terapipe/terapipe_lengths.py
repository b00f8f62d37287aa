"""What TeraPipe's token slices gain over the length of a sequence."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C19",)
COLUMNS = ("what", "length", "without_ms", "with_ms", "speedup", "kind", "origin")


@Figure(
    title="TeraPipe: speed-up over the length of a sequence",
    order=380,
    reads=Source.CLAIMS,
    how_to_read=(
        "Steps with the dynamic program's token slices and with micro-batches of one sequence, at a constant number of tokens per step, and the"
        " speed-up. Hollow: timed compute on eight ranks over the emulated link; dotted: the formula sum t + (K-1) max t. The star is the one point of"
        " the paper's sweep that could be read (13B, 40 stages); its others are recollected and shown on request, as crosses."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("plain", "(ms)") and t.column("sliced", "(ms)")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="steps over the length"))
    for table in tables:
        drawing.rows += _rows(table)
    drawing.rows += _published(claims)
    kinds = {r["kind"] for r in drawing.rows}
    handles = style.kind_handles(kinds & {"measured", "emulated", "modelled", "published"}, measured=True)
    if "recollected" in kinds:
        handles.append(style.Line2D([], [], marker="P", linestyle="", markersize=7, markerfacecolor="none", markeredgecolor=style.SOFT, label="recollected, unverified (another machine and model)"))
    figure, axes = style.canvas(1, 2, height=3.5, legend_rows=1 if handles else 0, foot=claim_drawing.origin_note(tables))
    style.legend(figure, handles, 5)
    drawing.figure = figure
    _times(axes[0, 0], [r for r in drawing.rows if r["kind"] not in ("published", "recollected")])
    _ratios(axes[0, 1], drawing.rows)
    drawing.seen = _seen([r for r in drawing.rows if r["kind"] not in ("published", "recollected", "modelled")])
    return claim_drawing.finish(drawing, claims, tables)


def _rows(table):
    rows = []
    for label, values in table.rows:
        for kind, more, without in ((table.claim.kind, (), ("predicted",)), ("modelled", ("predicted",), ())):
            plain, sliced = (table.number(values, name, "(ms)", *more, without=without) for name in ("plain", "sliced"))
            rows.append({
                "what": label, "length": int(table.number(values, "tokens of")), "without_ms": plain, "with_ms": sliced, "speedup": plain / sliced,
                "kind": kind, "origin": table.claim.origin,
            })  # fmt: skip
    return [r for r in rows if math.isfinite(r["speedup"])]


def _published(claims):
    rows, times = [], {}
    for r in claims.published:
        if r["paper"].startswith("TeraPipe") and r["artifact"] == "sequence length sweep" and r["column"].startswith("step time"):
            times.setdefault(r["row"], {})[r["column"]] = (float(r["value"]), r["provenance"])
    for row, of in times.items():
        if len(of) == 2:
            (without, one), (sliced, other) = of["step time without TeraPipe"], of["step time with TeraPipe"]
            rows.append({
                "what": f"TeraPipe's {row}", "length": int(row.split("L = ")[1]), "without_ms": 1e3 * without, "with_ms": 1e3 * sliced, "speedup": without / sliced,
                "kind": "published" if one == other == "read" else "recollected", "origin": "",
            })  # fmt: skip
    return rows


def _times(axes, rows):
    for name, tint in (("without_ms", "#4a5560"), ("with_ms", "#0072b2")):
        for kind in dict.fromkeys(r["kind"] for r in rows):
            own = sorted((r["length"], r[name]) for r in rows if r["kind"] == kind and math.isfinite(r[name]))
            if own:
                axes.plot(*zip(*own), **style.curve(tint, kind))
                style.scatter(axes, [(x, y, style.dot(tint, "o" if name == "with_ms" else "s", kind)) for x, y in own])
    _lengths(axes, rows)
    axes.set_ylim(bottom=0)
    names = (("#4a5560", "s", "micro-batches"), ("#0072b2", "o", "token slices"))
    axes.legend(handles=[style.Line2D([], [], color=tint, marker=marker, label=label) for tint, marker, label in names], loc="upper left", fontsize=8, frameon=False)
    axes.margins(y=0.15)
    axes.set(ylabel="step (ms)", title="step")


def _ratios(axes, rows):
    tint = "#0072b2"
    for kind in dict.fromkeys(r["kind"] for r in rows):
        own = sorted((r for r in rows if r["kind"] == kind), key=lambda r: r["length"])
        x, y = [r["length"] for r in own], [r["speedup"] for r in own]
        if kind == "recollected":
            axes.scatter(x, y, marker="P", s=45, facecolors="none", edgecolors=style.SOFT, linewidths=1.1, zorder=4)
            continue
        if kind != "published":
            axes.plot(x, y, **style.curve(tint, kind))
        style.scatter(axes, [(a, b, style.dot(tint, "o", kind)) for a, b in zip(x, y)])
    axes.axhline(1, color=style.SOFT, linewidth=0.8, zorder=1.4)
    _lengths(axes, rows)
    axes.set_ylim(bottom=0)
    axes.set(ylabel="speed-up", title="speed-up by token slices")


def _lengths(axes, rows):
    axes.set_xscale("log")
    lengths = sorted({r["length"] for r in rows})
    axes.set_xticks(lengths, [str(n) for n in lengths], rotation=30 if len(lengths) > 6 else 0)
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.set_xlabel("tokens of a sequence")


def _seen(rows):
    own = sorted(rows, key=lambda r: r["length"])
    if not own:
        return ["No speed-up of our own."]
    speeds = [r["speedup"] for r in own]
    grows = all(a < b for a, b in zip(speeds, speeds[1:]))
    listed = words.listing([f"{words.number(r['speedup'], 3)}x at {r['length']}" for r in own])
    return [f"Token slices gain {listed}: {'more with every length' if grows else 'not more with every length'}."]
