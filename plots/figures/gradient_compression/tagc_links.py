"""TAGC against FSDP: step and synchronisation time over the link's rate."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("gradient_compression.C6", "gradient_compression.C8")  # both hold the same tables
COLUMNS = ("what", "arm", "gbps", "ms", "origin")
PANELS = (("step", "step (ms)"), ("synchronisation", "exposed synchronisation (ms)"))
TITLES = {"step": "Step", "synchronisation": "Exposed synchronisation of gradients"}
BASE, WITHOUT = "FSDP", "gradients omitted"
LOOKS = {
    BASE: {"color": style.FAMILY_COLOURS["none"], "marker": "o"},
    "MLP, c = 2, 1 bit": {"color": "#0072b2", "marker": "s"},
    "all layers, c = 2, 1 bit": {"color": "#009e73", "marker": "^"},
    "all layers, c = 4, 1 bit": {"color": "#d55e00", "marker": "v"},
    "all layers, c = 2, 4 bits": {"color": "#cc79a7", "marker": "D"},
    WITHOUT: {"color": style.SOFT, "marker": ".", "linestyle": ":"},
}
FURTHER = {"color": style.INK, "marker": "x"}  # an arm that the claim has and this list does not


@Figure(
    title="TAGC against FSDP: step and synchronisation time over the link's rate",
    order=410,
    reads=Source.CLAIMS,
    how_to_read=(
        "Left: a whole step; the dotted line is a step whose gradients cost nothing. Right: what the synchronisation of gradients adds to"
        " a step, above that line. Names say which matrices are compressed, the ratio c of elements to counters, and bits of the index;"
        " 'MLP, c = 2, 1 bit' is what the authors release. Rates are those of the authors' set-up, of which the runs are a miniature. Both axes are"
        " logarithmic; a synchronisation that vanishes is not drawn."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = {what: next(iter(claims.tables(*CLAIMS, name=f"FSDP, {part}")), None) for what, part in PANELS}
    if not all(table and table.rows for table in tables.values()):
        return drawing.skipped(claims.why_none(*CLAIMS, what="step and synchronisation times by link"))
    arms = [c for c in tables["step"].columns if "Gbit/s" not in c]
    for what, table in tables.items():
        for _, values in table.rows:
            gbps = table.number(values, "Gbit/s")
            for arm in arms:
                if math.isfinite(gbps) and math.isfinite(values[arm]):
                    drawing.rows.append({"what": what, "arm": arm, "gbps": gbps, "ms": values[arm], "origin": table.claim.origin})
    figure, axes = style.canvas(1, 2, height=3.8, legend_rows=2, foot=claim_drawing.origin_note(tables.values()))
    fill = {"markerfacecolor": "white"} if tables["step"].claim.kind == "emulated" else {}
    look = {arm: {"linewidth": 1.5, "markersize": 5, **fill, **LOOKS.get(arm, FURTHER)} for arm in arms}
    style.legend(figure, [style.Line2D([], [], label=arm, **look[arm]) for arm in arms], 3)
    drawing.figure = figure
    for panel, (what, _) in zip(axes[0], PANELS):
        for arm in arms:
            own = _points(drawing.rows, what, arm)
            if own and not (what == "synchronisation" and arm == WITHOUT):
                panel.plot([g for g, _ in own], [ms for _, ms in own], **look[arm])
        panel.set(xscale="log", yscale="log", xlabel="link (Gbit/s)", ylabel="ms", title=TITLES[what])
        rates = sorted({r["gbps"] for r in drawing.rows})
        panel.set_xticks(rates, [f"{g:g}" for g in rates])
        panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
        low, high = style.log_limits([r["ms"] for r in drawing.rows if r["what"] == what], 0.06)
        panel.set_ylim(low, high)
        style.number_ticks(panel.yaxis, low, high)
    drawing.seen = _seen(drawing.rows, [a for a in arms if a not in (BASE, WITHOUT)])
    return claim_drawing.finish(drawing, claims, list(tables.values()))


def _points(rows, what, arm):
    """(Gbit/s, ms) that a logarithmic axis can show."""
    return sorted((r["gbps"], r["ms"]) for r in rows if r["what"] == what and r["arm"] == arm and r["ms"] > 0)


def _seen(rows, arms):
    """Which arm is fastest on each link, and what it takes of FSDP's step."""
    step = {(r["arm"], r["gbps"]): r["ms"] for r in rows if r["what"] == "step"}
    seen = []
    for gbps in sorted({g for _, g in step}):
        known = [(step[arm, gbps], arm) for arm in arms if (arm, gbps) in step]
        if not known or (BASE, gbps) not in step:
            continue
        fastest, arm = min(known)
        share = fastest / step[BASE, gbps]
        seen.append(f"At {gbps:g} Gbit/s the fastest of TAGC's ({arm}) takes {100 * share:.0f} % of FSDP's step.")
    return seen
