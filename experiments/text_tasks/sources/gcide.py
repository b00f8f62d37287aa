"""Definitions of the GNU Collaborative International Dictionary of English, as Debian's dict-gcide has it: those of Webster 1913, by word and part of speech.

What GCIDE took from WordNet is left out: it is the other side of the pairs that are made with it."""
import gzip
import re
import zlib

from experiments.text_tasks.sources import texts
from plots.lib.errors import CorruptData, EnvironmentFailure

FILE = "/usr/share/dictd/gcide.dict.dz"
# Abacus \Ab"a*cus\, n.; pl. ...
ENTRY = re.compile(
    r"^([A-Za-z][A-Za-z -]*) \\[^\\]*\\(?: \([^)]*\))?,? *(n|a|adv|v|v\. t|v\. i|v\. t\. & i|v\. i\. & t|p\. a)\.(?:[^a-z]|$)"
)
PARTS = {"n": "n", "a": "a", "p. a": "a", "adv": "r"}  # the rest are verbs
OF_WEBSTER = ("[1913 Webster]", "[Webster 1913 Suppl.]")
NO_DEFINITION = ("Syn:", "Note:", "--", "{")
REMARK = re.compile(r' --|as,|"|as in|Cf\.|See |[Cc]alled also|e\. g\.|i\. e\.|[Oo]pposed to')
BRACKETS = re.compile(r"\[[^\]]*\]")
BRACES = str.maketrans("", "", "{}")
NUMBER = re.compile(r"^ *[0-9]+\. ")
NEXT_SENTENCE = re.compile(r"\. (?=[a-z])")
SHORTEST, LONGEST = 3, 30  # tokens
LAST = frozenset("esp etc fr l usually also hence specifically the a of in or and to especially see as by gr pl cf vol i t".split())


class Gcide:
    """Definitions by word and part of speech. `entries`, `count`: how many were read."""

    def __init__(self, path=FILE):
        self._definitions = {}
        self.entries = self.count = 0
        for key, paragraphs in _entries(path):
            self.entries += 1
            kept = [text for text in map(_definition, paragraphs) if text and _is_kept(text)]
            self.count += len(kept)
            self._definitions.setdefault(key, []).extend(kept)

    def definitions(self, word, part):
        """In the order of the file."""
        return self._definitions.get((word, part), [])

    def all(self):
        """(word, definition) of all, in the order of the words' first entries."""
        return ((word, text) for (word, _), texts_of_word in self._definitions.items() for text in texts_of_word)


def _entries(path):
    """((word, part of speech), paragraphs as lists of lines) of every entry."""
    key, paragraphs = None, [[]]
    for line in _lines(path):
        if line and not line.startswith(" "):
            if key:
                yield key, [lines for lines in paragraphs if lines]
            match = ENTRY.match(line)
            key, paragraphs = match and (match[1].lower(), PARTS.get(match[2], "v")), [[]]
        elif line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    if key:
        yield key, [lines for lines in paragraphs if lines]


def _definition(lines):
    """The definition in a paragraph of Webster's, freed of marks and remarks; None in another paragraph."""
    if not re.match(r" {3}\S", lines[0]) or lines[-1].strip() not in OF_WEBSTER or lines[0].lstrip().startswith(NO_DEFINITION):
        return None
    text = " ".join(line.strip() for line in lines[:-1])
    etymology, closing, rest = text.partition("]")
    if closing and "[" not in etymology:  # it began in the line of the entry
        text = rest
    text = NUMBER.sub("", text)
    text = texts.INNERMOST.sub(" ", BRACKETS.sub(" ", text)).translate(BRACES)
    text = texts.tidy(REMARK.split(text)[0])
    return NEXT_SENTENCE.split(text)[0].strip(" ;:,.")


def _is_kept(text):
    words = texts.tokens(text)
    fits = SHORTEST <= len(words) <= LONGEST and words[-1] not in LAST
    return fits and texts.is_allowed(text) and "?" not in text and not texts.is_bad(text)


def _lines(path):
    """The lines of the compressed file (dictzip is gzip), without their ends."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:  # a few bytes are of another code
            return file.read().split("\n")
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"{path} is missing; install the package dict-gcide (scripts/setup.sh --study does)") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptData(f"{path} is damaged ({error}); reinstall the package dict-gcide") from error
