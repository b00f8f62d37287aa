"""Every judged claim: how far its numbers lie from the margins of its rule."""
import math

from plots.lib import claim_drawing, style, words
from plots.lib.figure import Figure, Source

COLUMNS = ("claim", "verdict", "measure", "value", "low", "high", "margin", "unit", "value_over_margin", "kind", "origin")
TINTS = {
    "PASS": "#3f7f5f", "CONFIRMED": "#3f7f5f", "FAIL": "#a8483e", "REFUTED": "#a8483e", "NOT REPRODUCED AT THIS SCALE": "#a8483e",
}  # fmt: skip
OTHER = "#7c7b78"
MOST = 2  # numbers of one claim: those that its rule asks for first; the table of claims has all


@Figure(
    title="Claims: how far the numbers lie from their margins",
    order=190,
    reads=Source.CLAIMS,
    how_to_read=(
        "One line per number that a rule compares with a margin (two of a claim at most): the number over its margin, so that 1 (dotted) is the margin itself; which side"
        " of it confirms stands in the rule (the table of claims, last column). Whiskers are 95 % intervals. The scale is linear between -1 and 1"
        " and logarithmic beyond. Green: CONFIRMED or PASS; red: NOT REPRODUCED AT THIS SCALE, REFUTED or FAIL; grey: any other verdict. Hollow"
        " points are from a model or an emulated link, stars the papers' own numbers."
    ),
    columns=COLUMNS,
)
def draw(drawing, claims):
    without = []
    for claim in claims.ordered():
        drawable = [m for m in claim.measures if math.isfinite(m.value) and math.isfinite(m.margin) and m.margin != 0]
        rows = [_row(claim, m) for m in [m for m in drawable if m.symbol][:MOST] or drawable[:MOST]]
        drawing.rows += rows
        if not rows:
            without.append(claim.id)
    if not drawing.rows:
        return drawing.skipped("no data because no judged claim compares a number with a margin other than 0.")
    if without:
        drawing.gaps.append(f"Compared with 0, or with no margin, and therefore not drawn: {words.listing(without, 60)}.")
    foot = claim_drawing.origin_note([_Origin(c) for c in claims.ordered()])
    figure, axes = style.canvas(1, 1, height=1.4 + 0.17 * len(drawing.rows), foot=foot)
    drawing.figure = figure
    _panel(axes[0, 0], drawing.rows)
    green = sum(TINTS.get(c.verdict) == TINTS["PASS"] for c in claims.ordered())
    drawing.seen = [f"{green} of {words.count(len(claims.ordered()), 'judged claim')} are CONFIRMED or PASS."]
    drawing.sha256 = " ".join(claims.sha256.values())
    return drawing


class _Origin:
    """A claim without tables, for the note of where numbers are from."""

    def __init__(self, claim):
        self.claim = claim


def _row(claim, m):
    return {
        "claim": claim.id, "verdict": claim.verdict, "measure": m.name, "value": m.value, "low": m.low, "high": m.high, "margin": m.margin, "unit": m.unit,
        "value_over_margin": m.value / m.margin, "kind": claim.kind, "origin": claim.origin,
    }  # fmt: skip


def _panel(axes, rows):
    places = list(range(len(rows)))[::-1]
    tints = [TINTS.get(r["verdict"], OTHER) for r in rows]
    axes.set_xscale("symlog", linthresh=1.0)
    axes.axvline(1, color=style.SOFT, linestyle=(0, (1, 2)), linewidth=0.9, zorder=1.5)
    axes.axvline(0, color=style.GRID, linewidth=0.8, zorder=1.4)
    ends = [sorted((r["low"] / r["margin"], r["high"] / r["margin"])) for r in rows]
    claim_drawing.whiskers(axes, places, [e[0] for e in ends], [e[1] for e in ends], tints, horizontal=True)
    style.scatter(axes, [(r["value_over_margin"], y, style.dot(tint, kind=r["kind"], size=22.0)) for r, y, tint in zip(rows, places, tints)])
    names = [f"{r['claim']}: {_short(r['measure'])}" for r in rows]
    for above, below, y in zip(rows, rows[1:], places):
        if above["claim"].partition(".")[0] != below["claim"].partition(".")[0]:  # another page
            axes.axhline(y - 0.5, color=style.SOFT, linewidth=0.8)
    axes.set_yticks(places, names, fontsize=6.5)
    axes.set(xlabel="number over its margin", ylim=(-0.7, len(rows) - 0.3))


def _short(name):
    return name if len(name) <= 62 else name[:60] + "…"
