#!/usr/bin/env python3
"""Prints what a run found for the terminal at the end of run_all.sh: who wins the race, then which methods pay on which link.

    summary.py --collected OUT/collected.h5 [--race DIR] [--claims DIR]

Exit codes: 0 ok, 2 usage, 3 environment, 6 corrupt input (docs/exit-codes.md)."""
import argparse
import os
import sys
import textwrap

if __name__ == "__main__":  # instead of this folder, whose modules are plots.report.*
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
from plots.lib.errors import EnvironmentFailure, guarded_main, require_asked_for  # noqa: E402


def run():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--collected", required=True, metavar="FILE", help="the collected.h5 that `sweep collect` wrote"
    )
    parser.add_argument("--race", metavar="DIR", help="folder of race.json that `race run` wrote (default: race/ beside the collected file)")
    parser.add_argument("--claims", metavar="DIR", help="folder of claims.json that `claims run` wrote (default: claims/ beside the collected file)")
    options = parser.parse_args()
    require_asked_for(options.race, "race.json", "race run COURSE")
    require_asked_for(options.claims, "claims.json", "claims run")
    try:
        from plots.lib import claims, data, race
    except ImportError as error:
        raise EnvironmentFailure(
            f"the summary needs numpy and h5py of /usr/bin/python3 ({error}); apt-get install python3-h5py"
        ) from error
    collected = data.load(options.collected)
    raced = race.load(options.race or os.path.join(os.path.dirname(options.collected), "race"), collected)
    judged = claims.load(options.claims or os.path.join(os.path.dirname(options.collected), "claims"))
    print("\n".join([*first_screen(collected, raced), "", *rest(collected), *fine_tuned(judged)]))


def first_screen(collected, race):
    """The race's answer and the methods that pay without spoiling what they send, as lines of at most about 120 characters."""
    from plots.lib import data
    from plots.report import answer as answer_of_page

    answer = race.answers or [NO_RACE]
    result = [line for sentence in answer for line in textwrap.wrap(sentence, 118, subsequent_indent="  ")]
    legend = answer_of_page.legend(collected)
    return [*result, "", f"Does it pay? Methods whose result has a relative L2 error of at most {data.LOW_ERROR:g}:", *does_it_pay(collected), *([legend] if legend else [])]


NO_RACE = "No race was run here, so which method reaches a loss first on which link is open (docs/race.md)."


def does_it_pay(collected):
    """Lines: per link and traffic class how many methods of low error are faster than the uncompressed baseline, and the fastest of them."""
    from plots.lib import words
    from plots.report import verdicts

    rows = [["link", "traffic", "pay", "fastest of them", "speed-up", "error"]]
    for v in verdicts.verdicts(collected):
        pay = [name for name in v.good if name in v.pays]
        low = v.low_error
        rows.append(
            [v.link, v.traffic, f"{len(pay)} of {len(v.good)}" if low else "none", low[0] if low else f"no method of {v.methods} has so small an error", words.times(low[1]) if low else "", words.number(low[3]) if low else ""]
        )  # fmt: skip
    return aligned(rows) if len(rows) > 1 else ["no compressed transfer has a valid timing"]


def rest(collected):
    """What follows it: the fastest at any error, rows by link, methods by name, training runs."""
    from plots.lib import data, traffic_classes, words
    from plots.report import verdicts

    found = verdicts.verdicts(collected)
    fastest = [["link", "traffic", "pay", "median", "fastest", "speed-up", "error"]]
    fastest += [[v.link, v.traffic, f"{len(v.pays)} of {v.methods}", words.times(v.median_speedup), v.best[0], words.times(v.best[1]), words.number(v.best[3])] for v in found]
    methods = [
        f"{v.link}, {v.traffic}: pay {words.listing(v.pays, 9) or 'none'}; never pay"
        f" {words.listing(v.never, 9) or 'none'}"
        for v in found
        if v.traffic in traffic_classes.ACTIVATIONS
    ]
    counts = [["link", "rate", "cells", "rows", "OK", "mistrusted", "skipped", "failed"]]
    for link, rate, cells, rows, status in verdicts.link_counts(collected):
        spoiled = status["FAILED"] + status["TIMEOUT"] + status["WRONG"]
        measured = f"{words.number(rate, 3)} Gbit/s" if rate == rate else "not rated"
        counts.append([link, measured, cells, rows, status["OK"], status["MISTRUSTED"], status["SKIPPED"], spoiled])
    return [
        *(["The fastest at any error (a transfer's time alone: at an error near 1 almost nothing of the tensor arrives):", *aligned(fastest), ""] if found else []),
        *(methods + [""] if methods else []),
        "What was measured:",
        *aligned(counts),
        *training(collected),
    ]  # fmt: skip


def training(collected):
    """Training runs by plan: where each ends and how fast its step is on each link; nothing without such runs."""
    from plots.lib import plans

    header, rows = plans.overview(plans.load(collected))
    keep = [i for i, name in enumerate(header) if name not in ("compresses", "perplexity") and any(row[i] != "n/a" for row in rows)]
    return ["", *aligned([[row[i] for i in keep] for row in [header, *rows]])] if rows else []


def fine_tuned(claims):
    """What coded activations cost on tasks of sentences, a line for each arm and a column for each task; nothing where no such claim was judged, and which trainings of claims were SKIPPED, and why."""
    from plots.lib import fine_tuning

    results, _ = fine_tuning.results(claims)
    if not results:
        return [line for c in claims.ordered() if c.verdict == "SKIPPED" and c.basis == "training" for line in ["", *textwrap.wrap(f"{c.id} SKIPPED: {c.because}", 118, subsequent_indent="  ")]]
    ratios = fine_tuning.ratios(claims)
    mean = lambda result, arm: sum(result.arms[arm]) / len(result.arms[arm]) if arm in result.arms else float("nan")
    rows = [["activations", "times fewer bytes", *[f"{task}, {r.metric}" + ("" if r.counts else " (NO TEST)") for task, r in results.items()]]]
    for arm in dict.fromkeys(arm for r in results.values() for arm in r.arms):
        rows.append([arm, f"{ratios.get(arm, float('nan')):.1f}", *[f"{mean(r, arm):.3f}" if arm in r.arms else "n/a" for r in results.values()]])
    return ["", f"Fine-tuned on tasks of sentences ({fine_tuning.title(results)}):", *aligned(rows)]


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
