"""A step per sequence on 64 ranks by the cost model, at the paper's and at equal batches, beside the published times."""
import math

from plots.lib import claim_drawing, style, tensor_parallel, words
from plots.lib.figure import Figure, Source

CLAIMS = ("tensor_parallel.C6",)
COLUMNS = ("what", "scheme", "batch", "quantity", "value", "low", "high", "kind", "origin")
FORMS = ("pipelined", "tree")


@Figure(
    title="1-D, 2-D and 3-D on 64 ranks: modelled step per sequence, and what decides the ratios",
    order=310,
    reads=Source.CLAIMS,
    how_to_read=(
        "Left: seconds per sequence at h = 8192, at the batches of the 3-D paper's table and at equal ones; stars and boxes as in the"
        " figure of weak scaling. Right: the speed-up of 3-D over 1-D and over 2-D over the same machines, one line per assumption that"
        " nobody states; dotted lines are the paper's 2.32 and 1.57, stars what its own forward and backward times give. Modelled."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    times = [t for t in claims.tables(*CLAIMS, name="seconds per sequence") if t.rows][:1]
    ratios = [t for t in claims.tables(*CLAIMS, name="ratios by choice") if t.rows][:1]
    if not times or not ratios:
        return drawing.skipped(claims.why_none(*CLAIMS, what="modelled steps on 64 ranks"))
    drawing.rows = _times(times[0]) + _ratios(ratios[0])
    handles = (
        tensor_parallel.scheme_handles({r["scheme"] for r in drawing.rows if r["what"] == "seconds"})
        + [style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor=style.SOFT, markeredgecolor="black", label="published average"),
           style.Line2D([], [], marker="*", linestyle="", markersize=10, markerfacecolor="white", markeredgecolor=style.SOFT, label="published (f+b)/batch")]
        + tensor_parallel.span_handles(FORMS)
    )  # fmt: skip
    figure, axes = style.canvas(1, 2, height=4.0, legend_rows=style.legend_rows(handles, 5), foot=claim_drawing.origin_note(times + ratios), width_ratios=(1.0, 1.25))
    style.legend(figure, handles, 5)
    drawing.figure = figure
    _time_panel(axes[0, 0], [r for r in drawing.rows if r["what"] == "seconds"])
    _ratio_panel(axes[0, 1], [r for r in drawing.rows if r["what"] != "seconds"])
    drawing.seen = _seen(drawing.rows)
    return claim_drawing.finish(drawing, claims, times + ratios)


def _times(table):
    rows, done = [], set()
    for label, values in table.rows:
        if (label, values["batch"]) in done:  # at the paper's and again at an equal batch
            continue
        done.add((label, values["batch"]))
        base = {"what": "seconds", "scheme": label, "batch": int(values["batch"]), "low": math.nan, "high": math.nan, "origin": table.claim.origin}
        for quantity, names in (("average", ("published", "average")), ("(f+b)/batch", ("published", "(f+b)"))):
            value = table.number(values, *names)
            if math.isfinite(value):
                rows.append({**base, "quantity": quantity, "value": value, "kind": "published"})
        for form in FORMS if label == "2-D" else FORMS[:1]:
            low, high = table.number(values, form, "low"), table.number(values, form, "high")
            rows.append({**base, "quantity": form, "value": math.nan, "low": low, "high": high, "kind": "modelled"})
    return rows


def _ratios(table):
    rows = []
    for label, values in table.rows:
        for over in ("1-D", "2-D"):
            low, high = values[f"{over} / 3-D, low"], values[f"{over} / 3-D, high"]
            rows.append({
                "what": label, "scheme": over, "batch": 0, "quantity": f"{over} / 3-D", "value": math.nan, "low": low, "high": high,
                "kind": "modelled", "origin": table.claim.origin,
            })  # fmt: skip
    for measure in table.claim.measures:
        for over in ("1-D", "2-D"):
            if measure.name == f"{over} / 3-D, the table's forward + backward":
                rows.append({
                    "what": "published", "scheme": over, "batch": 0, "quantity": f"{over} / 3-D", "value": measure.value, "low": math.nan,
                    "high": measure.margin, "kind": "published", "origin": table.claim.origin,
                })  # fmt: skip
    return rows


def _time_panel(axes, rows):
    groups = list(dict.fromkeys((r["scheme"], r["batch"]) for r in rows))
    places, labels, x = {}, [], 0.0
    for scheme, batch in groups:
        if scheme == "1-D" and places:
            x += 0.7
        places[scheme, batch] = x
        labels.append((x, f"{scheme}\nb {batch}"))
        x += 1.0
    for r in rows:
        at, tint = places[r["scheme"], r["batch"]], tensor_parallel.COLOURS[r["scheme"]]
        if r["quantity"] in FORMS:
            tensor_parallel.span(axes, at, r["low"], r["high"], tint, offset=0.28 if r["quantity"] == "tree" else 0.0, form=r["quantity"])
        else:
            tensor_parallel.star(axes, at - 0.24, r["value"], tint, hollow=r["quantity"] != "average")
    axes.set_xticks([x for x, _ in labels], [text for _, text in labels])
    axes.set_xlim(-0.6, x - 0.3)
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", length=0, labelsize=7.5)
    axes.grid(axis="x", visible=False)
    axes.set(ylabel="seconds per sequence", title="step per sequence")


def _ratio_panel(axes, rows):
    names = [n for n in dict.fromkeys(r["what"] for r in rows) if n != "published"]
    top = max(r["high"] for r in rows if r["kind"] == "modelled")
    for y, name in enumerate(names):
        for shift, over in ((-0.16, "1-D"), (0.16, "2-D")):
            r = next(r for r in rows if r["what"] == name and r["scheme"] == over)
            tint = tensor_parallel.COLOURS[over]
            axes.plot([r["low"], r["high"]], [y + shift] * 2, color=tint, linewidth=4, alpha=0.35, solid_capstyle="butt", zorder=2.5)
            axes.plot([r["low"], r["high"]], [y + shift] * 2, linestyle="", marker="|", markersize=8, color=tint, zorder=3)
    for r in rows:
        if r["kind"] == "published":
            tint = tensor_parallel.COLOURS[r["scheme"]]
            axes.axvline(r["high"], color=tint, linestyle=(0, (1, 2)), linewidth=1.2, zorder=1.5)
            tensor_parallel.star(axes, r["value"], -0.75, tint, hollow=True)
    axes.axvline(1, color=style.SOFT, linewidth=0.8, zorder=1.4)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -1.1)
    axes.set_xscale("log")
    axes.set_xlim(0.85, 1.22 * top)
    axes.set_xticks([1, 1.5, 2, 3, 4, 5, 6][: 1 + sum(v <= 1.2 * top for v in (1.5, 2, 3, 4, 5, 6))])
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="time of 1-D (grey) or 2-D (orange) over that of 3-D", title="speed-up of 3-D, by assumption")


def _seen(rows):
    seen = []
    for over in ("1-D", "2-D"):
        of = [r for r in rows if r["scheme"] == over and r["what"] not in ("seconds", "published")]
        own = next((r for r in rows if r["scheme"] == over and r["what"] == "published"), None)
        paper = f"; the paper says {words.number(own['high'], 3)}, its own times {words.number(own['value'], 3)}" if own else ""
        batches = [r for r in of if not r["what"].startswith("equal")]
        equal = "; ".join(f"{r['what']} {words.number(r['low'], 3)} to {words.number(r['high'], 3)}" for r in of if r["what"].startswith("equal"))
        seen.append(
            f"{over} / 3-D at the paper's batches is {words.number(min(r['low'] for r in batches), 3)} to"
            f" {words.number(max(r['high'] for r in batches), 3)} by the model{paper}; at {equal}."
        )
    return seen
