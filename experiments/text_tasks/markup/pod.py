"""Perl's plain old documentation (perlpod): ordinary paragraphs without formatting codes."""
import re

NAMED = {"gt": ">", "lt": "<", "verbar": "|", "sol": "/"}
ESCAPE = re.compile(r"E<(\w+)>")
LINK = re.compile(r"L<(?:([^|<>]*)\|)?([^<>]*)>")
WIDE = re.compile(r"\b[A-Z](<<+) (.*?) (>>+)", re.DOTALL)
CODE = re.compile(r"\b[XZ]<[^<>]*>|\b[BCFIS]<([^<>]*)>")


def text_of(page):
    kept, left_out = [], None
    for block in re.split(r"\n[ \t]*\n", page):
        block = block.strip("\n")
        if block.startswith("=begin"):
            left_out = block.split()[1:2]
        elif block.startswith("=end"):
            left_out = None
        elif left_out is None and block and block[0] not in "= \t":
            kept.append(_plain(block))
    return "\n\n".join(kept)


def _plain(block):
    block = WIDE.sub(r"\2", block)
    before = None
    while before != block:  # from the inside out
        before = block
        block = ESCAPE.sub(lambda match: NAMED.get(match[1], "").replace("<", "\0").replace(">", "\1"), block)
        block = LINK.sub(lambda match: match[1] or match[2], block)
        block = CODE.sub(lambda match: match[1] or "", block)
    return block.replace("\0", "<").replace("\1", ">")
