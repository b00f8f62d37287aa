"""Validation loss against what all ranks send for it, for every entrant of the race."""
import math

from plots.lib import race_looks, style
from plots.lib.figure import Figure, Source

COLUMNS = ("entrant", "steps", "bytes", "loss")


@Figure(
    title="Race: loss against bytes",
    order=7,
    reads=Source.RACE,
    how_to_read=(
        "The mean validation loss of an entrant's race runs against steps x bytes that all ranks send in a step (counted in its timed runs, which begin in the middle of a loss run), logarithmic. The dotted line is the"
        " target, a mark the first validation at or below it; the dashed line is the baseline. Of more than 13 entrants the 8 soonest have a colour each. Fewer bytes are further left; whether they pay is the question of the figure of seconds."
    ),
    columns=COLUMNS,
)
def draw(drawing, race):
    if not race.standings:
        return drawing.skipped(race.why_none())
    if not race.curves:
        return drawing.skipped(f"{race.folder} has no curves: `race run` of a newer program, with the same folder, writes them without a new run")
    sent = {s["entrant"]: s["link_bytes"] for s in race.standings if math.isfinite(s["link_bytes"]) and s["link_bytes"] > 0}
    drawn = [e for e in race.entrants if e in sent and e in race.curves]
    if not drawn:
        return drawing.skipped("no entrant has both a curve and counted bytes")
    drawing.rows = [{"entrant": e, "steps": n, "bytes": n * sent[e], "loss": loss} for e in drawn for n, loss in race.curves[e]]
    unit, scale = ("GB", 1e9) if max(r["bytes"] for r in drawing.rows) >= 2e9 else ("MB", 1e6)
    handles = race_looks.handles(race, drawn)
    figure, axes = style.canvas(1, 1, height=4.0, legend_rows=style.legend_rows(handles, 4))
    style.legend(figure, handles, 4)
    drawing.figure = figure
    target, panel = race.standings[0]["target"], axes[0][0]
    points = {e: [(r["bytes"] / scale, r["loss"]) for r in drawing.rows if r["entrant"] == e] for e in drawn}
    race_looks.draw_curves(panel, race, points, target)
    panel.set(xlabel=f"{unit} sent by all ranks", ylabel="validation loss (nats per token)")
    reached = {e: next((x for x, loss in points[e] if loss <= target), None) for e in drawn}
    arrived = sorted((e for e in drawn if reached[e] is not None), key=reached.get)
    if arrived:
        drawing.seen = [f"Fewest bytes to {target:.4g} nats: {arrived[0]}, {reached[arrived[0]]:.3g} {unit}."]
        if reached.get(race.baseline):
            drawing.seen.append(f"{race.baseline} sends {reached[race.baseline]:.3g} {unit}, {reached[race.baseline] / reached[arrived[0]]:.3g} times as many.")
    drawing.gaps = [f"{e} did not reach the target within the longest run and has no race runs." for e in race.entrants if e not in race.curves]
    drawing.sha256 = race.sha256
    return drawing
