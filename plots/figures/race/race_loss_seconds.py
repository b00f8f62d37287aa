"""Validation loss against seconds on each link, for every entrant of the race."""
import math

from plots.lib import race_looks, style
from plots.lib.figure import Figure, Source

COLUMNS = ("link", "entrant", "steps", "seconds", "loss")


@Figure(
    title="Race: loss against seconds on each link",
    order=6,
    reads=Source.RACE,
    how_to_read=(
        "The mean validation loss of an entrant's race runs, at its tuned learning rate and length, against steps x its measured time of a step on this link, logarithmic. The dotted line is the target, a"
        " mark the first validation at or below it; the dashed line is the baseline. Of more than 13 entrants the 8 soonest have a colour each. A line further left reaches a loss sooner. Where seeds cross the target at different steps the mark, of their mean, is not the mean of"
        " theirs, which the leaderboard has."
    ),
    columns=COLUMNS,
)
def draw(drawing, race):
    if not race.standings:
        return drawing.skipped(race.why_none())
    if not race.curves:
        return drawing.skipped(f"{race.folder} has no curves: `race run` of a newer program, with the same folder, writes them without a new run")
    for s in race.standings:
        if math.isfinite(s["step_ms"]):
            drawing.rows += [{"link": s["link"], "entrant": s["entrant"], "steps": n, "seconds": n * s["step_ms"] / 1e3, "loss": loss} for n, loss in race.curves.get(s["entrant"], [])]
    if not drawing.rows:
        return drawing.skipped("no entrant has both a curve and a time of a step")
    drawn = [e for e in race.entrants if any(r["entrant"] == e for r in drawing.rows)]
    handles = race_looks.handles(race, drawn)
    columns = min(2, len(race.links))
    rows = -(-len(race.links) // columns)
    figure, axes = style.canvas(rows, columns, height=3.6 * rows, legend_rows=style.legend_rows(handles, 4))
    style.legend(figure, handles, 4)
    drawing.figure = figure
    target = race.standings[0]["target"]
    panels = [panel for line in axes for panel in line]
    for panel, link in zip(panels, race.links):
        points = {e: [(r["seconds"], r["loss"]) for r in drawing.rows if r["entrant"] == e and r["link"] == link] for e in drawn}
        race_looks.draw_curves(panel, race, {e: p for e, p in points.items() if p}, target)
        panel.set(title=link, xlabel="seconds", ylabel="validation loss (nats per token)")
    for panel in panels[len(race.links) :]:
        panel.set_visible(False)
    drawing.seen = [race.answer()]
    drawing.gaps = [f"{e} did not reach the target within the longest run and has no race runs." for e in race.entrants if e not in race.curves]
    drawing.sha256 = race.sha256
    return drawing
