#!/usr/bin/python3
"""The block of README.md that shows what a run prints, from the committed reference.

    plots/report/readme.py [--check]

Writes the first screen of `summary.py --collected results/reference/cpu-2-cores/quick.h5` into the first block below the line of README.md that names that file. After a new run of the quick
profile: copy its collected.h5 there, then this. With --check it writes nothing; exit status 1 where README shows something else.
"""
import argparse
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[0] = ROOT
sys.dont_write_bytecode = True
from plots.lib import data, race  # noqa: E402
from plots.report.summary import first_screen  # noqa: E402

PAGE = os.path.join(ROOT, "README.md")
REFERENCE = "results/reference/cpu-2-cores/quick.h5"
PLACE = re.compile(r"(^[^\n]*" + re.escape(REFERENCE) + r"[^`]*`.*?\n```\n)(.*?)(```\n)", re.DOTALL | re.MULTILINE)


def written(text):
    """README with its block as it should be. ValueError where it has none."""
    collected = data.load(os.path.join(ROOT, REFERENCE))
    lines = first_screen(collected, race.load(os.path.join(ROOT, os.path.dirname(REFERENCE), "race"), collected))
    new, count = PLACE.subn(lambda place: place[1] + "\n".join(lines) + "\n" + place[3], text, count=1)
    if not count:
        raise ValueError(f"{PAGE} has no block below a line that names {REFERENCE}")
    return new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where README shows something else")
    options = parser.parse_args()
    with open(PAGE, encoding="utf-8") as stream:
        old = stream.read()
    new = written(old)
    if options.check:
        if new != old:
            print("README.md does not show what the committed reference prints; plots/report/readme.py writes it", file=sys.stderr)
        return int(new != old)
    with open(PAGE, "w", encoding="utf-8") as stream:
        stream.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
