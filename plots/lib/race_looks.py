"""One look for each entrant of a race, the same in all its figures; the baseline is grey and dashed."""
from plots.lib import style

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#882255", "#44aa99", "#332288", "#999933", "#aa4499", "#117733", "#661100")
MARKERS = "os^vDPX<>ph*"


def looks(race):
    """Colour and marker by entrant."""
    of = {e: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]} for i, e in enumerate(race.entrants[1:])}
    of[race.baseline] = {"color": style.FAMILY_COLOURS["none"], "marker": "o", "linestyle": "--"}
    return of


def handles(race, entrants=None):
    """For a legend; `entrants`: those drawn, all by default."""
    of = looks(race)
    return [style.Line2D([], [], label=e, markersize=5, linewidth=1.3, **of[e]) for e in entrants or race.entrants]


def draw_curves(panel, race, points, target):
    """`points`: (x, loss) by entrant, x positive; the horizontal line is the target. Limits fit what lies near the target: a first loss of 5 nats is nobody's question."""
    of = looks(race)
    for entrant, curve in points.items():
        look = {k: v for k, v in of[entrant].items() if k != "marker"}
        panel.plot([x for x, _ in curve], [loss for _, loss in curve], linewidth=1.2, alpha=0.9, zorder=2, **look)
        reached = next(((x, loss) for x, loss in curve if loss <= target), None)
        if reached:
            panel.plot(*reached, linestyle="", marker=of[entrant]["marker"], markersize=6, color=of[entrant]["color"], zorder=3)
    panel.axhline(target, color=style.SOFT, linewidth=1.0, linestyle=":", zorder=1)
    panel.set_xscale("log")
    xs, losses = [x for c in points.values() for x, _ in c], [loss for c in points.values() for _, loss in c]
    if xs:
        left, right = style.log_limits(xs)
        panel.set_xlim(left, right)
        style.number_ticks(panel.xaxis, left, right)
        low, above = min(min(losses), target), sorted(losses)[int(0.95 * (len(losses) - 1))]
        room = 0.05 * max(above - low, 1e-3)
        panel.set_ylim(low - room, above + room)
