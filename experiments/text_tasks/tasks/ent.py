"""ent: does it follow from a word's definition that it is a kind of this? (RTE)"""
from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts
from experiments.text_tasks.sources.mutual import fits

NEAREST = 4  # ancestors that a hypernym is taken from
FEWEST = 20  # nouns of a lexicographer's file
ENTAILS, NOT = "0", "1"


@Task(columns=("label", "premise", "hypothesis"), like="RTE", metric="accuracy", train=2500, dev=1500)
def rows(sources, stream):
    wordnet, files = sources.wordnet, {}
    for synset in wordnet:
        word = _word(synset, wordnet)
        hypernym = word and _hypernym(synset, word, wordnet, stream)
        if hypernym:
            files.setdefault(synset.lexfile, []).append((synset, word, hypernym))
    for _, nouns in sorted(files.items()):
        if len(nouns) < FEWEST:
            continue
        stream.shuffle(nouns)
        half = len(nouns) // 2
        left = list(range(half))
        stream.shuffle(left)
        false = []
        for synset, word, _ in nouns[half:]:
            own = _own_words(synset, word, wordnet)
            at = next((at for at in left if nouns[at][2] not in own), None)
            if at is not None:
                left.remove(at)
                false.append(_row(synset, word, nouns[at][2], NOT))
        unused = set(left)
        yield from (_row(*noun, ENTAILS) for at, noun in enumerate(nouns[:half]) if at not in unused)
        yield from false


def _row(synset, word, hypernym, label):
    return Row(synset.id, label, (f"{word} : {synset.definition}", f"{word} is a kind of {hypernym}"))


def _word(synset, wordnet):
    """The first single common word of a noun that may be asked."""
    if synset.part != "n" or not synset.good or not fits(synset.definition):
        return None
    return next(iter(wordnet.common_words(synset)), None)


def _hypernym(synset, word, wordnet, stream):
    """The name of a near ancestor; for half of the nouns one that the definition does not give away."""
    hidden = stream.below(2)
    avoided = texts.stems(word) | (texts.stems(synset.definition) if hidden else set())
    found = []
    for ancestor in wordnet.ancestors(synset.id)[:NEAREST]:
        name = wordnet[ancestor].words[0]
        if wordnet[ancestor].good and len(wordnet.ancestors(ancestor)) >= NEAREST and texts.is_single(name) and texts.stems(name).isdisjoint(avoided):
            found.append(name)
    return stream.pick(found) if found else None


def _own_words(synset, word, wordnet):
    """Words that are true of a noun, or might be: of its ancestors and of any sense of its word."""
    near = [*wordnet.ancestors(synset.id), *(sense.id for sense in wordnet.senses(word, "n"))]
    return {name for identifier in near for name in wordnet[identifier].words}
