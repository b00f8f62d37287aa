"""qst: does this definition answer "what is ...?", or is it that of a neighbour? (QNLI)"""
import re

from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts

PLAIN = re.compile(r"[a-z]+( [a-z]+)*")
SHORTEST, LONGEST = 4, 30  # tokens
ASKED = {"n": "what is {} ?", "v": "what is to {} ?"}
ANSWERS, OTHER = "0", "1"


@Task(columns=("label", "question", "sentence"), like="QNLI", metric="accuracy", train=20854, dev=4000)
def rows(sources, stream):
    groups = {}
    for synset in sources.wordnet:
        word = _word(synset, sources.wordnet)
        if word and synset.hypernyms:
            groups.setdefault(synset.hypernyms[0], []).append((synset, word))
    for parent, group in sorted(groups.items()):
        stream.shuffle(group)
        for one, other in zip(group[::2], group[1::2]):
            if not set(one[0].words).isdisjoint(other[0].words):
                continue
            own = stream.below(2)
            for (asked, word), (neighbour, _) in ((one, other), (other, one)):
                definition = asked.definition if own else neighbour.definition
                yield Row(parent, ANSWERS if own else OTHER, (ASKED[asked.part].format(word), definition))


def _word(synset, wordnet):
    """The word that is asked for: the first plain and known one whose first sense the synset is."""
    if synset.part not in ASKED or not synset.good or not SHORTEST <= texts.length(synset.definition) <= LONGEST:
        return None
    for word in synset.words:
        known = " " in word or wordnet.is_common(word, synset.part)
        if PLAIN.fullmatch(word) and known and wordnet.senses(word, synset.part)[0] is synset:
            return word
    return None
