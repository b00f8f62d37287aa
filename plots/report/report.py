#!/usr/bin/env python3
"""Draws every figure from one collected.h5 and from judged claims, and writes OUT/figures/NAME.{pdf,png,csv} and OUT/report.html.

    report.py --collected OUT/collected.h5 --out OUT [--claims DIR] [--only NAME ...] [--recollected] [--profile TEXT]
    report.py --claims DIR --out OUT [--only NAME ...]      # only what the claims show
    report.py --race DIR --out OUT [--only NAME ...]        # only what a race shows
    report.py --list                                        # the figures, area by area

Reads collected data and claims.json only. Exit codes: 0 ok, 2 usage, 3 environment, 6 corrupt input or full disk (docs/exit-codes.md)."""
import argparse
import concurrent.futures
import glob
import multiprocessing
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if __name__ == "__main__":
    sys.path[0] = ROOT  # instead of this folder, whose modules are plots.report.*
sys.dont_write_bytecode = True
from plots.lib.errors import EnvironmentFailure, UsageError, from_os_error, guarded_main, require_asked_for  # noqa: E402


def run():
    options = _options()
    found = _figures()
    chosen = _chosen(options, found)
    from plots.lib import claims, data, drawing, published, race
    from plots.lib.figure import Source
    from plots.report import story

    collected = data.load(options.collected) if options.collected else None
    judged = claims.load(options.claims or os.path.join(options.out, "claims"), options.reference, options.profile)
    judged.published = published.load(options.published, options.recollected)
    raced = race.load(options.race or os.path.join(options.out, "race"), collected)
    folder = os.path.join(options.out, "figures")
    try:
        os.makedirs(folder, exist_ok=True)

        def saved(figure):
            """The drawing without its canvas, which is in its files; and whether it has any."""
            drawn = figure.draw({Source.CLAIMS: judged, Source.RACE: raced}.get(figure.reads, collected))
            left_out = drawn.figure is None
            if not left_out:
                drawing.save(drawn, folder, collected.sha256 if figure.reads.of_collected else drawn.sha256)
            drawn.figure = None
            return drawn, not left_out

        done = _side_by_side(saved, chosen)
        drawings, left_out = [d for d, has_files in done if has_files], [d for d, has_files in done if not has_files]
        path = os.path.join(options.out, "report.html")
        drawing.write_file(path, story.tell(collected, judged, raced, drawings, left_out, options).encode())
    except OSError as error:
        raise from_os_error(error, "cannot write the figures") from error
    print(f"{len(drawings)} figures in {folder}, report in {path}")
    empty = [d.name for d in drawings if not d.rows]
    if empty:
        print(f"without data (each says why): {', '.join(empty)}")
    if left_out:
        print(f"left out (the report says why): {', '.join(d.name for d in left_out)}")
    return 0


_work = None  # what _side_by_side does to which items: forked processes find it here


def _call(index):
    return _work[0](_work[1][index])


def _side_by_side(function, items):
    """[function(item) ...], one process per core; an error of any of them is raised here."""
    global _work
    processes = min(len(os.sched_getaffinity(0)), len(items))
    if processes < 2:
        return [function(item) for item in items]
    _work = function, items
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(_call, range(len(items))))


def _figures():
    """Every figure there is, by name."""
    os.environ.setdefault(
        "MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), f"thinwire-matplotlib-{os.getuid()}")
    )
    try:
        from plots.lib import data  # noqa: F401  # here, so that a missing package is not taken for a broken figure
        from plots.report import discovery
    except ImportError as error:
        raise EnvironmentFailure(
            f"the figures need numpy, h5py and matplotlib of /usr/bin/python3 ({error}); "
            "run scripts/setup.sh, or apt-get install python3-h5py python3-matplotlib"
        ) from error
    return discovery.figures()


def _chosen(options, found):
    """The figures to draw, in their order: those of `--only`, else all that the input can show."""
    unknown = [name for name in options.only if name not in found]
    if unknown:
        raise UsageError(f"--only: unknown figure {', '.join(unknown)}; there are {', '.join(found)}")
    of_collected = [name for name, figure in found.items() if figure.reads.of_collected]
    if not options.collected and (needy := [name for name in options.only if name in of_collected]):
        raise UsageError(f"--only {' '.join(needy)}: drawn from a collected file, give --collected FILE")
    return [found[name] for name in options.only or found if options.collected or name not in of_collected]


class _List(argparse.Action):
    """Prints the figures and ends, as --help does."""

    def __call__(self, parser, *_):
        found = _figures()
        from plots.report import discovery

        print("\n".join(discovery.listing(found)))
        parser.exit()


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--collected", metavar="FILE", help="the collected.h5 that `sweep collect` wrote; without it, claims only"
    )
    parser.add_argument(
        "--claims", metavar="DIR", help="folder of claims.json that `claims run` wrote (default: OUT/claims)"
    )
    parser.add_argument("--race", metavar="DIR", help="folder of race.json that `race run` wrote (default: OUT/race)")
    parser.add_argument(
        "--reference",
        metavar="FILE",
        nargs="+",
        default=sorted(glob.glob(os.path.join(ROOT, "results", "reference", "cpu-2-cores", "*", "claims.json"))),
        help="claims.json of other runs, shown and marked where this one judged nothing; '' for none",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="folder that receives figures/ and report.html"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", default=[], help="draw only these (--list names them)"
    )
    parser.add_argument("--list", action=_List, nargs=0, help="name the figures, area by area, and end")
    parser.add_argument(
        "--profile", default="", help="name of the profile for the heading, when the file does not tell"
    )
    parser.add_argument(
        "--published",
        metavar="DIR",
        default=os.path.join(ROOT, "results", "published"),
        help="folder with the papers' numbers",
    )
    parser.add_argument(
        "--recollected",
        action="store_true",
        help="also show unverified, recollected numbers of papers, labelled so",
    )
    options = parser.parse_args()
    if not options.collected and not options.claims and not options.race:
        raise UsageError("--collected FILE, --claims DIR or --race DIR is needed: there is nothing to draw")
    require_asked_for(options.claims, "claims.json", "claims run")
    require_asked_for(options.race, "race.json", "race run COURSE")
    for path in options.reference:
        if path and not os.path.exists(path):
            raise EnvironmentFailure(f"--reference {path}: there is no such file; give a claims.json, or '' for none")
    return options


if __name__ == "__main__":
    sys.exit(guarded_main("report.py", run))
