"""The report's section on claims: a line per judged claim that unfolds to its numbers, and which claims this profile does not judge."""
import math
import re

from plots.lib import claims as claims_of
from plots.lib import words
from plots.report import page

COLOURS = {
    "PASS": "yes", "CONFIRMED": "yes",
    "FAIL": "fail", "REFUTED": "no", "NOT REPRODUCED AT THIS SCALE": "no", "INVALID": "no",
}  # fmt: skip
# The order in which they are counted.
VERDICTS = (
    "PASS", "CONFIRMED", "DIRECTION ONLY", "MODEL ONLY", "NOT REPRODUCED AT THIS SCALE", "REFUTED", "INCONCLUSIVE", "NOT DECIDABLE", "UNSTABLE", "INVALID", "FAIL",
)  # fmt: skip


def section(claims):
    """HTML: what a verdict means, the claims of this run, those of the reference, what was not judged."""
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
        " recollected (from memory, unverified). Brackets are 95 % intervals. A line unfolds to what it rests on."
    )
    parts = [f"<details><summary>What a verdict says</summary><p>{page.text(intro)}</p></details>\n"]
    if own:
        failed = [c.id for c in own if c.verdict == "FAIL"]
        if failed:
            parts.append(f'<p class="gap">FAIL: {page.text(words.listing(failed))}. This is a defect of this code.</p>\n')
        parts += [page.sentences(_counts(own)), "<h3>Judged in this run</h3>\n", _lines(own)]
    else:
        parts.append('<p class="gap">This run judged no claim.</p>\n')
    judged_elsewhere = {c.id for c in others}
    open_ = [e for e in claims.unjudged() if e["id"] not in judged_elsewhere]
    if others:
        note = (
            f"Not of this run: {claims_of.origins(others)}. The numbers below are from there, a line unfolds to its day; they stand here because this run"
            f"{f' (profile {claims.profile})' if claims.profile else ''} did not judge these claims."
        )
        parts.append(f'<h3>From the reference run</h3><p class="gap">{page.text(note)}</p>\n')
        profiles = {e["id"]: e["from"] for e in claims.listed}
        parts.append(_lines(others, profiles))
    if open_:
        rows = [
            [e["id"], e["statement"], e.get("basis", ""), f"--profile {e['from']}" if e.get("built", True) else "NOT BUILT YET"] for e in open_
        ]
        parts.append(
            f"<h3>Not judged</h3><details><summary>{words.count(len(rows), 'claim')}, judged from the named profile upwards</summary>"
            + page.table("", ["claim", "statement", "basis", "judged by"], rows)
            + "</details>\n"
        )
    return "".join(parts)


def _counted(claims):
    """`2 CONFIRMED and 1 FAIL`, in the order of VERDICTS."""
    verdicts = sorted({c.verdict for c in claims}, key=lambda v: VERDICTS.index(v) if v in VERDICTS else len(VERDICTS))
    return words.listing([f"{sum(c.verdict == v for c in claims)} {v}" for v in verdicts], len(verdicts))


def _counts(own):
    profiles = words.listing(sorted({c.profile for c in own}))
    return [f"{words.count(len(own), 'claim')} judged in this run (profile {profiles}), at this scale: {_counted(own)}."]


def _lines(claims, profiles=None):
    """One line per claim that unfolds, paper by paper."""
    parts = []
    for paper in dict.fromkeys(_paper(c) for c in claims):
        own = [c for c in claims if _paper(c) == paper]
        parts.append(f"<h4>{page.text(paper)}: {page.text(_counted(own))}</h4>\n")
        parts += [_line(claim, (profiles or {}).get(claim.id, "")) for claim in own]
    return "".join(parts)


def _paper(claim):
    return claim.id.partition(".")[0]


def _line(claim, judged_from):
    """The verdict, what must be seen beside it, and folded what it rests on."""
    colour = COLOURS.get(claim.verdict, "open")
    return (
        f'<details class="claim" id="{page.text(claim.id)}"><summary><span class="{colour}">{page.text(claim.verdict)}</span><b class="id">{page.text(claim.id.partition(".")[2])}</b>'
        f'<span class="says">{_flags(claim)}{page.text(claim.statement)}</span></summary>\n<div>{_body(claim, judged_from)}</div></details>\n'
    )


def _flags(claim):
    """What may not be folded: that a rule changed or is not registered, and earlier verdicts that were others."""
    flags = ["rule changed after results"] if claim.rule_changed else []
    flags += ["NOT REGISTERED"] if not claim.registered else []
    flags += list(dict.fromkeys(f"earlier {e['verdict']}" for e in claim.earlier if e["verdict"] != claim.verdict))
    return "".join(f'<span class="no">{page.text(flag)}</span> · ' for flag in flags)


def _body(claim, judged_from):
    provenance = re.sub(r"\b(second-hand|recollected|derived|read)\b", r"<b>\1</b>", page.text(claim.provenance))
    parts = [f'<p class="soft">{provenance}. Basis: {page.text(claim.basis)}.{f" {page.text(claim.origin)}." if claim.reference else ""}</p>']
    if judged_from:
        parts.append(f'<p class="soft">judged by --profile {page.text(judged_from)}</p>')
    parts.append(f"<p>{page.text(claim.because)}</p>")
    if claim.measures:
        rows = [[m.name, value(m), _margin(m) if math.isfinite(m.margin) else "–"] for m in claim.measures]
        parts.append(page.table("", ["metric", "value [95 % interval]", "margin"], rows))
    return "".join(parts) + _evidence(claim)


def _evidence(claim):
    """Rule, hash, date, changes, cells, figure and command."""
    registered = f"registered {claim.registered}" if claim.registered else "NOT REGISTERED"
    parts = [f"<p>rule <code>{page.text(claim.rule_hash[:12] or 'none')}</code>, {page.text(registered)}: {page.text(claim.rule)}</p>"]
    if claim.rule_changed:
        parts.append(f'<p class="no">rule changed after results: {page.text(claim.rule_changed)}</p>')
    parts += [f'<p class="soft">earlier, {page.text(e["when"][:10])}: {page.text(e["verdict"])}</p>' for e in claim.earlier]
    parts += [f"<p>changed {page.text(c['date'])}: {page.text(c['what'])}, because {page.text(c['why'])}</p>" for c in claim.changes]
    if claim.cells:
        first = f"{claim.cells[0][:12]} to {claim.cells[-1][:12]}" if len(claim.cells) > 1 else claim.cells[0][:12]
        parts.append(f"<p>{words.count(len(claim.cells), 'cell')}: <code>{page.text(first)}</code></p>")
    parts.append(f'<p><code>{page.text(claim.command)}</code> · <a href="#{page.text(figure_of(claim))}">figure</a></p>')
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
