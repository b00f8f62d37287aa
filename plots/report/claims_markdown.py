#!/usr/bin/python3
"""The tables of verdicts in docs/claims.md, from the committed reference.

    plots/report/claims_markdown.py [--check]

Between `<!-- verdicts: FOLDER -->` and `<!-- end of verdicts -->` of docs/claims.md stand the verdicts of FOLDER/claims.json: this program writes them there.
With --check it writes nothing; exit status 1 where the page is not what it would write.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from plots.lib import claims as claims_of
from plots.report import written_page
from plots.report.claims_table import value

PAGE = os.path.join(ROOT, "docs", "claims.md")
PLACE = re.compile(r"(<!-- verdicts: (\S+) -->\n).*?(<!-- end of verdicts -->)", re.DOTALL)
MOST = 3  # numbers of a claim that the table shows; claims.json and the report have all


def table(folder):
    """The Markdown table of FOLDER/claims.json."""
    lines = ["| claim | basis | verdict | numbers | rule, registered |", "|---|---|---|---|---|"]
    claims = claims_of.load(os.path.join(ROOT, folder)).ordered()
    of_one_page = len({claim.id.partition(".")[0] for claim in claims}) == 1
    for claim in claims:
        asked = [m for m in claim.measures if m.symbol] or claim.measures
        numbers = "; ".join(f"{m.name}: {value(m)}" for m in asked[:MOST]) or claim.because
        if len(asked) > MOST:
            numbers += f"; {len(asked) - MOST} more"
        rule = f"`{claim.rule_hash[:8]}`, {claim.registered or 'not registered'}" if claim.rule_hash else "judged before rules were registered"
        if claim.rule_hash and claim.rule_changed:
            rule += "; **by a former rule**" if claim.rule_changed.startswith("by a former rule") else "; **rule changed after results**"
        for earlier in claim.earlier:
            rule += f"; earlier ({earlier['when'][:10]}): {earlier['verdict']}"
        identifier = claim.id.partition(".")[2] if of_one_page else claim.id
        cells = (f"{identifier} {claim.statement}", claim.basis, claim.verdict, numbers, rule)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def written(text):
    """The page with its tables as they should be."""
    return PLACE.sub(lambda place: place[1] + "\n" + table(place[2]) + "\n" + place[3], text)


def main():
    return written_page.run(__doc__, PAGE, written, "docs/claims.md is not what its claims.json say; plots/report/claims_markdown.py writes it")


if __name__ == "__main__":
    sys.exit(main())
