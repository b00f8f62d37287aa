"""The pilot that chose the learning rate of all training arms: loss without compression against the rate, by seed."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

CLAIM = "optimus_cc.M4"
COLUMNS = ("rate", "mean", "seed", "loss", "kind", "origin")
NAN = float("nan")


@Figure(
    title="Optimus-CC: the learning rate of all arms",
    order=194,
    reads=Source.CLAIMS,
    how_to_read=(
        "Final validation loss of the arm without compression, nats per token, by the peak of the learning rate. Points are single seeds, which no comparison uses; the line"
        " joins their means. All training arms use the ringed rate. Seeds far apart at one rate say that training is unstable there."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = claims.tables(CLAIM, name="pilot")
    if not tables:
        return drawing.skipped(claims.why_none(CLAIM, what="losses by learning rate"))
    table = tables[0]
    rates = sorted((values["learning rate"], values) for _, values in table.rows)
    seeds = [c for c in table.columns if c.startswith("seed")]
    drawing.rows = [
        {"rate": rate, "mean": values["mean"], "seed": seed, "loss": values[seed], "kind": "measured", "origin": table.claim.origin}
        for rate, values in rates
        for seed in seeds
    ]
    figure, axes = style.canvas(1, 1, height=2.6, width=5.0, foot=claim_drawing.origin_note(tables))
    drawing.figure = figure
    panel = axes[0][0]
    panel.plot([r for r, _ in rates], [v["mean"] for _, v in rates], color="#0072b2", linewidth=1.4, zorder=2)
    for row in drawing.rows:
        panel.plot(row["rate"], row["loss"], marker="o", markersize=4, color="#0072b2", alpha=0.55, linestyle="", zorder=3)
    used = _measured(table.claim, "rate used by all arms")
    means = {rate: values["mean"] for rate, values in rates}
    if used in means:
        panel.plot(used, means[used], marker="o", markersize=13, markerfacecolor="none", markeredgecolor="#d55e00", markeredgewidth=1.6, linestyle="", zorder=4)
    panel.set_xscale("log")
    panel.set_xticks([r for r, _ in rates], [f"{r:g}" for r, _ in rates])
    panel.xaxis.set_minor_locator(style.matplotlib.ticker.NullLocator())
    panel.set_xlabel("peak of the learning rate")
    panel.set_ylabel("validation loss, nats per token")
    best = min((m, r) for r, m in means.items() if math.isfinite(m))
    spread = lambda values: max(values[s] for s in seeds) - min(values[s] for s in seeds)
    drawing.seen = [
        f"Best mean at {best[1]:g}: {best[0]:.3f} nats; {words.listing([f'{rate:g} {means[rate]:.3f} (seeds within {spread(values):.3f})' for rate, values in rates], 12)}."
        f" {table.claim.id} is {table.claim.verdict}."
    ]
    return claim_drawing.finish(drawing, claims, tables)


def _measured(claim, name):
    return next((m.value for m in claim.measures if m.name == name), NAN)
