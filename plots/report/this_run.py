"""What was run and on what: counts of cells by link and status, kinds of tensors, provenance."""
import re

import numpy as np

from plots.lib import data, traffic_classes, words
from plots.report import page, verdicts

MISTRUSTED_LIMIT = 0.10


def profile(collected, options, form):
    """The profile's name: from the file's attributes, the command line, or a launch's command; else nothing."""
    name = str(collected.attributes.get("profile", "")) or options.profile
    if not name and "command" in collected.provenance:
        found = [m[1] for c in collected.provenance["command"] if (m := re.search(r"--profile[= ](\w+)", c))]
        name = found[0] if found else ""
    return form.format(name) if name else ""


def summary(collected, options):
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
    name = profile(collected, options, "{}")
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
    text += [note[:1].upper() + note[1:] for note in collected.notes]
    parts.append(f'<p>{page.text(" ".join(t for t in text if t))}</p>\n')
    rows = []
    for link, rate, count, total, statuses in verdicts.link_counts(collected):
        share = statuses["MISTRUSTED"] / total if total else 0.0
        rows.append(
            [link, f"{words.number(rate, 3)} Gbit/s" if np.isfinite(rate) else "not rated", count, total]
            + [statuses[s] for s in data.STATUSES]
            + [f"{100 * share:.1f} %" + (f", ABOVE {100 * MISTRUSTED_LIMIT:.0f} %" if share > MISTRUSTED_LIMIT else "")]
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
            "<h4>Why rows are not OK</h4>"
            + page.table("", ["status", "reason", "rows", "links"], spoiled, numeric=(2,))
        )
    return "".join(parts)


def _classes(cells):
    """Rows per traffic class, and which classes no figure draws: nothing is left out in silence."""
    counts = {t or "no class": int(np.sum(cells["traffic"] == t)) for t in cells.distinct("traffic")}
    hidden = [t for t in counts if t not in traffic_classes.WORDS]
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


def provenance(collected, claims):
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
        parts.append(f"<details><summary>What differs between the {len(table)} launches</summary>{page.table('', varying, rows)}</details>\n")
    return "".join(parts)
