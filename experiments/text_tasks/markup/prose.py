"""Which paragraphs of a manual or dictionary are prose, and how they are written down (docs/papers/text_tasks.md, "The corpus")."""
import re

from experiments.text_tasks.sources.texts import STOP

SHORTEST = 40  # characters
FEWEST = 8  # words
PLAIN = 0.97  # share of ASCII
LETTERS = 0.88  # share of letters and spaces
FUNCTION = 0.20  # share of function words
LAST = tuple(".!?:;\"')")
QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " ", "\u2013": "-", "\u2014": "-", "\u2026": "..."})
BLANK = re.compile(r"\n[ \t]*\n\s*")
WORD = re.compile(r"[A-Za-z']+")


def paragraphs(text):
    """The paragraphs of a plain text that are prose, each as one line of ASCII."""
    return (line for line in lines(text) if is_prose(line))


def lines(text):
    """The paragraphs of a plain text as lines of ASCII; not those with too many other characters."""
    for block in BLANK.split(text.translate(QUOTES)):
        line = " ".join(block.split())
        plain = " ".join(line.encode("ascii", "ignore").decode().split())
        if plain and len(plain) >= PLAIN * len(line):
            yield plain


def is_prose(line):
    words = WORD.findall(line.lower())
    if len(line) < SHORTEST or len(words) < FEWEST or not line.endswith(LAST):
        return False
    letters = sum(letter.isalpha() or letter == " " for letter in line)
    return letters >= LETTERS * len(line) and sum(word in STOP for word in words) >= FUNCTION * len(words)
