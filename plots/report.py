#!/usr/bin/env python3
"""Draws every figure from one collected.h5 and from judged claims, and writes OUT/figures/NAME.{pdf,png,csv} and OUT/report.html.

    report.py --collected OUT/collected.h5 --out OUT [--claims DIR] [--only NAME ...] [--recollected] [--profile TEXT]
    report.py --claims DIR --out OUT [--only NAME ...]      # only what the claims show

Reads collected data and claims.json only. Exit codes: 0 ok, 2 usage, 3 environment, 6 corrupt input or full disk (docs/exit-codes.md)."""
import argparse
import glob
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
    "tensor_parallel_error",
    "loss_curves",
    "loss_vs_bytes",
    "loss_vs_time",
    "training_stage_split",
    "timeline",
)

# Of a GPU: left out with the reason where the file holds no rows of one.
DEVICE_FIGURES = (
    "device_break_even",
    "device_throughput",
)

# From claims.json of `claims run` (plots/claims.py); one without its numbers is left out with the reason.
CLAIM_FIGURES = (
    "optimus_cc_stacks",
    "optimus_cc_curves",
    "optimus_cc_breakdown",
    "optimus_cc_errors",
    "optimus_cc_memory",
    "optimus_cc_throughput",
    "optimus_cc_stages",
    "optimus_cc_uniform",
    "optimus_cc_gain",
    "optimus_cc_cluster",
    "optimus_cc_model",
    "tensor_parallel_weak",
    "tensor_parallel_at_64",
    "tensor_parallel_bytes",
    "tensor_parallel_tesseract",
    "tensor_parallel_cube",
    "tensor_parallel_links",
    "terapipe_prediction",
    "terapipe_steps",
    "terapipe_lengths",
)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run():
    options = _options()
    os.environ.setdefault(
        "MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), f"thinwire-matplotlib-{os.getuid()}")
    )
    try:
        import importlib
        from plots import claims, data, drawing, published

        modules = {name: importlib.import_module(f"plots.{name}") for name in FIGURES + DEVICE_FIGURES + CLAIM_FIGURES}
    except ImportError as error:
        raise EnvironmentFailure(
            f"the figures need numpy, h5py and matplotlib of /usr/bin/python3 ({error}); "
            "run scripts/setup.sh, or apt-get install python3-h5py python3-matplotlib"
        ) from error
    collected = data.load(options.collected) if options.collected else None
    judged = claims.load(options.claims or os.path.join(options.out, "claims"), options.reference, options.profile)
    judged.published = published.load(options.published, options.recollected)
    folder = os.path.join(options.out, "figures")
    try:
        os.makedirs(folder, exist_ok=True)
        drawings, left_out = [], []
        for name in options.only or (FIGURES + DEVICE_FIGURES if collected else ()) + CLAIM_FIGURES:
            of_claims = name in CLAIM_FIGURES
            drawn = modules[name].draw(judged if of_claims else collected)
            if drawn.figure is None:
                left_out.append(drawn)
                continue
            drawings.append(drawn)
            drawing.save(drawn, folder, drawn.sha256 if of_claims else collected.sha256)
        from plots import story

        path = os.path.join(options.out, "report.html")
        drawing.write_file(path, story.tell(collected, judged, drawings, left_out, options).encode())
    except OSError as error:
        raise from_os_error(error, "cannot write the figures") from error
    print(f"{len(drawings)} figures in {folder}, report in {path}")
    empty = [d.name for d in drawings if not d.rows]
    if empty:
        print(f"without data (each says why): {', '.join(empty)}")
    if left_out:
        print(f"left out (the report says why): {', '.join(d.name for d in left_out)}")
    return 0


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
        "--only", nargs="+", metavar="NAME", default=[], help=f"draw only these: {', '.join(FIGURES + DEVICE_FIGURES + CLAIM_FIGURES)}"
    )
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
    if not options.collected and not options.claims:
        raise UsageError("--collected FILE or --claims DIR is needed: there is nothing to draw")
    if options.claims and not os.path.exists(os.path.join(options.claims, "claims.json")):
        raise EnvironmentFailure(
            f"{options.claims} holds no claims.json; `claims run --out {options.claims}` writes one"
        )
    unknown = [name for name in options.only if name not in FIGURES + DEVICE_FIGURES + CLAIM_FIGURES]
    if unknown:
        raise UsageError(
            f"--only: unknown figure {', '.join(unknown)}; there are {', '.join(FIGURES + DEVICE_FIGURES + CLAIM_FIGURES)}"
        )
    if not options.collected and (needy := [name for name in options.only if name in FIGURES + DEVICE_FIGURES]):
        raise UsageError(f"--only {' '.join(needy)}: drawn from a collected file, give --collected FILE")
    return options


if __name__ == "__main__":
    sys.exit(guarded_main("report.py", run))
