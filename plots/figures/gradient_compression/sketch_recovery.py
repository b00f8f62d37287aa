"""Up to which load a sketch is decoded completely: share of lanes, per number of rows and ratio."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("gradient_compression.C1",)
COLUMNS = ("setting", "load", "share", "origin")
TINTS = ("#0072b2", "#009e73", "#d55e00")
STATED = 0.81  # the claim's own number


@Figure(
    title="Sketches (TAGC, LHC): how full a sketch may be and still give back every element",
    order=400,
    reads=Source.CLAIMS,
    how_to_read=(
        "The load is the share of elements that any rank keeps times the ratio c of elements to counters. A lane decodes where"
        " peeling resolves all of its elements; lanes are random and independent. Solid: c = 2, dashed: c = 10. The grey line is the"
        " load that the claim states: messages of more rows turn there more sharply."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    table = next(iter(claims.tables(*CLAIMS, name="share of lanes")), None)
    if table is None or not table.rows:
        return drawing.skipped(claims.why_none(*CLAIMS, what="shares of lanes by load"))
    settings = [c for c in table.columns if c != "load"]
    for _, values in table.rows:
        for setting in settings:
            if math.isfinite(values["load"]) and math.isfinite(values[setting]):
                drawing.rows.append({"setting": setting, "load": values["load"], "share": values[setting], "origin": table.claim.origin})
    sizes = list(dict.fromkeys(_rows_of(s) for s in settings))
    figure, axes = style.canvas(1, 1, height=3.6, width=6.5, legend_rows=2, foot=claim_drawing.origin_note([table]))
    look = {s: {"color": TINTS[sizes.index(_rows_of(s)) % len(TINTS)], "linestyle": "--" if s.endswith("10") else "-"} for s in settings}
    style.legend(figure, [style.Line2D([], [], label=s, **look[s]) for s in settings], 3)
    drawing.figure = figure
    panel = axes[0, 0]
    for setting in settings:
        own = sorted((r["load"], r["share"]) for r in drawing.rows if r["setting"] == setting)
        panel.plot([load for load, _ in own], [share for _, share in own], linewidth=1.6, **look[setting])
    panel.axvline(STATED, color=style.SOFT, linewidth=1, zorder=1)
    panel.set(xlabel="load", ylabel="share of lanes decoded completely", ylim=(-0.03, 1.03))
    drawing.seen = [_seen(drawing.rows, settings)]
    return claim_drawing.finish(drawing, claims, [table])


def _rows_of(setting):
    return setting.split(",")[0]


def _seen(rows, settings):
    """Where each setting's curve passes one half."""
    halves = []
    for setting in settings:
        above = [r["load"] for r in rows if r["setting"] == setting and r["share"] >= 0.5]
        halves.append(f"{setting}: {words.number(max(above)) if above else 'never'}")
    return f"The largest drawn load at which half of the lanes decode: {words.listing(halves, 12)}."
