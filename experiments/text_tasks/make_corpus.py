#!/usr/bin/python3
"""Makes the corpus for pre-training (docs/papers/text_tasks.md, "The corpus"): OUT/NAME.txt of each collection, a paragraph a line.

    make_corpus.py --out OUT [--collections NAME,NAME...] [--unpacked DIR]
    make_corpus.py --list

Needs the Debian packages of the collections (scripts/setup.sh --study), or DIR/PACKAGE/ with what `dpkg -x` unpacks. Nothing is drawn: equal packages give
equal bytes; the hashes are printed. A paragraph that occurs again is left out, in the first collection's favour, by name.
Exit codes: 0 done, 2 usage, 3 a package is missing or OUT cannot be written, 6 damaged input or full disk (docs/exit-codes.md)."""
import argparse
import hashlib
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if __name__ == "__main__":
    sys.path[0] = ROOT  # instead of this folder, whose modules are experiments.text_tasks.*
sys.dont_write_bytecode = True
from experiments.text_tasks.lib import discovery, files  # noqa: E402
from experiments.text_tasks.markup import prose  # noqa: E402
from plots.lib.errors import EnvironmentFailure, UsageError, from_os_error, guarded_main  # noqa: E402


def make(collection, unpacked, seen):
    """The bytes of a collection's file; `seen`: hashes of paragraphs that are written already."""
    kept = []
    for text in collection.texts(unpacked):
        for line in prose.paragraphs(text) if collection.prose else prose.lines(text):
            digest = hashlib.blake2b(line.encode(), digest_size=8).digest()
            if digest not in seen:
                seen.add(digest)
                kept.append(line)
    if not kept:
        raise EnvironmentFailure(f"the packages of {collection.name} ({' '.join(collection.packages)}) hold no prose; are they those of Debian 12?")
    return "".join(line + "\n" for line in kept).encode()


def run():
    found = discovery.collections()
    options = _options()
    if options.list:
        print("\n".join(f"{one.about} {' '.join(one.packages)}, {one.licence}" for one in found.values()))
        return
    if not options.out:
        raise UsageError("--out DIR is needed: the folder that receives the texts")
    names = sorted(set(options.collections.split(","))) if options.collections else list(found)
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageError(f"--collections: unknown collection {', '.join(unknown)}; there are {', '.join(found)}")
    seen, whole = set(), hashlib.sha256()
    for name in names:
        data = make(found[name], options.unpacked, seen)
        try:
            os.makedirs(options.out, exist_ok=True)
            files.write_all(options.out, {name + ".txt": data})
        except OSError as error:
            raise from_os_error(error, f"cannot write the collection {name}") from error
        whole.update(data)
        print(f"{name} {data.count(bytes([10]))} paragraphs, {len(data.split())} words, {len(data)} bytes, sha256 {files.sha256(data)}", flush=True)
    print(f"all of them, in this order: sha256 {whole.hexdigest()}")


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="folder that receives NAME.txt")
    parser.add_argument("--collections", metavar="NAMES", help="these alone, separated by commas (default: all)")
    parser.add_argument("--unpacked", metavar="DIR", help="folder with PACKAGE/usr/... of each package (default: what is installed)")
    parser.add_argument("--list", action="store_true", help="name the collections, their packages and licences, and end")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(guarded_main("make_corpus.py", run))
