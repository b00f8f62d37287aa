"""dup: does a sentence say the same when one word is replaced? (QQP)"""
from typing import NamedTuple

from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts

SHORTEST, LONGEST = 3, 20  # tokens
DRAWS = 4
POSITIVE = 40  # of a hundred draws
SHARE = 37, 63  # positive and negative rows
SAME, DIFFERENT = "1", "0"


class Case(NamedTuple):
    """An example, the word in it that is replaced, and what may stand in its place: `same`, its synonyms; `senses`, words of its other
    senses; `related`, of related synsets. `examples`: those of its other senses, which may stand beside the example as a whole."""

    synset: object
    text: str
    word: str
    same: list
    senses: list
    related: list
    examples: list


@Task(columns=("label", "sentence1", "sentence2"), like="QQP", metric="F1, accuracy", train=19786, dev=4000)
def rows(sources, stream):
    wordnet = sources.wordnet
    seen, used = set(), {part: [] for part in "nvar"}
    same, different, waiting = [], [], []  # waiting: a negative row whose substitute is one that positive rows have, known at the end
    for case in _cases(wordnet):
        for _ in range(DRAWS):
            positive = stream.below(100) < POSITIVE
            other = substitute = None
            if positive:
                substitute = stream.pick(case.same)
            else:
                kind = stream.below(3)
                words = (case.senses or case.related, case.related or case.senses, [])[kind]
                if words:
                    substitute = stream.pick(words)
                elif kind == 2 and case.examples:
                    other = stream.pick(case.examples)
                else:
                    waiting.append((case, stream.below(2)))
                    continue
            if substitute:
                other = texts.substitute(case.text, case.word, substitute)
            if other is None or (case.text, other) in seen:
                continue
            seen.add((case.text, other))
            if positive:
                used[case.synset.part].append(substitute)
            (same if positive else different).append(_row(case, SAME if positive else DIFFERENT, other, stream.below(2)))
    for case, first in waiting:
        near = _words_around(case, wordnet)
        other = texts.substitute(case.text, case.word, stream.pick([word for word in used[case.synset.part] if word not in near]))
        if other is not None and (case.text, other) not in seen:
            seen.add((case.text, other))
            different.append(_row(case, DIFFERENT, other, first))
    stream.shuffle(same)
    stream.shuffle(different)
    most = min(len(same) / SHARE[0], len(different) / SHARE[1])
    return same[: int(most * SHARE[0])] + different[: int(most * SHARE[1])]


def _row(case, label, other, first):
    return Row(case.word, label, (case.text, other) if first else (other, case.text))


def _examples(synset):
    return [text for text in synset.examples if SHORTEST <= texts.length(text) <= LONGEST]


def _cases(wordnet):
    """Examples of good synsets, each with the first single word in it that has a synonym."""
    for synset in wordnet:
        if not synset.good:
            continue
        for text in _examples(synset):
            for word in synset.words:
                same = [other for other in wordnet.common_words(synset) if other != word]
                if texts.is_single(word) and word in texts.tokens(text) and same:
                    yield _case(synset, text, word, same, wordnet)
                    break


def _case(synset, text, word, same, wordnet):
    near = {synset.id, *synset.hypernyms, *synset.hyponyms, *synset.targets("&")}
    taken = {name for identifier in near for name in wordnet[identifier].words}
    senses = wordnet.senses(word, synset.part)

    def far(identifiers):
        found = {name for i in identifiers if i not in near for name in wordnet.common_words(wordnet[i])}
        return sorted(found - taken)

    examples = [other for sense in senses if sense is not synset and sense.good for other in _examples(sense) if word in texts.tokens(other)]
    return Case(synset, text, word, same, far(sense.id for sense in senses), far(wordnet.related(synset.id)), examples)


def _words_around(case, wordnet):
    """Words that a sense of the replaced word has, or a synset that is related to it or above it."""
    senses = wordnet.senses(case.word, case.synset.part)
    around = {i for sense in senses for i in (sense.id, *wordnet.related(sense.id), *sense.hypernyms)}
    return {name for identifier in around for name in wordnet[identifier].words}
