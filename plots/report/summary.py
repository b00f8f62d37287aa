#!/usr/bin/env python3
"""Prints what a run found, per link, for the terminal at the end of run_all.sh.

    summary.py --collected OUT/collected.h5

Exit codes: 0 ok, 2 usage, 3 environment, 6 corrupt input (docs/exit-codes.md)."""
import argparse
import os
import sys

if __name__ == "__main__":  # instead of this folder, whose modules are plots.report.*
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
from plots.lib.errors import EnvironmentFailure, guarded_main  # noqa: E402


def run():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--collected", required=True, metavar="FILE", help="the collected.h5 that `sweep collect` wrote"
    )
    options = parser.parse_args()
    try:
        from plots.lib import data
    except ImportError as error:
        raise EnvironmentFailure(
            f"the summary needs numpy and h5py of /usr/bin/python3 ({error}); apt-get install python3-h5py"
        ) from error
    print("\n".join(lines(data.load(options.collected))))


def lines(collected):
    """The summary as lines of at most about 120 characters."""
    from plots.lib import data, words
    from plots.report import verdicts

    counts = [["link", "rate", "cells", "rows", "OK", "mistrusted", "skipped", "failed"]]
    for link, rate, cells, rows, status in verdicts.link_counts(collected):
        spoiled = status["FAILED"] + status["TIMEOUT"] + status["WRONG"]
        counts.append(
            [
                link,
                f"{words.number(rate, 3)} Gbit/s" if rate == rate else "not rated",
                cells,
                rows,
                status["OK"],
                status["MISTRUSTED"],
                status["SKIPPED"],
                spoiled,
            ]
        )
    found = verdicts.verdicts(collected)
    pays = [
        [
            "link",
            "traffic",
            "pay",
            "median",
            "fastest",
            "speed-up",
            "error",
            "fastest, low error",
            "speed-up",
            "error",
        ]
    ]
    for v in found:
        low = v.low_error
        pays.append(
            [
                v.link,
                v.traffic,
                f"{len(v.pays)} of {v.methods}",
                words.times(v.median_speedup),
                v.best[0],
                words.times(v.best[1]),
                words.number(v.best[3]),
                low[0] if low else "none",
                words.times(low[1]) if low else "",
                words.number(low[3]) if low else "",
            ]
        )
    result = [
        *aligned(counts),
        "",
        *(aligned(pays) if found else ["no compressed transfer has a valid timing"]),
    ]
    methods = [
        f"{v.link}, {v.traffic}: pay {words.listing(v.pays, 9) or 'none'}; never pay"
        f" {words.listing(v.never, 9) or 'none'}"
        for v in found
        if v.traffic in data.ACTIVATION_CLASSES
    ]
    return result + ([""] + methods if methods else []) + training(collected)


def training(collected):
    """Training runs by plan: where each ends and how fast its step is on each link; nothing without such runs."""
    from plots.lib import plans

    header, rows = plans.overview(plans.load(collected))
    keep = [i for i, name in enumerate(header) if name not in ("compresses", "perplexity")]
    return ["", *aligned([[row[i] for i in keep] for row in [header, *rows]])] if rows else []


def aligned(table):
    """Columns padded to their widest entry; numbers to the right, a rule below the header."""
    table = [[str(value) for value in row] for row in table]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    right = [
        all(row[i][:1].isdigit() or row[i] in ("", "n/a") for row in table[1:]) for i in range(len(widths))
    ]
    pad = lambda row: "  ".join(
        v.rjust(w) if r else v.ljust(w) for v, w, r in zip(row, widths, right)
    ).rstrip()
    return [pad(table[0]), "  ".join("-" * w for w in widths), *map(pad, table[1:])]


if __name__ == "__main__":
    sys.exit(guarded_main("summary.py", run))
