"""The report's section on claims: one row per judged claim with its numbers, and which claims this profile does not judge."""
import math
import re

from plots.lib import words
from plots.report import page

COLOURS = {
    "PASS": "yes", "CONFIRMED": "yes", "DIRECTION ONLY": "yes",
    "FAIL": "fail", "REFUTED": "no", "INVALID": "no",
    "INCONCLUSIVE": "open", "NOT DECIDABLE": "open",
}  # fmt: skip


def section(claims):
    """HTML: what a verdict means, the table of this run, that of the reference, what was not judged."""
    if not claims:
        return (
            '<p class="gap">No claim was judged in this run, and no reference was found; <code>claims run --out OUT/claims</code>'
            " judges them.</p>\n"
        )
    own = [c for c in claims.ordered() if not c.reference]
    others = [c for c in claims.ordered() if c.reference]
    intro = (
        "Statements of papers as executable experiments, each judged by a rule that was written before it ran. Every verdict is one"
        " at this scale and on the basis that stands beside it: REFUTED says that a statement does not hold here, not that a paper"
        " is wrong. PASS and FAIL belong to exact claims; a FAIL is a defect of this code. Provenance says where the statement is"
        " from: read in the source, second-hand, derived by us, or recollected (from memory, unverified). Brackets are 95 %"
        " intervals."
    )
    parts = [f"<p>{page.text(intro)}</p>\n"]
    if own:
        failed = [c.id for c in own if c.verdict == "FAIL"]
        if failed:
            parts.append(f'<p class="gap">FAIL: {page.text(words.listing(failed))}. This is a defect of this code.</p>\n')
        parts += [page.sentences(_counts(own)), _table("Judged in this run", own)]
    else:
        parts.append('<p class="gap">This run judged no claim.</p>\n')
    judged_elsewhere = {c.id for c in others}
    open_ = [e for e in claims.unjudged() if e["id"] not in judged_elsewhere]
    if others:
        origins = words.listing(sorted({f"{c.origin} (profile {c.profile})" for c in others}))
        note = (
            f"Not of this run: {origins}. The numbers below are that run's, on that machine; they stand here because this run"
            f"{f' (profile {claims.profile})' if claims.profile else ''} did not judge these claims."
        )
        parts.append(f'<h3>From the reference run</h3><p class="gap">{page.text(note)}</p>\n')
        profiles = {e["id"]: e["from"] for e in claims.listed}
        parts.append(_table("Reference, not this run", others, profiles))
    if open_:
        rows = [[e["id"], e["statement"], e.get("basis", ""), f"--profile {e['from']}"] for e in open_]
        parts.append(
            "<h3>Not judged</h3>"
            + page.table("Judged from the named profile upwards", ["claim", "statement", "basis", "judged by"], rows)
        )
    return "".join(parts)


def _counts(own):
    verdicts = list(dict.fromkeys(c.verdict for c in own))
    counted = words.listing([f"{sum(c.verdict == v for c in own)} {v}" for v in verdicts])
    profiles = words.listing(sorted({c.profile for c in own}))
    return [f"{words.count(len(own), 'claim')} judged in this run (profile {profiles}), at this scale: {counted}."]


def _table(caption, claims, profiles=None):
    header = ["claim", "statement, provenance", "basis", "metric [95 % interval]", "margin", "verdict, at this scale", "reason"]
    body = "".join(_row(claim, (profiles or {}).get(claim.id, "")) for claim in claims)
    head = "".join(f"<th>{page.text(h)}</th>" for h in header)
    return (
        f'<div class="scroll"><table class="claims"><caption>{page.text(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _row(claim, judged_from):
    marked = re.sub(r"\b(second-hand|recollected|derived|read)\b", r"<b>\1</b>", page.text(claim.provenance))
    source = f'<br><span class="soft">{marked}</span>'
    marks = f'<br><span class="soft">{page.text(claim.origin)}</span>' if claim.reference else ""
    if judged_from:
        marks += f'<br><span class="soft">judged by --profile {page.text(judged_from)}</span>'
    metrics = "".join(f"<div>{page.text(m.name)}: <b>{page.text(value(m))}</b></div>" for m in claim.measures) or "–"
    margins = "".join(f"<div>{page.text(_margin(m))}</div>" for m in claim.measures if math.isfinite(m.margin)) or "–"
    if len({_margin(m) for m in claim.measures if math.isfinite(m.margin)}) == 1:  # the same for all is said once
        margins = page.text(next(_margin(m) for m in claim.measures if math.isfinite(m.margin)))
    return (
        f'<tr><td class="id">{page.text(claim.id)}{marks}</td><td>{page.text(claim.statement)}{source}</td>'
        f'<td class="w">{page.text(claim.basis)}</td><td class="m">{metrics}</td><td class="m">{margins}</td>'
        f'<td><span class="{COLOURS.get(claim.verdict, "open")}">{page.text(claim.verdict)}</span><br><span class="soft">at this'
        f' scale</span></td><td title="{page.text(claim.rule)}">{page.text(claim.because)}</td></tr>\n'
    )


def value(measure):
    """`+0.0041 [-0.0012, +0.0094] nats per token`; an exact number has no brackets."""
    exact = math.isfinite(measure.value) and measure.value == round(measure.value) and abs(measure.value) < 1e15
    text = f"{measure.value:,.0f}" if exact else words.number(measure.value, 4)
    if math.isfinite(measure.low) or math.isfinite(measure.high):
        text += f" [{words.number(measure.low, 3)}, {words.number(measure.high, 3)}]"
    return f"{text} {measure.unit}".strip()


def _margin(measure):
    return f"{measure.margin:.4g} {measure.unit}".strip()
