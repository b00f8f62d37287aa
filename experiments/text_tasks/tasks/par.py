"""par: do two dictionaries define the same thing here? (MRPC)"""
from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts
from experiments.text_tasks.sources.mutual import fits

POSITIVE = 55  # of a hundred pairs
SHARE = 68, 32  # positive and negative rows


@Task(columns=("label", "sentence1", "sentence2"), like="MRPC", metric="F1, accuracy", train=4000, dev=1500)
def rows(sources, stream):
    pairs = list(sources.mutual.values())
    stream.shuffle(pairs)
    used, same, other = set(), [], []
    for pair in pairs:
        definition = pair.synset.definition
        if definition in pair.text or pair.text in definition:
            continue
        if stream.below(100) < POSITIVE:
            if pair.text not in used:
                used.add(pair.text)
                same.append(Row(pair.synset.id, "1", (definition, pair.text)))
            continue
        exact = stream.below(3) > 0
        near = [text for text in _near(pair, sources) if text not in used and (not exact or texts.overlap(definition, text) == pair.shared)]
        if near:
            text = stream.pick(near)
            used.add(text)
            other.append(Row(pair.synset.id, "0", (definition, text)))
    return other + same[: len(other) * SHARE[0] // SHARE[1]]


def _near(pair, sources):
    """Definitions in GCIDE of words that are related to the synset's, and not its own."""
    synset, found = pair.synset, []
    for identifier in sources.wordnet.related(synset.id):
        for word in sources.wordnet[identifier].words:
            if not texts.is_single(word) or word in synset.words:
                continue
            for text in sources.gcide.definitions(word, synset.part):
                if text != pair.text and fits(text) and pair.word not in texts.tokens(text):
                    found.append(text)
    return found
