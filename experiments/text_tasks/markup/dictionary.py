"""dictd's text files: indented paragraphs without references, numbers and the names of authors.

Paragraphs that GCIDE took from WordNet (the mark below them says so) are left out: the tasks are made from it."""
import re

MARK = re.compile(r"^\s*\[.*\]\s*$")
OF_WORDNET = re.compile(r"^\s*\[[^\]]*WordNet[^\]]*\]\s*$", re.MULTILINE)
NUMBER = re.compile(r"^(?:[0-9]+\. |\([a-z]\) )+")
AUTHOR = re.compile(r" --[A-Z][\w. ']*$")
BRACES = str.maketrans("", "", "{}")


def text_of(text):
    blocks = []
    for block in re.split(r"\n[ \t]*\n", text):
        if OF_WORDNET.search(block):
            continue
        line = " ".join(line.strip() for line in block.split("\n") if not MARK.match(line)).translate(BRACES)
        blocks.append(AUTHOR.sub("", NUMBER.sub("", line)))
    return "\n\n".join(blocks)
