"""What every figure of claims needs: where its numbers are from, and intervals behind points."""
import math
import re

from plots.lib import claims as claims_of
from plots.lib import words


def origin_note(tables):
    """What stands below a picture whose numbers are not all of this run; empty where they are."""
    if not (found := claims_of.origins([t.claim for t in tables])):
        return ""
    part = "" if all(t.claim.reference for t in tables) else "in part "
    return f"{part}from the {found}, not from this run".capitalize()


def settings_of(claims):
    """What the arms share (sizes, tokens, steps, learning rate, seeds), a sentence for each set of claims with equal settings, from their rules."""
    same = {}
    for claim in {c.id: c for c in claims}.values():
        found = re.search(r"Settings: (.*?)\.(?= Arms: |$)", claim.rule)
        if found:
            same.setdefault(found[1], []).append(claim.id)
    return [f"Settings of {words.listing(ids, 12)}: {settings}." for settings, ids in same.items()]


def finish(drawing, claims, tables):
    """Names the input and says what is not of this run."""
    drawing.sha256 = claims.hash_of(tables)
    if note := origin_note(tables):
        drawing.gaps.insert(0, f"{note} (claims {words.listing(sorted({t.claim.id for t in tables if t.claim.reference}), 20)}).")
    drawing.seen += settings_of([t.claim for t in tables])
    for claim in {t.claim.id: t.claim for t in tables}.values():
        if claim.verdict == "INVALID":
            drawing.gaps.append(f"{claim.id} is INVALID, its numbers decide nothing: {claim.because}.")
    return drawing


def whiskers(axes, positions, lows, highs, tints, horizontal=False):
    """95 % intervals behind points; nothing where there is none."""
    for at, low, high, tint in zip(positions, lows, highs, tints):
        if math.isfinite(low) and math.isfinite(high):
            x, y = ([low, high], [at, at]) if horizontal else ([at, at], [low, high])
            axes.plot(x, y, color=tint, linewidth=1.6, alpha=0.75, solid_capstyle="butt", zorder=2.6)
