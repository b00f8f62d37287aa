"""Tesseract's table of strong scaling beside the cost model."""
import math

from plots.lib import claim_drawing, style, tensor_parallel, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C10a",)
COLUMNS = ("row", "scheme", "ranks", "depth", "batch", "quantity", "seconds", "low", "high", "kind", "origin")
FORMS = ("pipelined", "tree")


@Figure(
    title="Tesseract: strong scaling at h = 3072, published beside modelled",
    order=330,
    reads=Source.CLAIMS,
    how_to_read=(
        "Seconds per sequence and step (forward and backward). Stars are the rows of Tesseract's table; dotted boxes the cost model over"
        " all machines (5 to 19.5 TFLOP/s, 1 to 25 GB/s) that give the table's 1-D step at 64 ranks within 25 %, hatched where SUMMA's"
        " broadcasts run along trees. Layers (24) and sequence lengths (512, 1024) are assumed. The [4,4,4] row has batch 16, all others"
        " 12. Nothing here was measured by us."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name="strong scaling") if t.rows][:1]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="modelled strong scaling"))
    drawing.rows = _rows(tables[0])
    schemes = {r["scheme"] for r in drawing.rows}
    handles = (
        tensor_parallel.scheme_handles(schemes)
        + [style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor=style.SOFT, markeredgecolor="black", label="published")]
        + tensor_parallel.span_handles(FORMS)
    )
    figure, axes = style.canvas(1, 1, height=3.8, legend_rows=style.legend_rows(handles, 6), foot=claim_drawing.origin_note(tables))
    style.legend(figure, handles, 6)
    drawing.figure = figure
    _panel(axes[0, 0], drawing.rows)
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, tables)


def _scheme(label, depth):
    return "1-D" if label.startswith("Megatron") else "2-D" if depth == 1 else "2.5-D"


def _rows(table):
    rows = []
    for label, values in table.rows:
        base = {
            "row": label, "scheme": _scheme(label, values["depth"]), "ranks": int(values["ranks"]), "depth": int(values["depth"]),
            "batch": int(values["batch"]), "low": math.nan, "high": math.nan, "origin": table.claim.origin,
        }  # fmt: skip
        rows.append({**base, "quantity": "step", "seconds": table.number(values, "published", "step"), "kind": "published"})
        for form in FORMS if base["scheme"] != "1-D" else FORMS[:1]:
            rows.append({**base, "quantity": form, "seconds": math.nan, "low": table.number(values, form, "low"), "high": table.number(values, form, "high"), "kind": "modelled"})
    return rows


def _panel(axes, rows):
    order = {s: i for i, s in enumerate(tensor_parallel.SCHEMES)}
    labels = sorted({(r["ranks"], order[r["scheme"]], r["row"]) for r in rows})
    places, ticks, x, last = {}, [], 0.0, None
    for ranks, _, row in labels:
        x += 0.0 if last is None else 1.0 if ranks == last else 1.6
        last = ranks
        places[row] = x
        who, _, shape = row.partition(", ")
        ticks.append((x, f"{who.removesuffix('-LM')}\n{shape.split(', ')[-1]}\n{ranks} ranks"))
    for r in rows:
        at, tint = places[r["row"]], tensor_parallel.COLOURS[r["scheme"]]
        if r["kind"] == "published":
            tensor_parallel.star(axes, at - 0.26, r["seconds"], tint)
        else:
            tensor_parallel.span(axes, at, r["low"], r["high"], tint, offset=0.28 if r["quantity"] == "tree" else 0.0, form=r["quantity"])
    axes.set_xticks([x for x, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="x", length=0, labelsize=7)
    axes.grid(axis="x", visible=False)
    axes.set_xlim(-0.7, x + 0.7)
    axes.set_yscale("log")
    values = [v for r in rows for v in (r["seconds"], r["low"], r["high"]) if math.isfinite(v)]
    low, high = style.log_limits(values, pad=0.05)
    axes.set_ylim(low, high)
    style.number_ticks(axes.yaxis, low, high)
    axes.set_ylabel("seconds per sequence")


def _seen(rows):
    published = {r["row"]: r["seconds"] for r in rows if r["kind"] == "published"}
    spans = {}
    for r in rows:
        if r["kind"] == "modelled":
            low, high = spans.get(r["row"], (math.inf, -math.inf))
            spans[r["row"]] = (min(low, r["low"]), max(high, r["high"]))
    inside = [row for row, (low, high) in spans.items() if low <= published[row] <= high]
    below = [row for row, (low, _) in spans.items() if published[row] < low]
    above = [row for row, (_, high) in spans.items() if published[row] > high]
    seen = [f"{len(inside)} of {len(spans)} published rows lie within the model's range."]
    if below:
        seen.append(f"Faster than any machine of the model: {words.listing(below, 12)}.")
    if above:
        seen.append(f"Slower than all: {words.listing(above, 12)}.")
    return seen
