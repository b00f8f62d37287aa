#!/usr/bin/env python3
"""Draws every figure from one collected.h5 and writes OUT/figures/NAME.{pdf,png,csv} and OUT/report.html.

    report.py --collected OUT/collected.h5 --out OUT [--only NAME ...] [--recollected] [--profile TEXT]

Reads collected data only. Exit codes: 0 ok, 2 usage, 3 environment, 6 corrupt input or full disk (docs/exit-codes.md)."""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
from plots.errors import EnvironmentFailure, UsageError, from_os_error, guarded_main  # noqa: E402

FIGURES = (
    "speedup_map",
    "stage_split",
    "break_even",
    "error_vs_ratio",
    "gradient_protocols",
    "embedding_sync",
    "codec_throughput",
    "spectra",
    "training",
    "links",
    "loss_curves",
    "loss_vs_bytes",
    "loss_vs_time",
    "training_stage_split",
    "timeline",
)


def run():
    options = _options()
    os.environ.setdefault(
        "MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), f"thinwire-matplotlib-{os.getuid()}")
    )
    try:
        import importlib
        from plots import data, drawing, page

        modules = {name: importlib.import_module(f"plots.{name}") for name in FIGURES}
    except ImportError as error:
        raise EnvironmentFailure(
            f"the figures need numpy, h5py and matplotlib of /usr/bin/python3 ({error}); "
            "run scripts/setup.sh, or apt-get install python3-h5py python3-matplotlib"
        ) from error
    collected = data.load(options.collected)
    folder = os.path.join(options.out, "figures")
    try:
        os.makedirs(folder, exist_ok=True)
        drawings = []
        for name in options.only or FIGURES:
            drawings.append(modules[name].draw(collected))
            drawing.save(drawings[-1], folder, collected.sha256)
        from plots import story

        path = os.path.join(options.out, "report.html")
        drawing.write_file(path, story.tell(collected, drawings, options).encode())
    except OSError as error:
        raise from_os_error(error, "cannot write the figures") from error
    print(f"{len(drawings)} figures in {folder}, report in {path}")
    empty = [d.name for d in drawings if not d.rows]
    if empty:
        print(f"without data (each says why): {', '.join(empty)}")
    return 0


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--collected", required=True, metavar="FILE", help="the collected.h5 that `sweep collect` wrote"
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="folder that receives figures/ and report.html"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", default=[], help=f"draw only these: {', '.join(FIGURES)}"
    )
    parser.add_argument(
        "--profile", default="", help="name of the profile for the heading, when the file does not tell"
    )
    parser.add_argument(
        "--published",
        metavar="DIR",
        default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "results", "published"),
        help="folder with the papers' numbers",
    )
    parser.add_argument(
        "--recollected",
        action="store_true",
        help="also show unverified, recollected numbers of papers, labelled so",
    )
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in FIGURES]
    if unknown:
        raise UsageError(f"--only: unknown figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    return options


if __name__ == "__main__":
    sys.exit(guarded_main("report.py", run))
