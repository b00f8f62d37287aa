"""pol: does this text speak well or ill? Polarity spreads from a few words along WordNet's links. (SST-2)"""
from experiments.text_tasks.lib.task import Row, Task
from experiments.text_tasks.sources import texts

GOOD = (
    "good nice excellent positive fortunate correct superior happy beautiful pleasant kind honest brave generous wise useful healthy successful lovely"
    " delightful admirable joyful cheerful clean safe friendly brilliant wonderful pure virtuous love joy success beauty benefit pleasure happiness"
    " kindness courage praise admire enjoy improve help succeed delight honor please well happily"
).split()
ILL = (
    "bad nasty poor negative unfortunate wrong inferior sad ugly unpleasant cruel dishonest cowardly greedy foolish useless sick unsuccessful hateful"
    " disgusting contemptible miserable gloomy dirty dangerous hostile stupid terrible corrupt wicked hate pain failure ugliness harm misery sadness"
    " cruelty fear blame despise suffer worsen hurt fail disgust insult annoy badly sadly"
).split()
FULL = 1000  # value of a seed
LEAST = 20  # value from which on a synset counts
ROUNDS = 6
BOTH_WAYS = frozenset("&^+=\\<*")
OF_FEELING = (7, 12, 26)  # lexfiles of nouns whose hypernyms pass value on: attribute, feeling, state
SHORTEST, LONGEST = 3, 30  # tokens


@Task(columns=("label", "sentence"), like="SST-2", metric="accuracy", train=8122, dev=2000)
def rows(sources, stream):
    values = _spread(sources.wordnet)
    seen, good, ill = set(), [], []
    for synset in sources.wordnet:
        value = values[synset.id]
        if not synset.good or abs(value) < LEAST:
            continue
        key = synset.id if synset.part != "a" else min([synset.id, *synset.targets("&")])
        for text in [synset.definition, *synset.examples]:
            if text not in seen and SHORTEST <= texts.length(text) <= LONGEST:
                seen.add(text)
                (good if value > 0 else ill).append(Row(key, "1" if value > 0 else "0", (text,)))
    stream.shuffle(good)
    stream.shuffle(ill)
    fewest = min(len(good), len(ill))
    return good[:fewest] + ill[:fewest]


def _spread(wordnet):
    """Value of every synset, in integers, so that it is the same on every machine."""
    fixed = {}
    for words, value in ((GOOD, FULL), (ILL, -FULL)):
        for word in words:
            for part in "nvar":
                fixed.update((synset.id, value) for synset in wordnet.senses(word, part)[:1])
    edges = _edges(wordnet)
    values = {synset.id: fixed.get(synset.id, 0) for synset in wordnet}
    for _ in range(ROUNDS):
        values = {i: fixed[i] if i in fixed else _mean(edges[i], values) for i in values}
    return values


def _mean(edges, values):
    """Sum over edges, drawn towards zero by one more, rounded towards zero."""
    total = sum(weight * values[other] for other, weight in edges)
    count = len(edges) + 1
    return total // count if total >= 0 else -(-total // count)


def _edges(wordnet):
    """id -> [(id, weight)]: whose values a synset takes over."""
    edges = {synset.id: [] for synset in wordnet}
    for synset in wordnet:
        upwards = synset.part == "v" or (synset.part == "n" and synset.lexfile in OF_FEELING)
        for symbol, target in synset.pointers:
            if symbol in BOTH_WAYS:
                edges[synset.id].append((target, 1))
                edges[target].append((synset.id, 1))
            elif symbol == "!":
                edges[synset.id].append((target, -1))
            elif symbol == "@" and upwards:
                edges[synset.id].append((target, 1))
    return edges
