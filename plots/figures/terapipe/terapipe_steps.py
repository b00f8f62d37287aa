"""TeraPipe's step time per setting with and without token slices, published and modelled."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C18",)
COLUMNS = ("setting", "what", "seconds", "speedup", "kind", "origin")
TINTS = {"without": "#4a5560", "with": "#0072b2"}


@Figure(
    title="TeraPipe: step per setting without and with token slices",
    order=370,
    reads=Source.CLAIMS,
    how_to_read=(
        "Right: what token slices gain in settings of the paper that could be read: star, published; dotted bar, the formula sum t + (K-1) max t"
        " with slices by the dynamic program and the slice inefficiency measured on this machine; tick, the bound that the numbers of slices set"
        " where each slice is as efficient as another. Left: seconds per step; the dotted bar is the published step without slices over the"
        " model's gain."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("model (x)")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="modelled steps per setting"))
    drawing.rows = _rows(tables[0])
    recollected = _recollected(claims, {r["setting"] for r in drawing.rows})
    drawing.rows += recollected
    handles = [
        style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor=t, markeredgecolor="black", label=f"published, {n} token slices")
        for n, t in TINTS.items()
    ]
    handles.append(style.plt.Rectangle((0, 0), 1, 1, label="modelled", **style.bar(TINTS["with"], "modelled")))
    handles.append(style.Line2D([], [], marker="|", linestyle="", markersize=10, color=style.INK, label="bound without slice inefficiency"))
    if recollected:
        handles.append(style.Line2D([], [], marker="P", linestyle="", markersize=7, markerfacecolor="none", markeredgecolor=style.SOFT, label="recollected, unverified"))
    settings = list(dict.fromkeys(r["setting"] for r in drawing.rows))
    figure, axes = style.canvas(1, 2, height=0.75 + 0.62 * len(settings), legend_rows=style.legend_rows(handles, 5), foot=claim_drawing.origin_note(tables[:1]))
    style.legend(figure, handles, 5)
    drawing.figure = figure
    _times(axes[0, 0], drawing.rows, settings)
    _ratios(axes[0, 1], drawing.rows, settings)
    drawing.seen = _seen(drawing.rows, settings)
    return claim_drawing.finish(drawing, claims, tables[:1])


def _rows(table):
    rows = []
    for label, values in table.rows:
        base = {"setting": label, "origin": table.claim.origin, "seconds": math.nan, "speedup": math.nan}
        without, sliced = table.number(values, "published without", "(s)"), table.number(values, "published with ", "(s)")
        model = table.number(values, "model (x)")
        rows.append({**base, "what": "without", "kind": "published", "seconds": without})
        rows.append({**base, "what": "with", "kind": "published", "seconds": sliced})
        rows.append({**base, "what": "with", "kind": "modelled", "seconds": without / model})
        rows.append({**base, "what": "speed-up", "kind": "published", "speedup": table.number(values, "published (x)")})
        rows.append({**base, "what": "speed-up", "kind": "modelled", "speedup": model})
        rows.append({**base, "what": "bound", "kind": "derived", "speedup": table.number(values, "bound")})
    return [r for r in rows if math.isfinite(r["seconds"]) or math.isfinite(r["speedup"])]


def _recollected(claims, settings):
    """Settings that are only recollected, on request."""
    rows = []
    for r in claims.published:
        if r["provenance"] != "recollected" or not r["paper"].startswith("TeraPipe") or r["artifact"] != "step time per setting":
            continue
        for what in TINTS:
            if r["column"] == f"step time {what} TeraPipe":
                rows.append({"setting": r["row"], "what": what, "seconds": float(r["value"]), "speedup": math.nan, "kind": "recollected", "origin": ""})
        if r["column"] == "speed-up":
            rows.append({"setting": r["row"], "what": "speed-up", "seconds": math.nan, "speedup": float(r["value"]), "kind": "recollected", "origin": ""})
    return rows


def _mark(axes, x, y, kind, tint):
    if kind == "published":
        axes.scatter([x], [y], marker="*", s=105, facecolors=tint, edgecolors="black", linewidths=1.0, zorder=4)
    else:
        axes.scatter([x], [y], marker="P", s=45, facecolors="none", edgecolors=tint, linewidths=1.1, zorder=4)


def _times(axes, rows, settings):
    for r in rows:
        if r["what"] not in TINTS:
            continue
        y = settings.index(r["setting"]) + (-0.19 if r["what"] == "without" else 0.19)
        if r["kind"] == "modelled":
            axes.barh(y, r["seconds"], height=0.32, **style.bar(TINTS[r["what"]], "modelled"))
        else:
            _mark(axes, r["seconds"], y, r["kind"], TINTS[r["what"]])
    _settings_axis(axes, settings)
    axes.set_xlim(left=0)
    axes.set(xlabel="seconds per step", title="step")


def _ratios(axes, rows, settings):
    for r in rows:
        if not math.isfinite(r["speedup"]):
            continue
        y = settings.index(r["setting"])
        if r["what"] == "bound":
            axes.plot([r["speedup"]], [y], marker="|", markersize=16, color=style.INK, linestyle="", zorder=3.5)
        elif r["kind"] == "modelled":
            axes.barh(y, r["speedup"], height=0.4, **style.bar(TINTS["with"], "modelled"))
        else:
            _mark(axes, r["speedup"], y, r["kind"], TINTS["with"])
    axes.axvline(1, color=style.SOFT, linewidth=0.8, zorder=1.4)
    _settings_axis(axes, settings)
    axes.set_xlim(left=0)
    axes.set(xlabel="speed-up by token slices", title="speed-up")


def _settings_axis(axes, settings):
    axes.set_yticks(range(len(settings)), settings)
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def _seen(rows, settings):
    seen = []
    for setting in settings:
        of = {(r["what"], r["kind"]): r["speedup"] for r in rows if r["setting"] == setting and math.isfinite(r["speedup"])}
        if ("speed-up", "modelled") in of:
            text = f"{setting}: {words.number(of['speed-up', 'modelled'], 3)}x by the model"
            if ("speed-up", "published") in of:
                text += f", {words.number(of['speed-up', 'published'], 3)}x published"
            if ("bound", "derived") in of:
                text += f", at most {words.number(of['bound', 'derived'], 3)}x"
            seen.append(text + ".")
    return seen or [f"{words.count(len(settings), 'setting')}, none with a modelled speed-up."]
