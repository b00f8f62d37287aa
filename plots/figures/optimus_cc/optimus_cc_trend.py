"""Where compression's loss goes with rank, micro-batches and training: at which scale a claim of quality might hold."""
import math

from plots.lib import claim_drawing, optimus_cc, style, words
from plots.lib.figure import Figure, Source

CLAIMS = ("optimus_cc.C1", "optimus_cc.C2")
COLUMNS = ("ground", "arm", "series", "rank", "difference", "low", "high", "seeds", "margin", "kind", "origin")
SERIES = {
    "epilogue, LEP": {"color": "#0072b2", "marker": "o"},
    "epilogue, no LEP": {"color": "#e69f00", "marker": "s"},
    "all messages, LEP": {"color": "#882255", "marker": "^"},
    "all messages, no LEP": {"color": "#d55e00", "marker": "v"},
}
NAN = float("nan")


@Figure(
    title="Optimus-CC: loss of quality against rank, micro-batches and training",
    order=195,
    reads=Source.CLAIMS,
    how_to_read=(
        "Validation loss above the uncompressed arm, paired over seeds, with 95 % intervals, by the rank of the low-rank codec. One panel per setting: M"
        " micro-batches in each pipeline, so that the epilogue has P/(2M) of the backward messages; from scratch, or begun in training from the same"
        " uncompressed steps. Below the dashed line (the claims' margin) quality counts as kept. Linear up to the margin, logarithmic beyond. What falls from left to right and from"
        " panel to panel says at which scale the paper's claim may hold; the paper's models have hidden 1920 and more, M = 16, rank 16."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    grounds = [g for g in optimus_cc.grounds_of(claims, *CLAIMS) if g.ground and g.dense and len(g.losses) > 1]
    if not grounds:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses of training arms by ground"))
    tables = [t for g in grounds for t in g.tables]
    margin = optimus_cc.margin_of(tables)
    drawing.rows = [row for g in grounds for row in _rows(g, margin)]
    used = [s for s in SERIES if any(r["series"] == s for r in drawing.rows)]
    handles = [style.Line2D([], [], label=s, linestyle="-", markersize=5, **SERIES[s]) for s in used]
    lines = math.ceil(len(grounds) / 3)
    figure, axes = style.canvas(
        lines, min(3, len(grounds)), height=0.7 + 2.6 * lines, legend_rows=style.legend_rows(handles, 4), foot=claim_drawing.origin_note(tables), sharey=True,
        width=style.WIDTH if len(grounds) > 1 else 6.0,
    )  # fmt: skip
    style.legend(figure, handles, 4)
    drawing.figure = figure
    panels = [panel for line in axes for panel in line]
    reach = max(v for r in drawing.rows for v in (r["difference"], r["high"]) if math.isfinite(v))
    lowest = min(v for r in drawing.rows for v in (r["difference"], r["low"], 0.0) if math.isfinite(v))
    for panel, ground in zip(panels, grounds):
        _panel(panel, [r for r in drawing.rows if r["ground"] == ground.ground], margin, lowest, reach)
        panel.set_title(ground.ground, fontsize=8.5)
    for panel in panels[len(grounds) :]:
        panel.set_visible(False)
    for line in axes:
        line[0].set_ylabel("nats per token")
    drawing.seen = [_seen(g, [r for r in drawing.rows if r["ground"] == g.ground], margin) for g in grounds]
    return claim_drawing.finish(drawing, claims, tables)


def _series(arm):
    where = "all messages" if arm.endswith(", all") else "epilogue"
    return f"{where}, no LEP" if "without LEP" in arm else f"{where}, LEP"


def _rows(ground, margin):
    rows = []
    for arm in ground.ordered():
        rank = optimus_cc.rank_of(arm)
        mean, low, high, pairs = ground.difference(arm)
        if rank is None or "dropped" in arm or not math.isfinite(mean):
            continue
        origin = next(t.claim.origin for t in ground.tables if any(label == arm for label, _ in t.rows))
        rows.append({
            "ground": ground.ground, "arm": arm, "series": _series(arm), "rank": rank, "difference": mean, "low": low, "high": high, "seeds": pairs,
            "margin": margin, "kind": "measured", "origin": origin,
        })  # fmt: skip
    return rows


def _panel(axes, rows, margin, lowest, reach):
    for number, series in enumerate(SERIES):
        points = sorted((r["rank"], r["difference"], r["low"], r["high"]) for r in rows if r["series"] == series)
        if not points:
            continue
        x = [p[0] * 1.05 ** (number - 1.5) for p in points]  # whiskers of one rank beside each other
        axes.plot(x, [p[1] for p in points], markersize=5, linewidth=1.2, zorder=3, **SERIES[series])
        claim_drawing.whiskers(axes, x, [p[2] for p in points], [p[3] for p in points], [SERIES[series]["color"]] * len(x))
    axes.axhline(0, color=style.SOFT, linewidth=1.0, zorder=1.5)
    threshold = margin if math.isfinite(margin) else 0.02
    axes.axhline(threshold, color=style.SOFT, linestyle=(0, (4, 2)), linewidth=1.0, zorder=1.5)
    axes.set_yscale("symlog", linthresh=threshold, linscale=0.6)
    ticks = [t for t in (-0.1, -threshold, 0, threshold, 0.05, 0.1, 0.2, 0.5, 1, 2) if 1.3 * lowest <= t <= 1.4 * reach]
    axes.yaxis.set_major_locator(style.matplotlib.ticker.FixedLocator(ticks))
    axes.yaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.yaxis.set_major_formatter(style.matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:+g}" if v else "0"))
    axes.set_ylim(min(1.3 * lowest, -0.3 * threshold), 1.4 * reach)
    axes.set_xscale("log", base=2)
    axes.set_xticks([2, 4, 8, 16], ["2", "4", "8", "16"])
    axes.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    axes.set_xlim(1.6, 20)
    axes.set_xlabel("rank")


def _seen(ground, rows, margin):
    each = [f"{optimus_cc.label(r['arm'])} {r['difference']:+.3f}" for r in rows]
    seeds = max((r["seeds"] for r in rows), default=0)
    kept = [optimus_cc.label(r["arm"]) for r in rows if math.isfinite(r["high"]) and r["high"] < margin]
    end = f"; kept within the margin: {words.listing(kept)}" if kept else "; none is within the margin as a whole"
    return f"{ground.ground} ({words.count(seeds, 'seed')}): {words.listing(each, 12)}{end}."
