#!/usr/bin/env python3
"""Writes a small task in the layout of GLUE's archive, which a few steps learn, and the vocabulary of its words for make_hugging_face.py's checkpoint.

One word of the second text decides the label. Rows are drawn by a fixed seed; no number of rows is a multiple of a batch of 16.

    make_small_glue.py FOLDER        FOLDER/{RTE,MNLI,STS-B}/*.tsv, FOLDER/vocab.txt
"""
import os
import random
import sys

# What decides, by class.
DECIDING = [["good", "warm", "red"], ["bad", "cold", "blue"], ["big", "not", "sits"]]
WORDS = ["the", "a", "cat", "dog", "fox", "hen", "runs", "is", "."] + [word for words in DECIDING for word in words]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write(path, header, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for row in [header, *rows]:
            file.write("\t".join(row) + "\n")


def example(draw, classes):
    kind = draw.randrange(classes)
    return kind, f"{draw.choice(['the', 'a'])} {draw.choice(['cat', 'dog'])}", f"{draw.choice(['fox', 'hen'])} is {draw.choice(DECIDING[kind])}"


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("".join(piece + "\n" for piece in SPECIAL + WORDS))
    draw = random.Random(5)
    for name, rows in (("train", 75), ("dev", 37)):
        examples = [example(draw, 2) for _ in range(rows)]
        labels = ["entailment", "not_entailment"]
        write(f"{folder}/RTE/{name}.tsv", ["index", "sentence1", "sentence2", "label"], [[str(i), a, b, labels[kind]] for i, (kind, a, b) in enumerate(examples)])
    for name, rows in (("train", 75), ("dev_matched", 21), ("dev_mismatched", 34)):
        examples = [example(draw, 3) for _ in range(rows)]
        labels = ["contradiction", "entailment", "neutral"]
        write(f"{folder}/MNLI/{name}.tsv", ["index", "sentence1", "sentence2", "gold_label"], [[str(i), a, b, labels[kind]] for i, (kind, a, b) in enumerate(examples)])
    for name, rows in (("train", 75), ("dev", 21)):
        examples = [example(draw, 3) for _ in range(rows)]
        write(f"{folder}/STS-B/{name}.tsv", ["index", "sentence1", "sentence2", "score"], [[str(i), a, b, str(2.5 * kind)] for i, (kind, a, b) in enumerate(examples)])


if __name__ == "__main__":
    main()
