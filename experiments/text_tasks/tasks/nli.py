"""nli: does a sentence follow from its twin with one word replaced, contradict it, or neither? (MNLI)"""
from typing import NamedTuple

from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts

SHORTEST, LONGEST = 3, 20  # tokens
# Words under which a more general term no longer follows from a more special one.
TURNING = frozenset("without not no never nor neither nothing only all every".split())
PICKS = {"n": 3, "v": 3, "a": 2}  # of each kind of substitute
DEEP = 3  # ancestors of a hypernym that says something
# Lexicographer's files of nouns whose fellow hyponyms exclude each other: animals, artefacts, body parts, food, objects, plants, amounts, shapes, substances.
EXCLUSIVE = frozenset((5, 6, 8, 13, 17, 20, 23, 27, 28))
ENTAILS, NEUTRAL, CONTRADICTS = LABELS = "012"


class Links(NamedTuple):
    """Ids of more general, more special and contrary synsets."""

    up: list
    down: list
    contrary: list


class Twin(NamedTuple):
    """An example, the word replaced in it, what stands there instead, and the text then."""

    synset: object
    text: str
    word: str
    substitute: str
    other: str


@Task(columns=("label", "premise", "hypothesis"), like="MNLI", metric="accuracy", train=23357, dev=4000)
def rows(sources, stream):
    wordnet, twins, seen = sources.wordnet, {part: ([], [], []) for part in PICKS}, set()
    for synset, text, word in _cases(wordnet):
        for found, kind in zip(twins[synset.part], _substitutes(synset, word, wordnet)):
            for _ in range(PICKS[synset.part] if kind else 0):
                substitute = stream.pick(kind)
                other = texts.substitute(text, word, substitute)
                if other is not None and other not in seen:
                    seen.add(other)
                    found.append(Twin(synset, text, word, substitute, other))
    for part, kinds in twins.items():
        for kind in kinds:
            stream.shuffle(kind)
        labelled = _labelled_adjectives(*kinds, wordnet, stream) if part == "a" else _labelled(*kinds)
        classes = [[row for row in labelled if row.label == label] for label in LABELS]
        for rows_of_class in classes:
            stream.shuffle(rows_of_class)
            yield from rows_of_class[: min(map(len, classes))]


def _cases(wordnet):
    """(synset, example, the first single word of the synset in it)."""
    for synset in wordnet:
        if synset.part not in PICKS or not synset.good:
            continue
        for text in synset.examples:
            found = texts.tokens(text)
            turned = not TURNING.isdisjoint(found) or any(token.endswith("n't") for token in found)
            word = next((word for word in synset.words if texts.is_single(word) and word in found), None)
            if word and SHORTEST <= len(found) <= LONGEST and not turned:
                yield synset, text, word


def _links(synset, wordnet):
    if synset.part == "a":
        similar = synset.targets("&")
        return Links([synset.id, *similar], [], synset.targets("!") or [i for j in similar for i in wordnet[j].targets("!")])
    up = [parent for parent in synset.hypernyms if synset.part == "v" or len(wordnet.ancestors(parent)) >= DEEP]
    contrary = []
    if synset.part == "n" and synset.lexfile in EXCLUSIVE:
        fellows = (child for parent in synset.hypernyms for child in wordnet.children(parent))
        contrary = [child for child in fellows if child != synset.id and wordnet[child].lexfile == synset.lexfile]
    return Links(up, synset.hyponyms, contrary + synset.targets("!"))


def _substitutes(synset, word, wordnet):
    """Good common words of more general, more special and contrary synsets."""
    up, down, contrary = ([name for i in ids if wordnet[i].good for name in wordnet.common_words(wordnet[i]) if name != word] for ids in _links(synset, wordnet))
    return [name for name in up if name not in contrary and name not in down], down, contrary


def _row(label, twin, at, other=None):
    """The original first in even rows, so that a place tells nothing."""
    pair = (twin.text, other or twin.other)
    return Row(twin.word, label, pair if at % 2 == 0 else pair[::-1])


def _labelled(up, down, contrary):
    """Of nouns and verbs: the special entails the general, not the other way round."""
    found = [_row(NEUTRAL if at % 2 else ENTAILS, twin, at) for at, twin in enumerate(up)]
    found += [_row(ENTAILS if at % 2 else NEUTRAL, twin, at) for at, twin in enumerate(down)]
    return found + [_row(CONTRADICTS, twin, at) for at, twin in enumerate(contrary)]


def _labelled_adjectives(up, _, contrary, wordnet, stream):
    """Of adjectives: similar ones entail, unrelated ones are neutral; their words are those of the other two classes."""
    half = len(up) // 2
    found = [_row(ENTAILS, twin, at) for at, twin in enumerate(up[:half])]
    found += [_row(CONTRADICTS, twin, at) for at, twin in enumerate(contrary)]
    offered = [twin.substitute for twin in (*up[:half], *contrary)]
    stream.shuffle(offered)
    for at, (twin, substitute) in enumerate(zip(up[half:], offered)):
        links = _links(twin.synset, wordnet)
        near = {*links.up, *links.contrary, *wordnet.related(twin.synset.id)}
        other = texts.substitute(twin.text, twin.word, substitute)
        if other is not None and not any(substitute in wordnet[i].words for i in near):
            found.append(_row(NEUTRAL, twin, at, other))
    return found
