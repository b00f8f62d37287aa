"""The report's text: run summary, verdicts, figures in order, what the papers say, provenance."""
import re

import numpy as np

from plots.lib import data, published, style, words
from plots.report import cell_table, claims_table, page, verdicts

MISTRUSTED_LIMIT = 0.10


def tell(collected, claims, race, drawings, left_out, options):
    """The whole report as HTML. Without collected results (None) it tells of the claims only."""
    figures = [
        (d.name, f"{i}. {_short_title(d.title, drawings)}", page.figure(d, i)) for i, d in enumerate(drawings, 1)
    ]
    judged = ("claims", "Claims of the papers", claims_table.section(claims) + _left_out(left_out))
    papers = ("papers", "What the papers say", _papers(options))
    raced = [("race", "Which method reaches the loss first?", _race(race))] if race.standings else []
    if collected is None:
        lead = "Claims of papers on compressed communication, judged by rules written beforehand. Verdicts hold at this scale."
        return page.document("thinwire claims", lead, [*raced, judged, *figures, papers])
    sections = [
        *raced,
        ("summary", "This run", _summary(collected, options)),
        ("verdict", "Does it pay?", _verdict(collected)),
        judged,
        *figures,
        ("cells", "All cells", cell_table.section(collected)),
        papers,
        ("provenance", "Provenance", _provenance(collected, claims)),
    ]
    lead = (
        "Compressed communication in 3D-parallel Transformer training, measured on the traffic of a small"
        " GPT. Every statement below is computed from the collected results and holds for this machine, these"
        " links and this scale."
    )
    return page.document(f"thinwire report{_profile(collected, options, ' · {} profile')}", lead, sections)


def _race(race):
    """The answers, then the standings on each link."""
    header = ["place", "entrant", "steps", "ms a step", "seconds", "95 %", "times sooner", "95 %", "MB a step", "remark"]
    span = lambda low, high: f"{words.number(low, 3)} to {words.number(high, 3)}" if low == low and high == high else "no interval"
    tables = []
    for link in race.links:
        rows = []
        for s in race.on(link):
            bound = "" if s["arrived"] == s["seeds"] else ">"
            rows.append([s["place"], s["entrant"], f"{bound}{s['steps_to_target']:.0f}", words.number(s["step_ms"], 3), bound + words.number(s["seconds"], 3), span(s["seconds_low"], s["seconds_high"]),
                         words.number(s["sooner"], 3), span(s["sooner_low"], s["sooner_high"]), words.number(s["link_bytes"] / 1e6, 3), s["remark"]])  # fmt: skip
        tables.append(page.table(style.link_name(link), header, rows))
    first = race.standings[0]
    scale = f"Course {first['course']}: validation loss {words.number(first['target'], 4)} nats per token, a horizon of {first['horizon']} steps, {words.count(first['seeds'], 'seed')}. T = steps x time of a step (docs/race.md)."
    return page.sentences([*race.answers, scale]) + "".join(tables)


def _left_out(drawings):
    """Figures that could not be drawn at all, each with its reason."""
    if not drawings:
        return ""
    rows = [[d.title.split(":")[0], d.gaps[0]] for d in drawings]
    return "<h3>Figures not drawn</h3>" + page.table("", ["figure", "why"], rows)


def _short_title(title, drawings):
    """What stands before the colon; the whole of it where several figures begin alike."""
    short = title.split(":")[0]
    return short if sum(d.title.split(":")[0] == short for d in drawings) == 1 else title


def _profile(collected, options, form):
    """The profile's name: from the file's attributes, the command line, or a launch's command; else nothing."""
    name = str(collected.attributes.get("profile", "")) or options.profile
    if not name and "command" in collected.provenance:
        found = [m[1] for c in collected.provenance["command"] if (m := re.search(r"--profile[= ](\w+)", c))]
        name = found[0] if found else ""
    return form.format(name) if name else ""


