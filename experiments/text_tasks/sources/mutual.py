"""Pairs of definitions of one meaning: a synset's, and the one of GCIDE that shares most stems with it."""
from typing import NamedTuple

from experiments.text_tasks.sources import texts

SHORTEST, LONGEST = 4, 25  # tokens
LEAST = 2  # stems that a choice among several must share


class Mutual(NamedTuple):
    synset: object
    word: str
    text: str  # of GCIDE
    shared: int  # stems


def fits(text):
    return SHORTEST <= texts.length(text) <= LONGEST


def mutual_pairs(wordnet, gcide):
    """{id: Mutual} of good synsets, in their order: by the first word for which each definition is the other's best."""
    found = {}
    for synset in wordnet:
        if synset.good and fits(synset.definition):
            pair = next(filter(None, (_pair(synset, word, wordnet, gcide) for word in synset.words if texts.is_single(word))), None)
            if pair:
                found[synset.id] = pair
    return found


def _pair(synset, word, wordnet, gcide):
    offered = [text for text in gcide.definitions(word, synset.part) if fits(text)]
    if not offered:
        return None
    shared = [texts.overlap(synset.definition, text) for text in offered]
    best = max(shared)
    text = offered[shared.index(best)]
    senses = wordnet.senses(word, synset.part)
    if len(senses) == 1 and len(offered) == 1:
        return Mutual(synset, word, text, best)
    others = (sense for sense in senses if sense is not synset)
    if best >= LEAST and shared.count(best) == 1 and all(texts.overlap(sense.definition, text) < best for sense in others):
        return Mutual(synset, word, text, best)
    return None
