"""Seconds to the target loss by link, for every entrant of the race."""
import math

from plots.lib import claim_drawing, race_looks, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("link", "entrant", "place", "arrived", "seeds", "steps_to_target", "step_ms", "seconds", "low", "high", "sooner", "sooner_low", "sooner_high", "remark")


@Figure(
    title="Race: time to the target loss on each link",
    order=5,
    reads=Source.RACE,
    how_to_read=(
        "Left: T = steps to the target loss x time of a step, logarithmic, with 95 % intervals over seeds and timed windows; the dashed line is the baseline. Right: the same as"
        " a factor against the baseline, steps paired over seeds; above 1 the target is reached sooner. Hollow triangles are bounds: not all seeds reached the target within the longest run,"
        " the entrant's (its factor is at most that) or the baseline's (at least that)."
        " Learning rates are tuned for every entrant on the same grid; the target was registered from the baseline before others ran."
    ),
    columns=COLUMNS,
)
def draw(drawing, race):
    if not race.standings:
        return drawing.skipped(race.why_none())
    drawing.rows = [
        {
            "link": s["link"], "entrant": s["entrant"], "place": s["place"], "arrived": s["arrived"], "seeds": s["seeds"], "steps_to_target": s["steps_to_target"], "step_ms": s["step_ms"],
            "seconds": s["seconds"], "low": s["seconds_low"], "high": s["seconds_high"], "sooner": s["sooner"], "sooner_low": s["sooner_low"], "sooner_high": s["sooner_high"], "remark": s["remark"],
        }
        for s in race.standings
    ]  # fmt: skip
    entrants, looks = race.entrants, race_looks.looks(race)
    handles = race_looks.handles(race)
    figure, axes = style.canvas(1, 2, height=4.0, legend_rows=style.legend_rows(handles, 4))
    style.legend(figure, handles, 4)
    drawing.figure = figure
    for panel, what, low, high in ((axes[0][0], "seconds", "low", "high"), (axes[0][1], "sooner", "sooner_low", "sooner_high")):
        for number, entrant in enumerate(entrants):
            own = [(race.links.index(r["link"]) + 0.06 * (number - len(entrants) / 2), r) for r in drawing.rows if r["entrant"] == entrant and math.isfinite(r[what]) and r[what] > 0]
            line = {k: v for k, v in looks[entrant].items() if k != "marker"}
            panel.plot([x for x, _ in own], [r[what] for _, r in own], linewidth=1.1, alpha=0.8, zorder=2, **line)
            claim_drawing.whiskers(panel, [x for x, _ in own], [r[low] for _, r in own], [r[high] for _, r in own], [looks[entrant]["color"]] * len(own))
            for x, r in own:
                bound = _bound(race, r, what)
                panel.plot([x], [r[what]], linestyle="", marker=bound or looks[entrant]["marker"], markersize=6, color=looks[entrant]["color"], markerfacecolor="white" if bound else looks[entrant]["color"], zorder=3)
        values = [r[k] for r in drawing.rows for k in (what, low, high) if math.isfinite(r[k]) and r[k] > 0]
        panel.set_yscale("log")
        if values:
            bottom, top = style.log_limits(values)
            panel.set_ylim(bottom, top)
            style.number_ticks(panel.yaxis, bottom, top)
        panel.set_xticks(range(len(race.links)), [link.replace(",", "\n") for link in race.links])
        panel.set_xlim(-0.5, len(race.links) - 0.5)
    axes[0][0].set(ylabel="seconds to the target", title="Time to the target")
    axes[0][1].set(ylabel=f"times sooner than {race.baseline}", title="Against the baseline")
    axes[0][1].axhline(1, color=style.SOFT, linewidth=1.0, linestyle="--", zorder=1)
    late = sorted({r["entrant"] for r in drawing.rows if r["arrived"] < r["seeds"]})
    drawing.seen = [race.answer()]
    if late:
        drawing.seen.append(f"Not with all seeds at the target: {words.listing(late)}.")
    doubts = {}
    for r in drawing.rows:
        if r["remark"] and r["arrived"] == r["seeds"]:
            doubts.setdefault(r["link"], []).append(f"{r['entrant']} ({r['remark']})")
    drawing.gaps = [f"On {link}: {words.listing(of, len(of))}." for link, of in doubts.items()]
    drawing.sha256 = race.sha256
    return drawing


def _bound(race, row, what):
    """The triangle that points to where the value itself lies; nothing where it is no bound. The baseline's own factor is 1 whatever it takes."""
    if what == "seconds":
        return "" if row["arrived"] == row["seeds"] else "^"
    return {"<": "v", ">": "^", "": ""}[race.bound_of_sooner(row)]
