"""sim: how near are the meanings of two definitions, from 0 to 5? Five times the similarity of Wu and Palmer in WordNet's tree. (STS-B)"""
from experiments.text_tasks.lib.split import is_dev
from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources.mutual import fits
from experiments.text_tasks.sources.tree import NounTree

SAME = 5  # whole points of a meaning and itself
TRIES_TRAIN, TRIES_DEV = 20, 200


@Task(columns=("score", "sentence1", "sentence2"), like="STS-B", metric="Pearson, Spearman correlation", train=5500, dev=1500)
def rows(sources, stream):
    wordnet, tree = sources.wordnet, NounTree(sources.wordnet)
    usable = [synset for synset in wordnet if _is_usable(synset, wordnet)]
    ids = {synset.id for synset in usable}
    stream.shuffle(usable)
    for synset in usable:
        wanted = stream.below(SAME + 1)
        if wanted == SAME:
            if synset.id in sources.mutual:
                yield Row(synset.id, f"{SAME}.0", (synset.definition, sources.mutual[synset.id].text))
            continue
        around = [synset.id, *wordnet.ancestors(synset.id)]
        for _ in range(TRIES_DEV if is_dev(synset.id) else TRIES_TRAIN):
            other = tree.below(stream.pick(around), stream)
            if other == synset.id or other not in ids or is_dev(other) != is_dev(synset.id):
                continue
            tenths = tree.tenths(synset.id, other)
            if tenths // 10 == wanted:
                yield Row(synset.id, f"{tenths // 10}.{tenths % 10}", (synset.definition, wordnet[other].definition))
                break


def _is_usable(synset, wordnet):
    return synset.part == "n" and synset.good and bool(wordnet.common_words(synset)) and fits(synset.definition)
