"""Writes a task of full rows in the form of train_gpt's task `pol`, for the peer of fine-tuning: FOLDER/pol/{train,dev}.tsv and FOLDER/vocab.txt of so many pieces.

    make_rows.py FOLDER --seq N --vocab N
"""
import argparse
import os
import random

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROWS = {"train": 512, "dev": 32}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--vocab", type=int, required=True)
    a = parser.parse_args()
    draw = random.Random(1)
    words = [f"w{i}" for i in range(a.vocab - len(SPECIAL))]
    os.makedirs(os.path.join(a.folder, "pol"), exist_ok=True)
    with open(os.path.join(a.folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join([*SPECIAL, *words]) + "\n")
    for name, rows in ROWS.items():
        with open(os.path.join(a.folder, "pol", name + ".tsv"), "w", encoding="utf-8") as file:
            file.write("label\tsentence\n")
            for _ in range(rows):
                file.write(f"{draw.randrange(2)}\t{' '.join(draw.choices(words, k=a.seq - 2))}\n")  # [CLS] in front, [SEP] behind


if __name__ == "__main__":
    main()
