"""WordNet 3.0 as Debian's wordnet-base has it: synsets, their words, glosses and pointers, senses of words (wndb(5WN), wninput(5WN))."""
import functools
import os
import re

from experiments.text_tasks.sources import texts
from plots.lib.errors import CorruptData, EnvironmentFailure

FOLDER = "/usr/share/wordnet"
PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}  # in the order of ids
MARKER = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand
QUOTED = re.compile(r'"([^"]*)"')
HYPERNYMS = ("@", "@i")


class Synset:
    """One meaning. `id`: part of speech and offset; `words`: lower case, spaces for underscores; `pointers`: (symbol, id of the target)."""

    def __init__(self, identifier, lexfile, written, pointers, gloss):
        self.id, self.part, self.lexfile = identifier, identifier[0], lexfile
        self.words = [word.lower() for word in written]
        self.pointers, self.gloss = pointers, gloss
        self.definition = texts.tidy(gloss.partition('"')[0])
        self.examples = [text for text in map(texts.stripped, QUOTED.findall(gloss)) if texts.is_allowed(text)]
        self.bad = texts.is_bad(gloss.lower())
        self.proper = any(letter.isupper() for letter in written[0])
        self.good = not self.bad and not self.proper and texts.is_allowed(self.definition)

    def targets(self, *symbols):
        """Ids that pointers of these symbols lead to, in the order of the file."""
        return [target for symbol, target in self.pointers if symbol in symbols]

    @property
    def hypernyms(self):
        return self.targets(*HYPERNYMS)

    @property
    def hyponyms(self):
        return self.targets("~")


class WordNet:
    """All synsets by id, in the order n, v, a, r and then of offsets; senses and counts of every word."""

    def __init__(self, folder=FOLDER):
        self.synsets, self._senses, self._counts = {}, {}, {}
        for part, name in PARTS.items():
            found = [_synset(part, line, f"{folder}/data.{name}") for line in _lines(folder, f"data.{name}")]
            self.synsets.update((synset.id, synset) for synset in sorted(found, key=lambda synset: synset.id))
            for line in _lines(folder, f"index.{name}"):
                fields = line.split()
                senses = int(fields[2])
                word = (fields[0].replace("_", " "), part)
                self._senses[word] = [part + offset for offset in fields[-senses:]]
                self._counts[word] = int(fields[-senses - 1])
        self._children = {}
        for synset in self:
            for parent in synset.hypernyms:
                self._children.setdefault(parent, []).append(synset.id)

    def __iter__(self):
        return iter(self.synsets.values())

    def __getitem__(self, identifier):
        return self.synsets[identifier]

    def senses(self, word, part):
        """Synsets of a word, most frequent first."""
        return [self.synsets[i] for i in self._senses.get((word, part), ())]

    def parts(self, word):
        """Letters of the parts of speech that a word has senses of."""
        return {part for part in PARTS if (word, part) in self._senses}

    def is_common(self, word, part):
        """Whether the word was met in the texts that WordNet's authors tagged."""
        return self._counts.get((word, part), 0) >= 1

    def common_words(self, synset):
        """The single common ones of its words."""
        return [word for word in synset.words if texts.is_single(word) and self.is_common(word, synset.part)]

    def children(self, identifier):
        """Ids of the synsets below this one, in their order."""
        return self._children.get(identifier, [])

    @functools.lru_cache(maxsize=None)
    def ancestors(self, identifier):
        """Ids of the chain of first hypernyms, nearest first."""
        chain = []
        above = self.synsets[identifier].hypernyms
        while above and above[0] not in chain:
            chain.append(above[0])
            above = self.synsets[above[0]].hypernyms
        return tuple(chain)

    @functools.lru_cache(maxsize=None)
    def related(self, identifier):
        """Ids near a synset, sorted: children of its hypernyms, hyponyms, similar and opposite ones, and those similar to its similar ones."""
        synset = self.synsets[identifier]
        near = set(synset.hyponyms) | set(synset.targets("&", "!"))
        for parent in synset.hypernyms:
            near.update(self.children(parent))
        for similar in synset.targets("&"):
            near.update(self.synsets[similar].targets("&"))
        near.discard(identifier)
        return tuple(sorted(near))


def _lines(folder, name):
    """The lines of a file but those of the licence at its head, which are indented."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            return [line for line in file if not line.startswith(" ")]
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"{path} is missing; install the package wordnet-base (scripts/setup.sh --study does)") from error


def _synset(part, line, path):
    """offset lexfile type w_cnt (word lex_id)* p_cnt (symbol offset part source/target)* [frames] | gloss"""
    try:
        data, _, gloss = line.partition("| ")
        fields = data.split()
        end = 4 + 2 * int(fields[3], 16)
        written = [MARKER.sub("", word).replace("_", " ") for word in fields[4:end:2]]
        rest = fields[end + 1 : end + 1 + 4 * int(fields[end])]
        pointers = [(rest[i], rest[i + 2].replace("s", "a") + rest[i + 1]) for i in range(0, len(rest), 4)]
        return Synset(part + fields[0], int(fields[1]), written, pointers, gloss.strip())
    except (IndexError, ValueError) as error:
        raise CorruptData(f"{path} has a line that is no synset ({error}): {line[:60]!r}") from error
