#!/usr/bin/python3
"""Counts the texts of tasks' dev files that stand in a corpus word for word: what a model that is pre-trained on it has seen before.

    find_overlap.py --corpus DIR --tasks DIR [--words N] [--show]

Compared are words of letters and digits, without case and punctuation, within a paragraph. Texts of fewer than N words (default 5) are counted apart, for those stand anywhere.
Exit codes: 0 done, 2 usage, 3 a folder is missing or holds none of its files (docs/exit-codes.md)."""
import argparse
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if __name__ == "__main__":
    sys.path[0] = ROOT  # instead of this folder, whose modules are experiments.text_tasks.*
sys.dont_write_bytecode = True
from plots.lib.errors import EnvironmentFailure, guarded_main  # noqa: E402

WORD = re.compile(r"[a-z0-9]+")


def words(text):
    return WORD.findall(text.lower())


def dev_texts(path):
    """{words of a text: (the text, its labels)} of a task's dev file; a score is a label."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    found = {}
    for label, *texts in rows:
        for text in texts:
            found.setdefault(tuple(words(text)), (text, set()))[1].add(label)
    return found


def standing_in(paragraphs, texts, least):
    """Those of `texts`, tuples of at least `least` words, that a paragraph holds."""
    by_start = {}
    for text in texts:
        by_start.setdefault(text[:least], []).append(text)
    found = set()
    for paragraph in paragraphs:
        line = words(paragraph)
        for at, start in enumerate(zip(*(line[n:] for n in range(least)))):
            found.update(text for text in by_start.get(start, ()) if tuple(line[at : at + len(text)]) == text)
    return found


def run():
    options = _options()
    files = sorted(glob.glob(os.path.join(options.corpus, "*.txt")))
    tasks = sorted(glob.glob(os.path.join(options.tasks, "*", "dev.tsv")))
    for what, found, option in (("texts (*.txt)", files, options.corpus), ("tasks (*/dev.tsv)", tasks, options.tasks)):
        if not found:
            raise EnvironmentFailure(f"{option} holds no {what}; experiments/text_tasks/pretrain.sh --out DIR makes both, DIR/corpus and DIR/tasks")
    texts = {os.path.basename(os.path.dirname(path)): dev_texts(path) for path in tasks}
    long_enough = {text for of_task in texts.values() for text in of_task if len(text) >= options.words}
    standing = {}
    for path in files:
        with open(path, encoding="utf-8") as file:
            for text in standing_in(file, long_enough, options.words):
                standing.setdefault(text, []).append(os.path.splitext(os.path.basename(path))[0])
    print(f"dev texts of {options.words} words and more that stand in {options.corpus}")
    for name, of_task in texts.items():
        asked = [text for text in of_task if len(text) >= options.words]
        hits = [text for text in asked if text in standing]
        print(f"{name}: {len(hits)} of {len(asked)} ({len(of_task) - len(asked)} shorter ones not asked)")
        for text in hits if options.show else ():
            print(f"  {'/'.join(sorted(of_task[text][1]))} {of_task[text][0]} (in {', '.join(standing[text])})")


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", metavar="DIR", required=True, help="folder of texts, a paragraph a line (make_corpus.py)")
    parser.add_argument("--tasks", metavar="DIR", required=True, help="folder of tasks (make_tasks.py)")
    parser.add_argument("--words", type=_words, default=5, metavar="N", help="of the shortest text that is asked for (default: %(default)s)")
    parser.add_argument("--show", action="store_true", help="also print the texts, with their labels and where they stand")
    return parser.parse_args()


def _words(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


if __name__ == "__main__":
    sys.exit(guarded_main("find_overlap.py", run))
