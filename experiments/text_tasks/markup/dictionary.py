"""dictd's text files: indented paragraphs without references, numbers and the names of authors.

What GCIDE took from WordNet is left out: the tasks are made from it. The mark that says so stands below the last paragraph of a sense, often one of synonyms, and speaks for those above it, back to the mark before or to the headword."""
import re

MARK = re.compile(r"^\s*\[.*\]\s*$")
OF_WORDNET = re.compile(r"^\s*\[[^\]]*WordNet[^\]]*\]\s*$", re.MULTILINE)
NUMBER = re.compile(r"^(?:[0-9]+\. |\([a-z]\) )+")
AUTHOR = re.compile(r" --[A-Z][\w. ']*$")
BRACES = str.maketrans("", "", "{}")


def text_of(text):
    blocks, unmarked = [], []
    for block in re.split(r"\n[ \t]*\n", text):
        if block[:1].strip():  # a headword: what came before is of another entry
            blocks += unmarked
            unmarked = []
        unmarked.append(block)
        if OF_WORDNET.search(block):
            unmarked = []
        elif MARK.match(block.rstrip().rpartition("\n")[2]):
            blocks += unmarked
            unmarked = []
    return "\n\n".join(_plain(block) for block in blocks + unmarked)


def _plain(block):
    line = " ".join(line.strip() for line in block.split("\n") if not MARK.match(line)).translate(BRACES)
    return AUTHOR.sub("", NUMBER.sub("", line))
