"""Optimus-CC's selective stages (claim C8), step time against the number of compressed stages."""
import math
import re

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C8",)
COLUMNS = ("setting", "stages", "what", "step_ms", "low", "high", "enough", "kind", "origin")
LOOKS = {"modelled": ("#4a5560", "s"), "emulated": ("#0072b2", "o"), "measured": ("#009e73", "o")}


@Figure(
    title="Optimus-CC's selective stages: step time against the number of compressed stages (claim C8)",
    order=250,
    reads=Source.CLAIMS,
    how_to_read=(
        "One panel per setting of the sum of gradients: the gradients of the first K stages are compressed, the others summed dense."
        " Dotted and hollow: the event model; hollow on a solid line: the same step on the emulated link, with 95 % intervals; filled:"
        " on a real link. The vertical line is K* = ceil((t_dp − t_dp') / (tb + c)), beyond which more compressed stages should"
        " give no time. The axis of times does not begin at zero."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS) if t.rows and t.column("(ms)")]
    if not tables:
        return drawing.skipped(claims.why_none(*CLAIMS, what="step times by compressed stages"))
    for table in tables:
        drawing.rows += _rows(table)
    settings = list(dict.fromkeys(r["setting"] for r in drawing.rows))
    kinds = {r["kind"] for r in drawing.rows}
    handles = [_handle(kind) for kind in LOOKS if kind in kinds] + [
        style.Line2D([], [], color=style.SOFT, linestyle=(0, (4, 2)), label="K*")
    ]
    columns = min(3, len(settings))
    lines = -(-len(settings) // columns)
    figure, axes = style.canvas(
        lines, columns, height=3.2 * lines, legend_rows=1, foot=claim_drawing.origin_note(tables),
        width=style.WIDTH if columns > 1 else 6.0,
    )  # fmt: skip
    style.legend(figure, handles, 4)
    drawing.figure = figure
    for panel in axes.flat[len(settings) :]:
        panel.set_visible(False)
    for panel, setting in zip(axes.flat, settings):
        rows = [r for r in drawing.rows if r["setting"] == setting]
        _panel(panel, rows)
        panel.set_title(setting)
        drawing.seen.append(_seen(setting, rows))
    for panel in axes[:, 0]:
        panel.set_ylabel("step (ms)")
    return claim_drawing.finish(drawing, claims, tables)


def _handle(kind):
    tint, marker = LOOKS[kind]
    fill = {"measured": tint, "emulated": "white", "modelled": "none"}[kind]
    look = style.curve(tint, kind)
    return style.Line2D([], [], marker=marker, markersize=5.5, markerfacecolor=fill, label=NAMES[kind], **look)


NAMES = {"modelled": "event model", "emulated": "emulated link", "measured": "measured"}


def _rows(table):
    """One row per point. A table of several settings has a column `tb (ms)`; of one setting, the setting in its name."""
    rows = []
    setting_column, stage_column = table.column("tb (ms)"), next((c for c in table.columns if c in ("K", "stages K")), None)
    times = [c for c in table.columns if c.startswith(("step", "model", "measured", "emulated")) and "(ms)" in c]
    for i, (label, values) in enumerate(table.rows):
        tb = values[setting_column] if setting_column else float("nan")
        setting = _setting(table, tb)
        for column in times:
            kind = "modelled" if column.startswith("model") else table.claim.kind
            bounds = [table.number(values, w) if kind != "modelled" else float("nan") for w in ("low", "high")]
            if math.isfinite(values[column]):
                rows.append(
                    {
                        "setting": setting,
                        "stages": int(values[stage_column]) if stage_column else i,
                        "what": label,
                        "step_ms": values[column],
                        "low": bounds[0],
                        "high": bounds[1],
                        "enough": values.get("K*", float("nan")),
                        "kind": kind,
                        "origin": table.claim.origin,
                    }
                )
    return rows


def _setting(table, tb):
    """`tb 26 ms, t_dp 46.1 to 12 ms` where a measure says so."""
    if not math.isfinite(tb):
        return table.name.split(", ", 1)[-1]
    for measure in table.claim.measures:
        if found := re.fullmatch(r"K\* at t_dp = ([\d.]+) ms, t_dp' = ([\d.]+) ms, tb = ([\d.]+) ms", measure.name):
            if math.isclose(float(found[3]), tb, rel_tol=1e-3):
                return f"t_dp {found[1]} to {found[2]} ms, tb {tb:g} ms"
    return f"tb {tb:g} ms"


def _panel(axes, rows):
    for kind, (tint, marker) in LOOKS.items():
        points = sorted((r["stages"], r["step_ms"], r["low"], r["high"]) for r in rows if r["kind"] == kind)
        if not points:
            continue
        x, y, low, high = zip(*points)
        axes.plot(x, y, **style.curve(tint, kind))
        claim_drawing.whiskers(axes, x, low, high, [tint] * len(x))
        axes.scatter(x, y, **style.dot(tint, marker, kind, size=70 if kind == "modelled" else 34))
    enough = next((r["enough"] for r in rows if math.isfinite(r["enough"])), None)
    if enough is not None:
        axes.axvline(enough, color=style.SOFT, linestyle=(0, (4, 2)), linewidth=1.0, zorder=1.5)
    stages = sorted({r["stages"] for r in rows})
    axes.set_xticks(stages)
    axes.set_xlim(stages[0] - 0.4, stages[-1] + 0.4)
    axes.set_xlabel("compressed stages K")
    axes.margins(y=0.12)


def _seen(setting, rows):
    parts = []
    for kind in LOOKS:
        of = {r["stages"]: r["step_ms"] for r in rows if r["kind"] == kind}
        if len(of) > 1 and 0 in of:
            best = min(of, key=of.get)
            parts.append(f"{NAMES[kind]} {words.number(of[0], 4)} ms at K = 0 and least at K = {best}, {words.number(of[best], 4)} ms")
    enough = next((r["enough"] for r in rows if math.isfinite(r["enough"])), float("nan"))
    star = f" (K* = {enough:g})" if math.isfinite(enough) else ""
    return f"{setting}{star}: {'; '.join(parts) or 'only one kind of compressed stages'}."
