"""One look for each entrant of a race, the same in all figures of curves, and one for each verdict; the baseline is grey and dashed."""
from plots.lib import style

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#882255", "#44aa99", "#332288", "#999933", "#aa4499", "#117733", "#661100")
MARKERS = "os^vDPX<>ph*"
PALE = "#cbd2d9"
# As many lines as the eye keeps apart where they lie close.
AMONG_MANY = 8
VERDICT_COLOURS = {"sooner": "#0072b2", "later": "#d55e00", "undecided": "#7b8794", "not arrived": "#d55e00", "baseline": style.INK}
VERDICT_WORDS = {"sooner": "sooner", "later": "later", "undecided": "undecided", "not arrived": "not with all seeds", "baseline": "baseline"}


def verdict_handles(race):
    """For a legend: the verdicts that this race has."""
    found = {s["verdict"] for s in race.standings}
    hollow = lambda verdict: {"marker": "<", "markerfacecolor": "white"} if verdict == "not arrived" else {"marker": "o"}
    return [style.Line2D([], [], linestyle="", markersize=5.5, color=VERDICT_COLOURS[v], label=VERDICT_WORDS[v], **hollow(v)) for v in VERDICT_COLOURS if v in found]


def looks(race):
    """Colour and marker by entrant. Of more entrants than can be told apart those that are soonest have one each, the others are pale and alike."""
    of = {e: {"color": PALE, "marker": "."} for e in race.entrants}
    own = race.entrants[1:] if len(race.entrants) <= len(COLOURS) + 1 else [e for e in race.soonest_first if e != race.baseline][:AMONG_MANY]
    of |= {e: {"color": COLOURS[i], "marker": MARKERS[i]} for i, e in enumerate(own)}
    of[race.baseline] = {"color": style.FAMILY_COLOURS["none"], "marker": "o", "linestyle": "--"}
    return of


def handles(race, entrants):
    """For a legend of the entrants that are drawn, as they follow each other there; the pale ones share one."""
    of = looks(race)
    told = [e for e in entrants if of[e]["color"] != PALE]
    pale = [style.Line2D([], [], label=f"{len(entrants) - len(told)} others", markersize=5, linewidth=1.3, color=PALE, marker=".")] if len(told) < len(entrants) else []
    return [style.Line2D([], [], label=e, markersize=5, linewidth=1.3, **of[e]) for e in told] + pale


def draw_curves(panel, race, points, target):
    """`points`: (x, loss) by entrant, x positive; the horizontal line is the target. Limits fit what lies near the target: a first loss of 5 nats is nobody's question."""
    of = looks(race)
    for entrant, curve in points.items():
        look = {k: v for k, v in of[entrant].items() if k != "marker"}
        panel.plot([x for x, _ in curve], [loss for _, loss in curve], linewidth=1.2, alpha=0.9, zorder=1.5 if look["color"] == PALE else 2, **look)
        reached = next(((x, loss) for x, loss in curve if loss <= target), None)
        if reached:
            panel.plot(*reached, linestyle="", marker=of[entrant]["marker"], markersize=6, color=of[entrant]["color"], zorder=3)
    panel.axhline(target, color=style.SOFT, linewidth=1.0, linestyle=":", zorder=1)
    panel.set_xscale("log")
    losses = sorted(loss for c in points.values() for _, loss in c)
    if losses:
        low, above = min(losses[0], target), losses[int(0.95 * (len(losses) - 1))]
        room = 0.05 * max(above - low, 1e-3)
        panel.set_ylim(low - room, above + room)
        left, right = style.log_limits([x for c in points.values() for x, loss in c if loss <= above], pad=0.04)
        panel.set_xlim(left, right)
        style.number_ticks(panel.xaxis, left, right)
