"""Optimus-CC's exposed messages (claim C5): what compressing the epilogue's, or all, backward messages saves in a step."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C5",)
COLUMNS = ("setting", "share", "what", "saving_ms", "low", "high", "kind", "origin")
LOOKS = {
    "epilogue": ("#0072b2", "o"),
    "all": ("#d55e00", "s"),
}
NAN = float("nan")


@Figure(
    title="Optimus-CC's exposed messages: what compressing backward messages saves (claim C5)",
    order=240,
    reads=Source.CLAIMS,
    how_to_read=(
        "Saved per step against no compression, one pipeline of four stages, 16 micro-batches, by the ratio of a raw message's time to a forward pass. Points with 95 %"
        " intervals are timed steps (hollow: on the emulated link; filled: between network namespaces), dotted lines the event model, the dashed line the closed form"
        " (P-1)(c-c'). If only the epilogue's messages were exposed, the two would save the same."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name="savings of backward compression") if t.rows and t.column("epilogue saves")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="savings of timed steps"))
    settings, used = {}, []
    for table in tables:
        for label, values in table.rows:
            blocking = table.number(values, "blocking") > 0
            where = "emulated link" if table.claim.kind == "emulated" else "namespaces"
            rows = settings.setdefault(f"{where}, {'blocking' if blocking else 'overlapped'} sends", {})
            share = table.number(values, "c/tf")
            if share not in rows:  # several claims judge the same steps
                rows[share] = (table, values)
                used += [] if any(t is table for t in used) else [table]
    drawing.rows = [row for setting, rows in settings.items() for share in sorted(rows) for row in _rows(setting, share, *rows[share])]
    figure, axes = style.canvas(1, len(settings), height=3.2, legend_rows=1, foot=claim_drawing.origin_note(used), width=style.WIDTH if len(settings) > 1 else 6.0)
    handles = [style.Line2D([], [], color=tint, marker=marker, markersize=5.5, label=f"{name} compressed") for name, (tint, marker) in LOOKS.items()]
    handles += [style.Line2D([], [], color=style.SOFT, linestyle=(0, (1, 1.5)), label="event model"), style.Line2D([], [], color=style.SOFT, linestyle=(0, (4, 2)), label="(P-1)(c-c')")]
    style.legend(figure, handles, 4)
    drawing.figure = figure
    reach = [v for r in drawing.rows for v in (r["saving_ms"], r["low"], r["high"]) if math.isfinite(v)]
    limits = (min(0.0, 1.5 * min(reach)), 1.6 * max(reach)) if reach else None
    for panel, setting in zip(axes[0], settings):
        rows = [r for r in drawing.rows if r["setting"] == setting]
        _panel(panel, rows)
        panel.set_title(setting)
        if limits:
            panel.set_ylim(limits)
        drawing.seen.append(_seen(setting, rows))
    axes[0, 0].set_ylabel("saved per step (ms)")
    return claim_drawing.finish(drawing, claims, used)


def _rows(setting, share, table, values):
    numbers = {
        "epilogue": [table.number(values, n) for n in ("epilogue saves", "epilogue low", "epilogue high")],
        "all": [table.number(values, n) for n in ("all saves", "all low", "all high")],
        "model, epilogue": [table.number(values, "model, epilogue"), NAN, NAN],
        "model, all": [table.number(values, "model, all"), NAN, NAN],
        "(P-1)(c-c')": [table.number(values, "(P-1)(c-c')"), NAN, NAN],
    }
    return [
        {
            "setting": setting, "share": share, "what": what, "saving_ms": value, "low": low, "high": high,
            "kind": table.claim.kind if what in LOOKS else "modelled", "origin": table.claim.origin,
        }
        for what, (value, low, high) in numbers.items()
        if math.isfinite(value)
    ]  # fmt: skip


def _panel(axes, rows):
    at = lambda what: sorted((r["share"], r["saving_ms"], r["low"], r["high"], r["kind"]) for r in rows if r["what"] == what)
    for name, (tint, marker) in LOOKS.items():
        points = at(name)
        if points:
            fill = tint if points[0][4] == "measured" else "white"
            axes.plot([p[0] for p in points], [p[1] for p in points], color=tint, marker=marker, markersize=5.5, markerfacecolor=fill, linewidth=1.3, zorder=3)
            claim_drawing.whiskers(axes, [p[0] for p in points], [p[2] for p in points], [p[3] for p in points], [tint] * len(points))
        if model := at(f"model, {name}"):
            axes.plot([p[0] for p in model], [p[1] for p in model], color=tint, linestyle=(0, (1, 1.5)), linewidth=1.3, zorder=2)
    if form := at("(P-1)(c-c')"):
        axes.plot([p[0] for p in form], [p[1] for p in form], color=style.SOFT, linestyle=(0, (4, 2)), linewidth=1.1, zorder=2)
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.3, 1.0], ["0.1", "0.3", "1"])
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    axes.yaxis.set_major_formatter(style.matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axes.set_xlabel("raw message over forward pass, c/tf")


def _seen(setting, rows):
    value = lambda what, share: next((r["saving_ms"] for r in rows if r["what"] == what and r["share"] == share), NAN)
    each = [
        f"{words.number(value('epilogue', s), 3)} of {words.number(value('all', s), 3)} ms at c/tf = {s:g}" for s in sorted({r["share"] for r in rows})
    ]
    return f"{setting}: the epilogue saves {words.listing(each)}."
