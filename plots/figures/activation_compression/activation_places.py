"""Where, and in how many layers, activations are coded: the loss of windows early, in the middle and late, and of the last n layers."""
import re
import statistics

from plots.lib import claim_drawing, comparisons, style, words
from plots.lib import claims as claims_of
from plots.lib.figure import Figure, Source

CLAIMS = ("activation_compression.C3", "activation_compression.C4")
GROUND = "where activations are coded"
COLUMNS = ("comparison", "panel", "method", "layers", "at", "difference", "low", "high", "origin")
TINTS = ("#009e73", "#d55e00", "#0072b2", "#cc79a7")
_ARM = re.compile(r"^(.*), layers (\d+)(?:-(\d+))?$")


@Figure(
    title="Where, and in how many layers, activations are coded",
    order=423,
    reads=Source.CLAIMS,
    how_to_read=(
        "Where: a quarter of the layers is coded, at the beginning, in the middle or at the end. How many: the last n layers are. Up: final validation loss above the dense"
        " arm's of the same seed, mean with its 95 % interval by Student's t. Sums of two tensor-parallel ranks, forward."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    tables = [t for t in claims.tables(*CLAIMS, name=comparisons.BEGINNING + GROUND) if len(t.rows) > 1]
    grounds = {c.title: rows for c in comparisons.by_ground(tables) if (rows := _rows(c.title, c.arms, c.origin))}
    if not grounds:
        return drawing.skipped(claims.why_none(*CLAIMS, what="losses by the layers that are coded"))
    panels = [(ground, kind, own) for ground, rows in grounds.items() for kind in ("where", "how many") if (own := [r for r in rows if r["panel"] == kind])]
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = style.canvas(lines, columns, height=3.2 * lines, legend_rows=1, foot=claim_drawing.origin_note(tables), sharey="row")
    drawing.figure = figure
    looks = {}
    for panel in axes.flat[len(panels) :]:
        panel.set_axis_off()
    for i, ((ground, kind, own), panel) in enumerate(zip(panels, axes.flat)):
        for method in dict.fromkeys(r["method"] for r in own):
            tint = looks.setdefault(method, TINTS[len(looks) % len(TINTS)])
            points = sorted((r for r in own if r["method"] == method), key=lambda r: r["at"])
            at = [r["at"] for r in points]
            panel.plot(at, [r["difference"] for r in points], color=tint, marker="o", markersize=5)
            claim_drawing.whiskers(panel, at, [r["low"] for r in points], [r["high"] for r in points], [tint] * len(at))
        panel.axhline(0, color=style.INK, linewidth=1, zorder=1)
        ticks = {r["at"]: r["layers"] if kind == "where" else str(r["at"]) for r in own}
        panel.set_xticks(list(ticks), list(ticks.values()))
        panel.set(title=ground.removeprefix(GROUND + ", "), xlabel="layers that are coded" if kind == "where" else "last layers that are coded")
        if i % columns == 0:
            panel.set_ylabel("loss above dense (nats per token)")
    for ground, rows in grounds.items():
        drawing.rows += rows
        drawing.seen += _seen(ground, rows)
    style.legend(figure, [style.Line2D([], [], label=m, color=t, marker="o", markersize=5) for m, t in looks.items()], 4)
    return claim_drawing.finish(drawing, claims, tables)


def _rows(ground, arms, origin):
    """Windows of a quarter, and windows that end with the last layer: one of them is both."""
    parsed = [(_ARM.match(arm), parts) for arm, parts in comparisons.differences(arms)]
    windows = [(m[1], int(m[2]), int(m[3] or m[2]), parts) for m, parts in parsed if m]
    if not windows:
        return []
    last, window = max(w[2] for w in windows), min(w[2] - w[1] + 1 for w in windows)
    rows = []
    for method, first, end, parts in windows:
        mean, low, high = claims_of.interval(parts)
        row = {"comparison": ground, "method": method, "layers": f"{first}" if first == end else f"{first} to {end}", "difference": mean, "low": low, "high": high, "origin": origin}
        if end - first + 1 == window:
            rows.append({**row, "panel": "where", "at": first})
        if end == last:
            rows.append({**row, "panel": "how many", "at": end - first + 1})
    return [r for r in rows if len({other["at"] for other in rows if other["panel"] == r["panel"]}) > 1]  # one place alone is no comparison


def _seen(ground, rows):
    said = []
    where = [r for r in rows if r["panel"] == "where"]
    if where:
        ends = min(r["at"] for r in where), max(r["at"] for r in where)
        early, late = (statistics.fmean(r["difference"] for r in where if r["at"] == at) for at in ends)
        said.append(f"{ground}: the first window costs {words.number(early)} nats, the last {words.number(late)}, mean over methods.")
    many = [r for r in rows if r["panel"] == "how many"]
    if many:
        most = max(r["at"] for r in many)
        costs = {r["method"]: r["difference"] for r in many if r["at"] == most}
        said.append(f"{ground}: all {most} layers cost {words.number(statistics.fmean(costs.values()))} nats, mean over methods.")
        failed = [m for m in dict.fromkeys(r["method"] for r in many) if m not in costs]
        if failed:
            said.append(f"{' and '.join(failed)} of all {most} layers diverged with every seed and is no part of that mean.")
    return said
