"""Measured steps of a layer under 1-D, 2-D, 2.5-D and 3-D, per link, beside the cost model."""
import math

from plots.lib import claim_drawing, style, tensor_parallel, words
from plots.lib.figure import Figure, Source

# panel: (claim, words of a table's name, title)
PANELS = {
    "model": ("tensor_parallel.M1", "steps of a", "step of a layer at 1 Gbit/s: timed, and by the cost model"),
    "tesseract": ("tensor_parallel.C10b", "2.5-D on 8 ranks", "2.5-D on 8 ranks, 2-D and 1-D on 4, equal batch"),
    "best": ("tensor_parallel.C14b", "best grid", "best grid over 1-D"),
    "eight": ("tensor_parallel.C8", "8 ranks", "3-D over 1-D on 8 ranks, time per sequence"),
}
CLAIMS = tuple(claim for claim, _, _ in PANELS.values())
COLUMNS = ("panel", "claim", "what", "scheme", "ranks", "link_gbps", "batch", "quantity", "value", "kind", "origin")
DASHES = ("-", (0, (5, 1.6)), (0, (2, 1.4)))


@Figure(
    title="1-D, 2-D, 2.5-D and 3-D: timed steps of a layer, per link",
    order=350,
    reads=Source.CLAIMS,
    how_to_read=(
        "All times are from ranks of this machine over an emulated link, with computing measured alone and replayed. Top left: forward and"
        " backward of one Transformer layer at an equal batch; dotted bars are the cost model from the time of one rank alone (claim M1)."
        " Top right: the same for claim C10b. Bottom left: time of 1-D over that of the best grid; above 1 the grid wins (C14b). Bottom right:"
        " time of 3-D over that of 1-D per sequence; the star is the ratio of the published rows for 8 GPUs (C8)."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = {name: [t for t in claims.tables(claim, name=words_) if t.rows][:1] for name, (claim, words_, _) in PANELS.items()}
    if not any(tables.values()):
        return drawing.skipped(claims.why_none(*CLAIMS, what="timed steps per link"))
    for name, found in tables.items():
        for table in found:
            drawing.rows += _READERS[name](table)
    drawing.rows += _published(claims) if tables["eight"] else []
    used = [t for found in tables.values() for t in found]
    handles = tensor_parallel.scheme_handles({r["scheme"] for r in drawing.rows if r["panel"] in ("model", "tesseract")})
    handles += style.kind_handles({r["kind"] for r in drawing.rows if r["kind"] != "published"}, measured=True)
    figure, axes = style.canvas(2, 2, height=6.4, legend_rows=1, foot=claim_drawing.origin_note(used))
    style.legend(figure, handles, 7)
    drawing.figure = figure
    for panel, (name, (claim, _, title)) in zip(axes.flat, PANELS.items()):
        own = [r for r in drawing.rows if r["panel"] == name]
        if own:
            _PAINTERS[name](panel, own)
            drawing.seen += _SEEN[name](own)
        else:
            reason = claims.why_none(claim, what="timed steps")
            style.empty_panel(panel, reason)
            drawing.gaps.append(f"{title}: {reason}")
        panel.set_title(title, fontsize=9)
    return claim_drawing.finish(drawing, claims, used)


def _row(panel, table, what, scheme, ranks, gbps, batch, quantity, value, kind=None):
    values = (panel, table.claim.id, what, scheme, int(ranks), gbps, batch, quantity, value, kind or table.claim.kind, table.claim.origin)
    return dict(zip(COLUMNS, values))


def _model_rows(table):
    rows = []
    for label, values in table.rows:
        scheme, ranks = tensor_parallel.scheme_of(label), table.number(values, "ranks")
        for quantity, words_, kind in (("step (ms)", ("measured (ms)",), None), ("step (ms)", ("model (ms)",), "modelled"), ("over 1-D", ("measured / 1-D",), None), ("over 1-D", ("model / 1-D",), "modelled")):
            rows.append(_row("model", table, label, scheme, ranks, 1.0, math.nan, quantity, table.number(values, *words_), kind))
    return [r for r in rows if math.isfinite(r["value"])]


def _tesseract_rows(table):
    return [
        _row("tesseract", table, label.split(" at ")[0], tensor_parallel.scheme_of(label), table.number(values, "ranks"), table.number(values, "link"), math.nan, "step (ms)", table.number(values, "step"))
        for label, values in table.rows
    ]


def _best_rows(table):
    rows = []
    for label, values in table.rows:
        method = label.rsplit(": ", 1)[-1]
        place = [table.number(values, name) for name in ("ranks", "link", "batch")]
        rows.append(_row("best", table, method, tensor_parallel.scheme_of(method), *place, "speed-up over 1-D", table.number(values, "speed-up")))
    return rows


def _eight_rows(table):
    rows = []
    ratio = next((c for c in table.columns if c.strip() == "3-D / 1-D"), None)
    for label, values in table.rows:
        rows.append(_row("eight", table, label.split(", ", 1)[-1], "3-D", 8, table.number(values, "link"), table.number(values, "batch of 1-D"), "3-D / 1-D, gathered twice", values[ratio]))
        once, line = table.number(values, "3-D, gathered once"), values.get("1-D", math.nan)
        if math.isfinite(once / line):
            rows.append(_row("eight", table, label.split(", ", 1)[-1], "3-D", 8, table.number(values, "link"), table.number(values, "batch of 1-D"), "3-D / 1-D, gathered once", once / line))
    return rows


def _published(claims):
    """The published average steps of 3-D and 1-D on 8 GPUs, where the file holds both."""
    of = {r["row"]: float(r["value"]) for r in claims.published if r["provenance"] == "read" and r["paper"].startswith("3-D") and r["column"] == "average step time"}
    if not {"1-D, 8 GPUs", "3-D, 8 GPUs"} <= set(of):
        return []
    ratio = of["3-D, 8 GPUs"] / of["1-D, 8 GPUs"]
    return [dict(zip(COLUMNS, ("eight", "", "published, 8 GPUs", "3-D", 8, math.nan, 60.0, "3-D / 1-D", ratio, "published", "")))]


# ---- panels -------------------------------------------------------------------------------------------------------------------------


def _model_panel(axes, rows):
    bars = sorted({(r["ranks"], tensor_parallel.SCHEMES.index(r["scheme"]), r["what"]) for r in rows})
    x, at, last = 0.0, {}, None
    for ranks, _, what in bars:
        x += 0.0 if last is None else 1.0 if ranks == last else 1.7
        last, at[what] = ranks, x
    for r in rows:
        if r["quantity"] == "step (ms)":
            shift = 0.2 if r["kind"] == "modelled" else -0.2
            axes.bar(at[r["what"]] + shift, r["value"], width=0.36, **style.bar(tensor_parallel.COLOURS[r["scheme"]], r["kind"]))
    axes.set_xticks(list(at.values()), [f"{tensor_parallel.name_of(w).split(',')[0].replace(' ', chr(10))}" for w in at], fontsize=7.5)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("step (ms)")


def _tesseract_panel(axes, rows):
    for what in dict.fromkeys(r["what"] for r in rows):
        own = sorted((r for r in rows if r["what"] == what), key=lambda r: r["link_gbps"])
        tint, mark = tensor_parallel.COLOURS[own[0]["scheme"]], tensor_parallel.MARKERS[own[0]["scheme"]]
        points = [(r["link_gbps"], r["value"]) for r in own]
        axes.plot(*zip(*points), **style.curve(tint))
        style.scatter(axes, [(*p, style.dot(tint, mark, own[0]["kind"])) for p in points])
    _links_axis(axes, rows)
    axes.margins(x=0.2)
    axes.set_ylim(0, 1.15 * max(r["value"] for r in rows))
    axes.set_ylabel("step (ms)")


def _best_panel(axes, rows):
    batches = sorted({r["batch"] for r in rows})
    tints = dict(zip(sorted({r["ranks"] for r in rows}), style.LINK_COLOURS))
    for ranks, tint in tints.items():
        for batch in batches:
            own = sorted((r["link_gbps"], r["value"], r["kind"]) for r in rows if (r["ranks"], r["batch"]) == (ranks, batch))
            if own:
                line = DASHES[batches.index(batch) % len(DASHES)]
                axes.plot([o[0] for o in own], [o[1] for o in own], color=tint, linestyle=line, linewidth=1.4, label=f"{ranks} ranks, batch {batch:g}", zorder=2.5)
                style.scatter(axes, [(o[0], o[1], style.dot(tint, "o", o[2], size=30)) for o in own])
    axes.axhline(1, color=style.SOFT, linewidth=0.8, zorder=1.4)
    _links_axis(axes, rows)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("1-D / best grid")
    axes.legend(fontsize=7.5, loc="upper right", ncol=2, handlelength=2.6, borderaxespad=0.2)
    axes.set_ylim(top=1.45 * axes.get_ylim()[1])


def _eight_panel(axes, rows):
    looks = dict(zip(dict.fromkeys(r["what"] for r in rows if r["kind"] != "published"), ("#0072b2", "#56b4e9")))
    lines = {"3-D / 1-D, gathered twice": "-", "3-D / 1-D, gathered once": (0, (5, 1.6))}
    for what, tint in looks.items():
        for quantity, line in lines.items():
            own = sorted((r["link_gbps"], r["value"], r["kind"]) for r in rows if (r["what"], r["quantity"]) == (what, quantity))
            if own:
                axes.plot([o[0] for o in own], [o[1] for o in own], color=tint, linestyle=line, linewidth=1.4, label=f"{what}, {quantity.split(', ')[1]}", zorder=2.5)
                style.scatter(axes, [(o[0], o[1], style.dot(tint, "^", o[2], size=34)) for o in own])
    rates = sorted({r["link_gbps"] for r in rows if math.isfinite(r["link_gbps"])})
    for r in rows:
        if r["kind"] == "published":
            axes.axhline(r["value"], color=style.INK, linestyle=(0, (1, 2)), linewidth=0.9, zorder=1.5)
            axes.scatter([rates[-1]], [r["value"]], **style.dot(style.INK, kind="published"))
            axes.annotate("published", (rates[-1], r["value"]), xytext=(-10, 7), textcoords="offset points", ha="right", fontsize=7.5, color=style.SOFT)
    axes.axhline(1, color=style.SOFT, linewidth=0.8, zorder=1.4)
    _links_axis(axes, [r for r in rows if math.isfinite(r["link_gbps"])])
    axes.set_ylim(bottom=0)
    axes.set_ylim(top=1.5 * axes.get_ylim()[1])
    axes.legend(fontsize=7.5, loc="upper left", ncol=2, borderaxespad=0.2, handlelength=2.6)
    axes.set_ylabel("3-D / 1-D")


def _links_axis(axes, rows):
    rates = sorted({r["link_gbps"] for r in rows})
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{r:g}" for r in rates])
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.set_xlabel("link (Gbit/s)")


# ---- sentences ----------------------------------------------------------------------------------------------------------------------


def _model_seen(rows):
    pairs = {}
    for r in rows:
        if r["quantity"] == "over 1-D":
            pairs.setdefault(r["what"], {})[r["kind"] == "modelled"] = r["value"]
    off = {w: p[True] / p[False] - 1 for w, p in pairs.items() if len(p) == 2 and tensor_parallel.scheme_of(w) != "1-D"}
    if not off:
        return ["No step beside that of 1-D."]
    worst = max(off, key=lambda w: abs(off[w]))
    return [
        f"Step over that of 1-D at 1 Gbit/s, measured and modelled: "
        + words.listing([f"{tensor_parallel.name_of(w)} {words.number(pairs[w][False], 3)} and {words.number(pairs[w][True], 3)}" for w in off])
        + f"; farthest {tensor_parallel.name_of(worst)}, {100 * off[worst]:+.0f} %."
    ]


def _tesseract_seen(rows):
    parts = []
    for gbps in sorted({r["link_gbps"] for r in rows}):
        own = sorted((r for r in rows if r["link_gbps"] == gbps), key=lambda r: r["value"])
        parts.append(f"{gbps:g} Gbit/s " + ", ".join(f"{tensor_parallel.name_of(r['what'])} {words.number(r['value'], 3)} ms" for r in own))
    return [f"2.5-D on twice the ranks: {'; '.join(parts)}."]


def _best_seen(rows):
    best, lost = max(rows, key=lambda r: r["value"]), [r for r in rows if r["value"] < 1]
    where = lambda r: f"{r['ranks']} ranks at batch {r['batch']:g} and {r['link_gbps']:g} Gbit/s"
    return [
        f"The most that a grid gains over 1-D is {words.number(best['value'], 3)}x ({tensor_parallel.name_of(best['what'])}, {where(best)}); 1-D is faster in"
        f" {len(lost)} of {len(rows)} settings{': ' + words.listing([where(r) for r in lost], 4) if lost else ''}."
    ]


def _eight_seen(rows):
    own = [r for r in rows if r["kind"] != "published"]
    slow = min(r["link_gbps"] for r in own)
    parts = [f"{r['what']} {words.number(r['value'], 3)}" for r in own if r["link_gbps"] == slow and "twice" in r["quantity"]]
    tail = "".join(f"; published {words.number(r['value'], 3)}" for r in rows if r["kind"] == "published")
    return [f"3-D's time per sequence over 1-D's on 8 ranks at {slow:g} Gbit/s: {words.listing(parts)}{tail}."]


_READERS = {"model": _model_rows, "tesseract": _tesseract_rows, "best": _best_rows, "eight": _eight_rows}
_PAINTERS = {"model": _model_panel, "tesseract": _tesseract_panel, "best": _best_panel, "eight": _eight_panel}
_SEEN = {"model": _model_seen, "tesseract": _tesseract_seen, "best": _best_seen, "eight": _eight_seen}
