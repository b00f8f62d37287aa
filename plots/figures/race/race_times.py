"""Time to the target loss on each link, for every entrant of the race: a row each, so that twenty entrants can be told apart as well as three."""
import math

from plots.lib import claim_drawing, race_looks, style, words
from plots.lib import race as races
from plots.lib.figure import Figure, Source

COLUMNS = ("link", "entrant", "place", "arrived", "seeds", "steps_to_target", "step_ms", "seconds", "low", "high", "sooner", "sooner_low", "sooner_high", "verdict", "remark")


@Figure(
    title="Race: time to the target loss on each link",
    order=5,
    reads=Source.RACE,
    how_to_read=(
        "T = steps to the target loss x time of a step; a row is an entrant, the soonest over all links first. Points: T of the baseline over T of the entrant, logarithmic, with 95 % intervals over seeds and timed"
        " windows; right of the dashed line, which is the baseline, the target is reached sooner. Beside each panel stands T itself. Colours are verdicts: blue where the interval lies right of the line, orange where it"
        " lies left of it. Hollow triangles are bounds and point to where the value lies: not all seeds reached the target within the longest run, the entrant's or the baseline's."
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
            "seconds": s["seconds"], "low": s["seconds_low"], "high": s["seconds_high"], "sooner": s["sooner"], "sooner_low": s["sooner_low"], "sooner_high": s["sooner_high"],
            "verdict": s["verdict"], "remark": s["remark"],
        }
        for s in race.standings
    ]  # fmt: skip
    entrants = race.soonest_first
    columns = min(4, len(race.links))
    lines = -(-len(race.links) // columns)
    handles = race_looks.verdict_handles(race)
    figure, axes = style.canvas(lines, columns, height=lines * (1.0 + 0.23 * len(entrants)), legend_rows=style.legend_rows(handles, 5), sharey=True)
    style.legend(figure, handles, 5)
    drawing.figure = figure
    panels = [panel for line in axes for panel in line]
    values = [r[k] for r in drawing.rows for k in ("sooner", "sooner_low", "sooner_high") if math.isfinite(r[k]) and r[k] > 0]
    left, right = style.log_limits(values + [1.0])
    names = races.link_words(race.links)
    for panel, link in zip(panels, race.links):
        own = [(entrants.index(r["entrant"]), r) for r in drawing.rows if r["link"] == link]
        panel.axvline(1, color=style.SOFT, linewidth=1.0, linestyle="--", zorder=1)
        drawn = [(y, r) for y, r in own if math.isfinite(r["sooner"]) and r["sooner"] > 0]
        tints = [race_looks.VERDICT_COLOURS[r["verdict"]] for _, r in drawn]
        claim_drawing.whiskers(panel, [y for y, _ in drawn], [r["sooner_low"] for _, r in drawn], [r["sooner_high"] for _, r in drawn], tints, horizontal=True)
        for (y, r), tint in zip(drawn, tints):
            bound = race.bound_of_sooner(r)
            panel.plot([r["sooner"]], [y], linestyle="", marker=bound or "o", markersize=5, color=tint, markerfacecolor="white" if bound else tint, zorder=3)
        unit, length = _unit([r["seconds"] for _, r in own])
        beside = {"transform": panel.get_yaxis_transform(), "fontsize": 7.5, "color": style.INK}
        for y, r in own:
            if math.isfinite(r["seconds"]):
                panel.text(1.02, y, ("" if r["arrived"] == r["seeds"] else ">") + words.number(r["seconds"] / length, 3), va="center", **beside)
        panel.text(1.02, len(entrants) - 0.3, f"T ({unit})", va="top", **beside)
        panel.set_xscale("log")
        panel.set_xlim(left, right)
        style.number_ticks(panel.xaxis, left, right)
        panel.set_yticks(range(len(entrants)), entrants)
        panel.set_ylim(len(entrants) - 0.4, -0.6)
        panel.set(title=names[link].replace(" (", "\n("), xlabel=f"times sooner than {race.baseline}")
    for panel in panels[len(race.links) :]:
        panel.set_visible(False)
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


def _unit(seconds):
    """Name and length of the largest unit that the shortest time has one of."""
    least = min((t for t in seconds if math.isfinite(t)), default=0.0)
    return next(((name, length) for name, length in (("h", 3600.0), ("min", 60.0)) if least >= length), ("s", 1.0))
