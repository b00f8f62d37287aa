#!/usr/bin/python3
"""The block of README.md that shows what a run prints, from the committed reference.

    plots/report/readme.py [--check]

Writes the first screen of `summary.py --collected results/reference/cpu-2-cores/quick.h5` into the first block below the line of README.md that names that file. After a new run of the quick
profile: copy its collected.h5 there, then this. With --check it writes nothing; exit status 1 where README shows something else.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[0] = ROOT
sys.dont_write_bytecode = True
from plots.lib import data, race  # noqa: E402
from plots.report import written_page  # noqa: E402
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
    return written_page.run(__doc__, PAGE, written, "README.md does not show what the committed reference prints; plots/report/readme.py writes it")


if __name__ == "__main__":
    sys.exit(main())
