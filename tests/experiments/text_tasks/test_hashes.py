# labels: unit
# slow: yes
# timeout: 600
"""The tasks of seed 1, made from the Debian packages, are byte for byte those of docs/papers/text_tasks.md. Skipped where the packages are not installed."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from experiments.text_tasks.lib import discovery  # noqa: E402
from experiments.text_tasks.sources import gcide, wordnet  # noqa: E402

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
WANTED = re.compile(r"^\| (\w+) \| `([0-9a-f]{16})` \| `([0-9a-f]{16})` \| (?:prototype|ours), ", re.MULTILINE)
MADE = re.compile(r"^(\w+) (train|dev) \d+ rows, sha256 ([0-9a-f]{16})", re.MULTILINE)


def main():
    for path, package in ((os.path.join(wordnet.FOLDER, "data.noun"), "wordnet-base"), (gcide.FILE, "dict-gcide")):
        if not os.path.exists(path):
            print(f"SKIPPED: {path} is not there; the package {package} has it (scripts/setup.sh --study)")
            return SKIPPED
    with open(os.path.join(ROOT, "docs", "papers", "text_tasks.md"), encoding="utf-8") as file:
        wanted = {(name, side): value for name, *values in WANTED.findall(file.read()) for side, value in zip(("train", "dev"), values)}
    with tempfile.TemporaryDirectory() as out:
        program = os.path.join(ROOT, "experiments", "text_tasks", "make_tasks.py")
        done = subprocess.run(["/usr/bin/python3", program, "--out", out, "--seed", "1"], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    made = {(name, side): value for name, side, value in MADE.findall(done.stdout)}
    wrong = sorted(place for place in {*wanted, *made} if wanted.get(place) != made.get(place))
    for place in wrong:
        print("FAILED:", *place, "is", made.get(place), "and the page says", wanted.get(place))
    return 0 if done.returncode == 0 and not wrong and set(made) == {(name, side) for name in discovery.tasks() for side in ("train", "dev")} else 1


if __name__ == "__main__":
    sys.exit(main())
