"""The 3-D paper's weak scaling beside the cost model, seconds per sequence against ranks."""
import math

from plots.lib import claim_drawing, style, tensor_parallel, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C9",)
COLUMNS = ("row", "scheme", "ranks", "batch", "hidden", "what", "seconds", "low", "high", "kind", "origin")
FORMS = ("pipelined", "tree")


@Figure(
    title="3-D tensor parallelism: weak scaling, published beside modelled",
    order=300,
    reads=Source.CLAIMS,
    how_to_read=(
        "Seconds per sequence; lower is better. Full stars are the averages that the 3-D paper prints, hollow stars the forward and"
        " backward time of the same row over its batch: they differ in one row. Dotted boxes are the cost model over all machines"
        " (5 to 15.7 TFLOP/s, 1 to 25 GB/s) that give the published 1-D step at 64 ranks within 25 %, hatched where SUMMA's"
        " broadcasts run along trees. Batches differ between rows, as in the paper. Nothing here was measured by us."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name="weak scaling") if t.rows]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="modelled weak scaling"))
    for table in tables[:1]:
        drawing.rows = _rows(table)
    drawing.rows += _recollected(claims)
    schemes = [s for s in tensor_parallel.SCHEMES if any(r["scheme"] == s for r in drawing.rows)]
    handles = (
        [style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor=style.SOFT, markeredgecolor="black", label="published average"),
         style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor="white", markeredgecolor=style.SOFT, label="published (f+b)/batch")]
        + tensor_parallel.span_handles(FORMS)
    )  # fmt: skip
    if any(r["kind"] == "recollected" for r in drawing.rows):
        handles.append(style.Line2D([], [], marker="P", linestyle="", markersize=7, markerfacecolor="none", markeredgecolor=style.SOFT, label="recollected, unverified"))
    figure, axes = style.canvas(
        1, len(schemes), height=3.6, legend_rows=style.legend_rows(handles, 5), foot=claim_drawing.origin_note(tables[:1]), sharey=True
    )
    style.legend(figure, handles, 5)
    drawing.figure = figure
    for panel, scheme in zip(axes.flat, schemes):
        _panel(panel, [r for r in drawing.rows if r["scheme"] == scheme], scheme)
    axes[0, 0].set_ylabel("seconds per sequence")
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, tables[:1])


def _rows(table):
    rows = []
    for label, values in table.rows:
        base = {
            "row": label,
            "scheme": tensor_parallel.scheme_of(label),
            "ranks": int(values["ranks"]),
            "batch": int(values["batch"]),
            "hidden": int(values["hidden"]),
            "low": math.nan,
            "high": math.nan,
            "origin": table.claim.origin,
        }
        for what, words_ in (("average", ("published", "average")), ("(f+b)/batch", ("published", "(f+b)"))):
            rows.append({**base, "what": what, "seconds": table.number(values, *words_), "kind": "published"})
        for form in FORMS:
            low, high = table.number(values, form, "low"), table.number(values, form, "high")
            if form == "pipelined" or base["scheme"] == "2-D":  # the others broadcast nothing
                rows.append({**base, "what": form, "seconds": math.nan, "low": low, "high": high, "kind": "modelled"})
    return rows


def _recollected(claims):
    """Optimus' own table of weak scaling, which is recollected: on request only."""
    rows, times = [], {}
    for r in claims.published:
        if r["provenance"] == "recollected" and r["paper"].startswith("Optimus") and r["artifact"] == "weak scaling":
            times.setdefault(r["row"], {})[r["column"]] = float(r["value"])
    for row, of in times.items():
        if {"forward time", "backward time"} <= set(of):
            rows.append({
                "row": f"{row} (recollected)", "scheme": "1-D" if row.startswith("Megatron") else "2-D", "ranks": int(row.split(", ")[1].split()[0]),
                "batch": int(of.get("batch size", 0)), "hidden": int(of.get("hidden size", 0)), "what": "forward + backward",
                "seconds": of["forward time"] + of["backward time"], "low": math.nan, "high": math.nan, "kind": "recollected", "origin": "",
            })  # fmt: skip
    return rows


def _panel(axes, rows, scheme):
    tint = tensor_parallel.COLOURS[scheme]
    ranks = sorted({r["ranks"] for r in rows})
    place = {p: i for i, p in enumerate(ranks)}
    for r in rows:
        x = place[r["ranks"]]
        if r["what"] in FORMS:
            tensor_parallel.span(axes, x, r["low"], r["high"], tint, offset=0.28 if r["what"] == "tree" else 0.0, form=r["what"])
        elif r["kind"] == "recollected":
            axes.scatter([x - 0.4], [r["seconds"]], marker="P", s=45, facecolors="none", edgecolors=tint, linewidths=1.1, zorder=4)
        else:
            tensor_parallel.star(axes, x - 0.22, r["seconds"], tint, hollow=r["what"] != "average")  # the full one lies on top
    axes.set_title(scheme)
    labels = []
    for p in ranks:
        row = next(r for r in rows if r["ranks"] == p)
        labels.append(f"{p}\nb {row['batch']}\nh {row['hidden']}")
    axes.set_xticks(range(len(ranks)), labels)
    axes.set_xlim(-0.7, len(ranks) - 0.3)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks, batch, hidden size")


def _seen(rows):
    average = {r["row"]: r["seconds"] for r in rows if r["what"] == "average"}
    own = {r["row"]: r["seconds"] for r in rows if r["what"] == "(f+b)/batch"}
    model = {r["row"]: (r["low"], r["high"]) for r in rows if r["what"] == "pipelined"}
    seen = []
    off = [row for row in average if abs(average[row] - own[row]) > 6e-4]
    for row in off:
        seen.append(
            f"{row}: the table prints {words.number(average[row], 3)} s per sequence, its forward and backward times give"
            f" {words.number(own[row], 3)} s; all other rows agree."
        )
    outside = [row for row, (low, high) in model.items() if not low <= average[row] <= high]
    inside = [row for row in model if row not in outside]
    if inside:
        seen.append(f"Printed averages within the modelled range (pipelined): {words.listing(inside, 12)}; outside: {words.listing(outside, 12) or 'none'}.")
    for scheme in tensor_parallel.SCHEMES:
        own_rows = sorted((r["ranks"], r["row"]) for r in rows if r["what"] == "average" and r["scheme"] == scheme)
        if len(own_rows) > 1:
            (p, first), (q, last) = own_rows[0], own_rows[-1]
            seen.append(f"{scheme} grows x{words.number(average[last] / average[first], 3)} from {p} to {q} ranks as printed.")
    return seen
