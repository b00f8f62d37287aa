"""The counts and verdicts that the report's first tables and the terminal summary share."""
from dataclasses import dataclass

import numpy as np

from plots.lib import data, traffic_classes


@dataclass
class Verdict:
    """What one traffic class on one link says. Speed-ups are medians over a method's valid cells; a method is a label
    together with its protocol and form. `best` and `low_error` are (method, median speed-up, largest speed-up, error).
    """

    link: str
    traffic: str
    cells: int
    methods: int
    median_speedup: float
    pays: list
    never: list
    best: tuple | None
    low_error: tuple | None
    good: list  # methods whose error is low
    kind: str
    noise: tuple  # smallest and largest speed-up of the uncompressed method itself; NaN without one


def link_counts(collected):
    """Per link, slowest first: (link, rate in Gbit/s, cells, rows, {status: rows})."""
    result = []
    for link in data.links(collected.all_cells):
        rows = collected.all_cells.where(link=link)
        counts = {status: int(np.sum(rows["status"] == status)) for status in data.STATUSES}
        result.append(
            (link, data.rate_of(collected.all_cells, link), len(rows.distinct("cell_id")), len(rows), counts)
        )
    return result


def verdicts(collected):
    """One Verdict per traffic class and link that has compressed rows with a valid timing, in the figures' order."""
    result = []
    for traffic in traffic_classes.NAMES:
        cells = collected.cells.where(traffic=traffic)
        for link in data.links(cells):
            valid = data.timed(cells.where(link=link))
            dense, coded = valid.where(family="none"), valid.where(valid["family"] != "none")
            if len(coded):
                spread = (
                    (float(dense["speedup"].min()), float(dense["speedup"].max()))
                    if len(dense)
                    else (float("nan"),) * 2
                )
                result.append(_verdict(link, traffic, coded, spread))
    return result


def _verdict(link, traffic, valid, noise):
    names = method_names(valid)
    valid = valid.with_column("name", names)
    medians, largest, errors = {}, {}, {}
    in_order = lambda group: (data.method_order(group[1]["label"][0], group[1]["family"][0]), group[0])
    for (name,), rows in sorted(valid.groups("name"), key=in_order):
        medians[name], largest[name] = rows.median("speedup"), float(rows["speedup"].max())
        errors[name] = rows.median("relative_l2")
    describe = lambda name: (name, medians[name], largest[name], errors[name])
    best = max(medians, key=medians.get)
    good = [name for name in medians if errors[name] <= data.LOW_ERROR]
    return Verdict(
        link=link,
        traffic=traffic,
        cells=len(valid),
        methods=len(medians),
        median_speedup=valid.median("speedup"),
        pays=[n for n in medians if medians[n] > data.PAYS],
        never=[n for n in medians if largest[n] <= data.PAYS],
        best=describe(best),
        low_error=describe(max(good, key=medians.get)) if good else None,
        good=good,
        kind="/".join(sorted(valid.distinct("kind"))),
        noise=noise,
    )


def method_names(cells):
    """Label of each row (and scheme of an embedding); with the protocol or form behind it where the same label occurs with several of them."""
    protocols, forms = {}, {}
    for row in zip(cells["label"], cells["protocol"], cells["form"]):
        protocols.setdefault(row[0], set()).add(row[1])
        forms.setdefault(row[0], set()).add(row[2])
    suffix = lambda label, protocol, form: (
        (f" by {protocol.replace('_', ' ')}" if len(protocols[label]) > 1 and protocol else "")
        + (f", {form}" if len(forms[label]) > 1 else "")
    )
    return [
        label + (f" {s}" if s else "") + suffix(label, p, f)
        for label, s, p, f in zip(cells["label"], cells["scheme"], cells["protocol"], cells["form"])
    ]


def reasons(collected, limit=12):
    """(status, reason, rows, links) of everything that is not OK, most frequent first; the tail in one line."""
    bad = collected.all_cells.where(status=tuple(s for s in data.STATUSES if s != "OK"))
    result = [
        (status, reason or "no reason given", len(rows), rows.distinct("link"))
        for (status, reason), rows in bad.groups("status", "reason")
    ]
    result.sort(key=lambda r: (-r[2], r[0], r[1]))
    if len(result) > limit:
        rest = result[limit - 1 :]
        result = result[: limit - 1] + [
            (
                "various",
                f"{len(rest)} further reasons",
                sum(r[2] for r in rest),
                sorted({link for r in rest for link in r[3]}),
            )
        ]
    return result
