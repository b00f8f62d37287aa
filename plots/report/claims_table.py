"""The report's section on claims: one row per judged claim with its numbers, and which claims this profile does not judge."""
import math
import re

from plots.lib import words
from plots.report import page

COLOURS = {
    "PASS": "yes", "CONFIRMED": "yes",
    "FAIL": "fail", "REFUTED": "no", "NOT REPRODUCED AT THIS SCALE": "no", "INVALID": "no",
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
        "Statements of papers as executable experiments. A verdict is what a registered rule makes of the numbers: the rule is data, its hash"
        " and the day of its registration stand beside it, and where the cells were not made under that very rule, the row says so."
        " PASS and FAIL belong to exact claims; a FAIL is a defect of this code. REFUTED is said of a paper's own arithmetic alone;"
        " NOT REPRODUCED AT THIS SCALE of what was measured here, on the basis that stands beside it. MODEL ONLY rests on a model that nobody"
        " validated for this use. Provenance says where the statement is from: read in the source, second-hand, derived by us, or"
        " recollected (from memory, unverified). Brackets are 95 % intervals."
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
        rows = [
            [e["id"], e["statement"], e.get("basis", ""), f"--profile {e['from']}" if e.get("built", True) else "NOT BUILT YET"] for e in open_
        ]
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
    header = ["claim", "statement, provenance", "basis", "metric [95 % interval]", "margin", "verdict", "reason", "rule and evidence"]
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
        f'<td><span class="{COLOURS.get(claim.verdict, "open")}">{page.text(claim.verdict)}</span></td>'
        f'<td>{page.text(claim.because)}</td><td class="w">{_evidence(claim)}</td></tr>\n'
    )


def _evidence(claim):
    """Rule, hash, date, changes, earlier verdicts, cells, figure and command of a row, folded but for what must be seen."""
    parts = []
    if claim.rule_changed:
        parts.append(f'<div class="no">rule changed after results: {page.text(claim.rule_changed)}</div>')
    registered = f"registered {claim.registered}" if claim.registered else "NOT REGISTERED"
    parts.append(f"<div>rule <code>{page.text(claim.rule_hash[:12] or 'none')}</code>, {page.text(registered)}</div>")
    folded = [f"<div>{page.text(claim.rule)}</div>"]
    folded += [f"<div>changed {page.text(c['date'])}: {page.text(c['what'])}, because {page.text(c['why'])}</div>" for c in claim.changes]
    if claim.cells:
        first = f"{claim.cells[0][:12]} to {claim.cells[-1][:12]}" if len(claim.cells) > 1 else claim.cells[0][:12]
        folded.append(f"<div>{words.count(len(claim.cells), 'cell')}: <code>{page.text(first)}</code></div>")
    folded.append(f"<div><code>{page.text(claim.command)}</code></div>")
    summary = "rule, cells, command"
    if claim.changes:
        summary += f", {words.count(len(claim.changes), 'change')}"
    parts.append(f"<details><summary>{summary}</summary>{''.join(folded)}</details>")
    for e in claim.earlier:
        parts.append(f'<div class="soft">earlier, {page.text(e["when"][:10])}: {page.text(e["verdict"])}</div>')
    parts.append(f'<div><a href="#{page.text(figure_of(claim))}">figure</a></div>')
    return "".join(parts)


def figure_of(claim):
    """Name of the figure that draws a claim: its own, or the one of all margins."""
    return claim.figure or "margins"


def value(measure):
    """`+0.0041 [-0.0012, +0.0094] nats per token`; an exact number has no brackets."""
    exact = math.isfinite(measure.value) and measure.value == round(measure.value) and abs(measure.value) < 1e15
    text = f"{measure.value:,.0f}" if exact else words.number(measure.value, 4)
    if math.isfinite(measure.low) or math.isfinite(measure.high):
        text += f" [{words.number(measure.low, 3)}, {words.number(measure.high, 3)}]"
    return f"{text} {measure.unit}".strip()


def _margin(measure):
    return f"{measure.margin:.4g} {measure.unit}".strip()