def _summary(collected, options):
    cells = collected.all_cells
    ok = int(np.sum(cells["status"] == "OK"))
    links = data.links(cells)
    facts = [
        ("cells", len(cells.distinct("cell_id"))),
        ("rows (cell and traffic class)", len(cells)),
        ("rows OK", words.percent(ok, len(cells))),
        ("links", len(links)),
        ("samples kept", f"{collected.samples:,}"),
    ]
    if len(collected.training_cells):
        facts.append(("training runs", len(collected.training_cells.distinct("cell_id"))))
    name = _profile(collected, options, "{}")
    parts = [page.cards(([("profile", name)] if name else []) + facts)]
    corpora = sorted({c for c in cells["corpus"] if c})
    sources = {s: int(np.sum(cells["source"] == s)) for s in cells.distinct("source") if s}
    text = [
        (
            f"Rows by kind of tensor: {words.listing([f'{n} {s}' for s, n in sources.items()])}."
            if sources
            else ""
        ),
        (
            f"Text corpus: {words.listing([c[:12] + '…' for c in corpora])}."
            if corpora
            else "No row names a text corpus."
        ),
        f"Points are {words.listing(sorted(set(cells['kind'])))}." if len(cells) else "",
    ]
    over = cells["oversubscription"][np.isfinite(cells["oversubscription"])]
    if len(over) and over.max() > 1:
        text.append(
            f"Up to {words.number(float(over.max()))} ranks shared a core: encode and decode were measured"
            " one rank at a time and replayed as timed waits around the real transfer (compute = timed)."
        )
    text.append(_classes(cells))
    parts.append(f'<p>{page.text(" ".join(t for t in text if t))}</p>\n')
    rows = []
    for link, rate, count, total, statuses in verdicts.link_counts(collected):
        share = statuses["MISTRUSTED"] / total if total else 0.0
        judged = "within" if share <= MISTRUSTED_LIMIT else "ABOVE"
        rows.append(
            [link, f"{words.number(rate, 3)} Gbit/s" if np.isfinite(rate) else "not rated", count, total]
            + [statuses[s] for s in data.STATUSES]
            + [f"{100 * share:.1f} % ({judged} {100 * MISTRUSTED_LIMIT:.0f} %)"]
        )
    if rows:
        parts.append(
            page.table(
                (
                    "Rows per link by status; a MISTRUSTED row's link was off its calibration by more than 15"
                    " %: drawn with a mark, not counted in verdicts"
                ),
                ["link", "measured rate", "cells", "rows", *data.STATUSES, "MISTRUSTED share"],
                rows,
                numeric=range(2, 10),
            )
        )
    else:
        parts.append('<p class="gap">No data because no row of /cells names a link.</p>\n')
    spoiled = [
        [status, data.shorten(reason, 160), count, words.listing([link or "none" for link in where], 6)]
        for status, reason, count, where in verdicts.reasons(collected)
    ]
    if spoiled:
        parts.append(
            "<h3>Why rows are not OK</h3>"
            + page.table("", ["status", "reason", "rows", "links"], spoiled, numeric=(2,))
        )
    return "".join(parts)


def _classes(cells):
    """Rows per traffic class, and which classes no figure draws: nothing is left out in silence."""
    counts = {t or "no class": int(np.sum(cells["traffic"] == t)) for t in cells.distinct("traffic")}
    drawn = set(data.ACTIVATION_CLASSES) | {"dp_gradient", "grad_reduce_scatter", "param_all_gather", "embedding", "codec", "control", "kernel", "training"}
    hidden = [t for t in counts if t not in drawn]
    text = (
        f"Rows by traffic class: {words.listing([f'{n} {t}' for t, n in counts.items()], 12)}."
        if counts
        else ""
    )
    return text + (
        f" No figure draws {words.listing(hidden, 12)}; their rows are in the collected file."
        if hidden
        else ""
    )


