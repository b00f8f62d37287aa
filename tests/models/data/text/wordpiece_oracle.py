#!/usr/bin/python3
"""BERT's tokenizer, written from its published algorithm with the standard library's unicodedata and nothing of ours: what test_wordpiece.cpp compares with.

    wordpiece_oracle.py version
    wordpiece_oracle.py CASED|UNCASED VOCAB LONGEST < cases        cases: bytes of a text as hexadecimal digits, a line each

Prints for each case its words, as hexadecimal digits of UTF-8 joined by commas, a space, and its ids joined by commas."""
import sys
import unicodedata

CHINESE = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip


def is_whitespace(char):
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char):
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char):
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def clean(text):
    kept = (char for char in text if ord(char) not in (0, 0xFFFD) and not is_control(char))
    return "".join(" " if is_whitespace(char) else char for char in kept)


def spaced(text):
    return "".join(f" {char} " if any(low <= ord(char) <= high for low, high in CHINESE) else char for char in text)


def split_on_punctuation(token):
    pieces, start_new = [], True
    for char in token:
        if is_punctuation(char):
            pieces.append([char])
            start_new = True
        else:
            if start_new:
                pieces.append([])
            start_new = False
            pieces[-1].append(char)
    return ["".join(piece) for piece in pieces]


def basic(text, uncased):
    found = []
    for token in spaced(clean(text)).split():
        if uncased:
            token = "".join(char for char in unicodedata.normalize("NFD", token.lower()) if unicodedata.category(char) != "Mn")
        found += split_on_punctuation(token)
    return " ".join(found).split()


def wordpiece(token, vocabulary, longest):
    if len(token) > longest:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(token):
        for end in range(len(token), start, -1):
            piece = ("##" if start else "") + token[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def main():
    if sys.argv[1] == "version":
        print(unicodedata.unidata_version)
        return
    uncased, longest = sys.argv[1] == "UNCASED", int(sys.argv[3])
    with open(sys.argv[2], encoding="utf-8", newline="\n") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    for line in sys.stdin:
        tokens = basic(bytes.fromhex(line.strip()).decode("utf-8", "ignore"), uncased)
        ids = [vocabulary[piece] for token in tokens for piece in wordpiece(token, vocabulary, longest)]
        print(",".join(token.encode().hex() for token in tokens), ",".join(map(str, ids)))


if __name__ == "__main__":
    main()
