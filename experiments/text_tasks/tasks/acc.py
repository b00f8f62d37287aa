"""acc: is this sentence as somebody wrote it, or were words of it moved? (CoLA)"""
import re

from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts

FUNCTION = frozenset("the a an of to in for on with by from at into his her their its my your our is are was were".split())
PLAIN = re.compile(r"[a-z' -]+")
FEWEST, MOST = 5, 14  # pieces
DISTURBED = 3  # of ten


@Task(columns=("label", "sentence"), like="CoLA", metric="Matthews correlation", train=8500, dev=2000)
def rows(sources, stream):
    seen = set()
    for synset in sources.wordnet:
        if synset.bad:
            continue
        for text in synset.examples:
            pieces = text.split(" ")
            fits = PLAIN.fullmatch(text) and FEWEST <= len(pieces) <= MOST and not FUNCTION.isdisjoint(pieces[:-1])
            if not fits or text in seen:
                continue
            seen.add(text)
            if stream.below(10) >= DISTURBED:
                yield Row(synset.id, "1", (text,))
                continue
            disturb = (_swaps_of_neighbours, _moves, _swaps_of_classes)[stream.below(3)]
            found = disturb(pieces, sources.wordnet)
            if found:
                yield Row(synset.id, "0", (" ".join(stream.pick(found)),))


def _swapped(pieces, a, b):
    changed = list(pieces)
    changed[a], changed[b] = changed[b], changed[a]
    return changed


def _swaps_of_neighbours(pieces, _):
    """A function word and the word after it."""
    return [_swapped(pieces, i, i + 1) for i in range(len(pieces) - 1) if pieces[i] in FUNCTION and pieces[i + 1] not in FUNCTION]


def _moves(pieces, _):
    """A function word to a place two or more away, not the last."""
    found = []
    for a, piece in enumerate(pieces):
        if piece not in FUNCTION:
            continue
        rest = pieces[:a] + pieces[a + 1 :]
        found += [rest[:b] + [piece] + rest[b:] for b in range(len(pieces) - 1) if abs(a - b) >= 2]
    return found


def _swaps_of_classes(pieces, wordnet):
    """Two words, not neighbours, that are never of the same part of speech."""
    classes = [_classes(piece, wordnet) for piece in pieces]
    return [
        _swapped(pieces, a, b)
        for a in range(len(pieces))
        for b in range(a + 2, len(pieces))
        if classes[a] and classes[b] and classes[a].isdisjoint(classes[b])
    ]


def _classes(piece, wordnet):
    """Parts of speech that a word may be: F of a function word, else those of WordNet, else what its ending tells."""
    if piece in FUNCTION or piece in texts.STOP:
        return {"F"}
    found = wordnet.parts(piece)
    if not found and piece.endswith("s"):
        found = {part for part in "nv" if part in wordnet.parts(piece[:-1])}
    if not found and piece.endswith(("ed", "ing")):
        found = {"v"}
    return found
