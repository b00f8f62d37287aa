"""Rules that every text of a task follows: what may stand in it, its tokens, what two texts share, a word put in place of another."""
import functools
import re

BAD = re.compile(
    "offensive|disparag|obscen|vulgar|derogat|ethnic|slur|sexual|racis|nigge|negro|whore|prostitut|genital|copulat|excrement|feces|rape|murder|kill|nazi|jew|slang"
)
STOP = frozenset(
    "a an the of and or to in for on with by from at as is are was were be been being it its that this these those which who whom whose what"
    " not no any one ones something someone somebody used having have has had but into out up so such than then there their his her he she they"
    " you your we our i my me him them when where while do does did done can may more most very some other especially usually".split()
)
ALLOWED = re.compile(r"[a-z0-9 ,.'?!;:-]+")
TOKEN = re.compile(r"[a-z]+(?:['-][a-z]+)*|[0-9]+")
SINGLE = re.compile(r"[a-z]{3,}")
INNERMOST = re.compile(r"\([^()]*\)")
PREFIX = 5  # letters that stand for a word's stem


def is_allowed(text):
    return ALLOWED.fullmatch(text) is not None


def is_bad(text):
    """Whether a lower-case text has a word that no task shall show."""
    return BAD.search(text) is not None


def is_single(word):
    """One plain word of at least three letters."""
    return SINGLE.fullmatch(word) is not None


def stripped(text):
    """Lower case, single spaces, no punctuation at the ends."""
    return " ".join(text.lower().split()).strip(" ;:,.")


def tidy(text):
    """As `stripped`, and without innermost parentheses."""
    return stripped(INNERMOST.sub(" ", text))


@functools.lru_cache(maxsize=None)
def tokens(text):
    return tuple(TOKEN.findall(text))


def length(text):
    return len(tokens(text))


@functools.lru_cache(maxsize=None)
def stems(text):
    """The stems of a text's words of content."""
    return frozenset(token[:PREFIX] for token in tokens(text) if token not in STOP)


def overlap(one, other):
    return len(stems(one) & stems(other))


def substitute(text, word, other):
    """The text with `other` in the place of `word`, and a fitting article before it; None unless the word stands there exactly once."""
    pieces = text.split(" ")
    places = [i for i, piece in enumerate(pieces) if piece.strip(",;:.!?") == word]
    if len(places) != 1:
        return None
    at = places[0]
    pieces[at] = pieces[at].replace(word, other)
    if at and pieces[at - 1] in ("a", "an"):
        pieces[at - 1] = "an" if other[0] in "aeiou" else "a"
    return " ".join(pieces)
