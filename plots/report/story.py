"""The report's text: five headings, and what stands under each in which order."""
from plots.lib import published
from plots.lib.figure import Heading
from plots.report import answer, cell_table, claims_table, page, this_run, verdicts

HEADINGS = {  # what the contents say, and the heading itself
    Heading.ANSWER: ("Answer", "The answer: which method reaches the loss first, and what pays?"),
    Heading.TIME: ("Time", "Time: what a transfer and a step take"),
    Heading.ERROR: ("Error", "Error: what compressing does to tensors and losses"),
    Heading.MODELS: ("Models and links", "Models and links: what was run, and on what"),
    Heading.CLAIMS: ("Claims", "Claims: what the papers state, and what came of it here"),
}


def tell(collected, claims, race, drawings, left_out, options):
    """The whole report as HTML. Without collected results (None) it tells of the claims and of the race only."""
    found = verdicts.verdicts(collected) if collected else []
    before = {h: "" for h in HEADINGS}
    after = {h: "" for h in HEADINGS}
    if collected or race.standings:
        before[Heading.ANSWER] = answer.opening(race) + page.part("race", "", answer.standings(race) if race.standings else "")
    if collected:
        after[Heading.ANSWER] = page.part("verdict", "Does it pay?", answer.does_it_pay(found, collected)) + page.part("fastest", "The fastest at any error", answer.at_any_error(found))
        before[Heading.MODELS] = page.part("summary", "This run", this_run.summary(collected, options))
        after[Heading.MODELS] = page.part("cells", "All cells", cell_table.section(collected)) + page.part("provenance", "Provenance", this_run.provenance(collected, claims))
    before[Heading.CLAIMS] = claims_table.section(claims)
    after[Heading.CLAIMS] = page.part("papers", "What the papers say", _papers(options))
    sections = []
    for heading, (short, long) in HEADINGS.items():
        body = before[heading] + _figures(heading, drawings) + after[heading] + _not_drawn(heading, drawings, left_out)
        if body:
            sections.append((heading.value, short, long, body))
    if collected is None:
        what = "race" if race.standings and not claims else "claims"
        return page.document(f"thinwire {what}", "Judged by rules written beforehand; all of it holds at this scale.", sections)
    lead = "Compressed communication in 3D-parallel Transformer training. Every statement is computed from the collected results and holds for this machine, these links and this scale."
    return page.document(f"thinwire report{this_run.profile(collected, options, ' · {} profile')}", lead, sections)


def _figures(heading, drawings):
    """Figures of a heading: those of the answer and the first one elsewhere are seen, others are a line that unfolds."""
    own = [d for d in drawings if d.under is heading and d.rows]
    seen = len(own) if heading is Heading.ANSWER else 0 if heading is Heading.CLAIMS else 1
    return "".join(page.figure(d, _short_title(d.title, drawings), folded=i >= seen) for i, d in enumerate(own))


def _not_drawn(heading, drawings, left_out):
    """What could not be drawn, and why."""
    missing = [d for d in [*drawings, *left_out] if d.under is heading and not d.rows]
    return page.not_drawn([(d.name, _short_title(d.title, missing), d.gaps[0] if d.gaps else "no data.") for d in missing])


def _short_title(title, drawings):
    """What stands before the colon; the whole of it where several figures begin alike."""
    short = title.split(":")[0]
    return short if sum(d.title.split(":")[0] == short for d in drawings) == 1 else title


def _papers(options):
    rows = published.claims(published.load(options.published, options.recollected))
    if not rows:
        return '<p class="gap">No data because no published numbers were found beside the figures.</p>\n'
    note = (
        "Statements that were read in the named source, for orientation; none of them is drawn in a figure or"
        " used as a target. Different hardware, scale and baselines: they cannot be compared with this run"
        " number by number."
    )
    if options.recollected:
        note += " Entries marked recollected are from memory and unverified."
    return f"<p>{page.text(note)}</p>" + page.table(
        "", ["paper", "statement", "value", "mark", "source"], rows
    )