def _verdict(collected):
    found = verdicts.verdicts(collected)
    if not found:
        return (
            f'<p class="gap">{page.text("No verdict: " + data.why_none(collected.cells, "compressed transfers with a valid timing"))}</p>\n'
        )
    rows = []
    for v in found:
        answer = (
            "no"
            if not v.pays
            else f"yes, all {v.methods}" if len(v.pays) == v.methods else f"yes, {len(v.pays)} of {v.methods}"
        )
        rows.append(
            [
                v.link,
                v.traffic,
                answer,
                _spread(v.noise),
                words.times(v.median_speedup),
                _name(v.best),
                words.times(v.best[1]),
                words.number(v.best[3]),
                _name(v.low_error),
                words.times(v.low_error[1]) if v.low_error else "n/a",
                words.number(v.low_error[3]) if v.low_error else "n/a",
                words.listing(v.never, 4) or "–",
            ]
        )
    header = [
        "link",
        "traffic",
        "does it pay?",
        "none",
        "median",
        "fastest",
        "speed-up",
        "error",
        f"with error ≤ {data.LOW_ERROR:g}",
        "speed-up",
        "error",
        "never pay",
    ]
    intro = (
        f"A method pays where the median speed-up over its cells exceeds {data.PAYS:g}; one that never pays"
        " exceeds it in no cell. 'none' is the uncompressed method measured like any other: its distance"
        " from 1 is the noise of a cell. The error is the relative L2 error of one operation's result. It"
        " says nothing about the effect on training: a method can be fast and useless, which is why the"
        f" fastest method with an error of at most {data.LOW_ERROR:g} stands beside it."
    )
    return (
        f"<p>{page.text(intro)}</p>"
        + page.sentences(_headline(found))
        + page.table("", header, rows, numeric=(3, 4, 6, 7, 9, 10), verdicts=(2,))
    )


def _spread(noise):
    low, high = noise
    if not np.isfinite(low):
        return "n/a"
    return words.times(high) if low == high else f"{words.number(low)} to {words.times(high)}"


def _name(entry):
    return entry[0] if entry else "none"


def _headline(found):
    """One sentence per link over the activation classes."""
    result = []
    for link in dict.fromkeys(v.link for v in found):
        parts = []
        for v in (v for v in found if v.link == link and v.traffic in data.ACTIVATION_CLASSES):
            best = (
                f"the fastest is {v.best[0]} with {words.times(v.best[1])} (error {words.number(v.best[3])})"
            )
            parts.append(
                f"for {v.traffic}, {len(v.pays) if v.pays else 'none'} of {v.methods} methods"
                f" pay{'s' if not v.pays else ''}"
                + (f", {best}" if v.pays else f" (nearest: {v.best[0]}, {words.times(v.best[1])})")
            )
        if parts:
            result.append(f"On {link}, {'; '.join(parts)}.")
    return result


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


def _provenance(collected, claims):
    facts = [["input", collected.path.rsplit("/", 1)[-1]], ["SHA-256 of the input", collected.sha256]]
    facts += [
        [f"SHA-256 of the claims{f' of the reference run ({origin})' if origin else ''}", sha256]
        for origin, sha256 in sorted(claims.sha256.items())
    ]
    facts += [[name, value] for name, value in sorted(collected.attributes.items())]
    parts = [page.table("", ["collected file", ""], facts)]
    table = collected.provenance
    if not len(table):
        return (
            "".join(parts)
            + '<p class="gap">No data because the collected file has no rows in /provenance.</p>\n'
        )
    shared, varying = {}, []
    for name in table.columns:
        values = table.distinct(name)
        if len(values) == 1:
            if values[0] not in ("", None):
                shared[name] = values[0]
        else:
            varying.append(name)
    if shared:
        parts.append(page.table("Equal in all launches", ["field", "value"], list(shared.items())))
    if varying:
        rows = [[data.shorten(row[name], 120) for name in varying] for row in table.rows()]
        parts.append(page.table(f"Differing between the {len(table)} launches", varying, rows))
    return "".join(parts)
