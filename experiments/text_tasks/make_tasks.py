#!/usr/bin/python3
"""Makes the stand-in tasks for fine-tuning (docs/papers/text_tasks.md): OUT/NAME/train.tsv and dev.tsv of each.

    make_tasks.py --out OUT [--seed N] [--tasks NAME,NAME...] [--wordnet DIR] [--gcide FILE]
    make_tasks.py --list

Needs the Debian packages wordnet-base and dict-gcide (scripts/setup.sh --study). Equal seeds give equal bytes; the hashes are printed.
Exit codes: 0 done, 2 usage, 3 a package is missing or OUT cannot be written, 6 damaged input or full disk (docs/exit-codes.md)."""
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if __name__ == "__main__":
    sys.path[0] = ROOT  # instead of this folder, whose modules are experiments.text_tasks.*
sys.dont_write_bytecode = True
from experiments.text_tasks.lib import discovery, files  # noqa: E402
from experiments.text_tasks.lib.split import split  # noqa: E402
from experiments.text_tasks.lib.stream import Stream  # noqa: E402
from experiments.text_tasks.sources import gcide, wordnet  # noqa: E402
from experiments.text_tasks.sources.all import Sources  # noqa: E402
from plots.lib.errors import UsageError, from_os_error, guarded_main  # noqa: E402


def make(task, sources, seed):
    """(train, dev) of a task, as bytes of their files."""
    stream = Stream(task.name, seed)
    sides = split(task.rows(sources, stream), stream, task.train, task.dev)
    return [files.content(task.columns, rows) for rows in sides]


def run():
    found = discovery.tasks()
    options = _options()
    if options.list:
        print("\n".join(f"{task.about} train {task.train}, dev {task.dev}, {task.metric}" for task in found.values()))
        return
    if not options.out:
        raise UsageError("--out DIR is needed: the folder that receives the tasks")
    names = options.tasks.split(",") if options.tasks else list(found)
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageError(f"--tasks: unknown task {', '.join(unknown)}; there are {', '.join(found)}")
    sources = Sources(options.wordnet, options.gcide)
    for name in names:
        train, dev = make(found[name], sources, options.seed)
        folder = os.path.join(options.out, name)
        try:
            os.makedirs(folder, exist_ok=True)
            files.write_all(folder, {"train.tsv": train, "dev.tsv": dev})
        except OSError as error:
            raise from_os_error(error, f"cannot write the task {name}") from error
        for side, data in (("train", train), ("dev", dev)):
            rows = len(data.splitlines()) - 1
            print(f"{name} {side} {rows} rows, sha256 {files.sha256(data)}", flush=True)


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="folder that receives NAME/train.tsv and NAME/dev.tsv")
    parser.add_argument("--seed", type=_seed, default=1, metavar="N", help="0 to 2^64 - 1 (default: 1)")
    parser.add_argument("--tasks", metavar="NAMES", help="these alone, separated by commas (default: all)")
    parser.add_argument("--wordnet", metavar="DIR", default=wordnet.FOLDER, help="folder of data.noun, index.noun, ... (default: %(default)s)")
    parser.add_argument("--gcide", metavar="FILE", default=gcide.FILE, help="gcide.dict.dz (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="name the tasks and end")
    return parser.parse_args()


def _seed(text):
    value = int(text)
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 2^64 - 1")
    return value


if __name__ == "__main__":
    sys.exit(guarded_main("make_tasks.py", run))
