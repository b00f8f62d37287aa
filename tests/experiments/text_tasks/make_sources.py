"""Sources for tests that need no package: WordNet's and GCIDE's files, from a short list of synsets or as a made-up language of a few hundred."""
import gzip
import os
import random
from typing import NamedTuple

PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Words whose polarity pol knows, good and ill in turn: synsets next to each other are opposites.
SEEDS = ("good", "bad", "happy", "sad", "kind", "cruel", "wise", "foolish", "clean", "dirty", "safe", "dangerous", "healthy", "sick", "brave", "cowardly")
LICENCE = "  1 This stands where the licence does.  \n"


class Made(NamedTuple):
    """One synset. `id` as WordNet's reader names it; `pointers`: (symbol, id)."""

    id: str
    words: tuple
    gloss: str
    pointers: tuple = ()
    lexfile: int = 3
    satellite: bool = False  # an adjective whose line says s


def write_wordnet(folder, synsets, uncommon=()):
    """data.* and index.*; every (word, part) counts as met once but those of `uncommon`. Senses come in the order of `synsets`."""
    os.makedirs(folder, exist_ok=True)
    for part, name in PARTS.items():
        own = [synset for synset in synsets if synset.id[0] == part]
        with open(os.path.join(folder, f"data.{name}"), "w", encoding="utf-8") as file:
            file.write(LICENCE + "".join(sorted(map(_data_line, own))))
        senses = {}
        for synset in own:
            for word in synset.words:
                senses.setdefault(word.partition("(")[0].lower(), []).append(synset.id[1:])
        with open(os.path.join(folder, f"index.{name}"), "w", encoding="utf-8") as file:
            file.write(LICENCE)
            for word, offsets in sorted(senses.items()):
                met = 0 if (word, part) in uncommon else 1
                file.write(f"{word} {part} {len(offsets)} 1 @ {len(offsets)} {met} {' '.join(offsets)}  \n")


def _data_line(synset):
    words = " ".join(f"{word} 0" for word in synset.words)
    pointers = "".join(f" {symbol} {target[1:]} {target[0]} 0000" for symbol, target in synset.pointers)
    kind = "s" if synset.satellite else synset.id[0]
    frames = " 01 + 02 00" if kind == "v" else ""
    return f"{synset.id[1:]} {synset.lexfile:02} {kind} {len(synset.words):02x} {words} {len(synset.pointers):03}{pointers}{frames} | {synset.gloss}  \n"


def write_gcide(path, text):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def entry(word, part, *definitions):
    """An entry of GCIDE with one paragraph of Webster's for each definition."""
    paragraphs = "".join(f"   {text}\n   [1913 Webster]\n\n" for text in definitions)
    return f'{word.capitalize()} \\{word.capitalize()}\\, {part}.\n{paragraphs}'


def write_language(folder):
    """A made-up language, the same each time: a tree of nouns, verbs, clusters of adjectives with opposites; (WordNet's folder, GCIDE's file)."""
    draws = random.Random(7)  # of the standard library's documented, stable draws only random() is used
    syllables = [c + v for c in "bdfgklmnprstv" for v in "aeiou"]

    def pick(values):
        return values[int(draws.random() * len(values))]

    taken = set()

    def word():
        while True:
            made = "".join(pick(syllables) for _ in range(3))
            if made not in taken:
                taken.add(made)
                return made

    content = [word() for _ in range(120)]

    def definition():
        return " ".join(("the", pick(content), "of", "a", pick(content), pick(content), "and", pick(content)))

    def example(of):
        return f"the {pick(content)} has a {of} in {pick(content)} for {pick(content)}"

    made, dictionary = [], []

    def add(part, number, pointers, lexfile, satellite=False, extra=()):
        words = [word() for _ in range(3)] + list(extra)
        texts = [definition() for _ in range(2)]
        examples = "".join(f'; "{example(pick(words))}"' for _ in range(2))
        made.append(Made(f"{part}{number:08}", tuple(words), texts[0] + examples, tuple(pointers), lexfile, satellite))
        letter = {"n": "n", "v": "v. t", "a": "a", "r": "adv"}[part]
        dictionary.extend(entry(w, letter, texts[0].replace("the", "any", 1), texts[1]) for w in words)

    for part, count, lexfile in (("n", 700, 5), ("v", 250, 30)):
        for i in range(count):
            parent = [("@", f"{part}{int(draws.random() * min(i, 60)):08}")] if i else []
            children = []
            senses = [made[-1].words[0]] if i % 5 == 4 else []  # a word of several meanings
            add(part, i, parent + children, lexfile, extra=senses)
    for i in range(250):
        head = i - i % 5
        around = [("&", f"a{head:08}")] if i != head else [("&", f"a{j:08}") for j in range(head + 1, head + 5)]
        around += [("!", f"a{(i + 5) % 250:08}")] if i == head and head % 10 == 0 else []
        around += [("!", f"a{i - 5:08}")] if i == head and head % 10 == 5 else []
        seeds = (SEEDS[i // 5],) if i == head and i // 5 < len(SEEDS) else ()
        add("a", i, around, 0, satellite=i != head, extra=seeds)
    for i in range(40):
        add("r", i, [("\\", f"a{i * 5:08}")], 2)
    made = [_with_hyponyms(synset, made) for synset in made]
    wordnet, gcide = os.path.join(folder, "wordnet"), os.path.join(folder, "gcide.dict.dz")
    write_wordnet(wordnet, made)
    write_gcide(gcide, "\n".join(dictionary))
    return wordnet, gcide


def _with_hyponyms(synset, made):
    below = tuple(("~", other.id) for other in made if ("@", synset.id) in other.pointers)
    return synset._replace(pointers=synset.pointers + below)
