#!/usr/bin/python3
"""Writes models/data/text/unicode_tables.cpp from Python's standard library: what a tokenizer asks of characters.

    scripts/make_unicode_tables.py [FILE]

Why not a library of the system: ids of a text must not change with the distribution's version of Unicode, and none that is packaged knows all that
str.lower() of the reference goes by (which characters are cased, which are ignored when a final sigma is looked for)."""
import os
import sys
import unicodedata

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAST = 0x10FFFF
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic
WIDTH = 150

CLASSES = {"Cc": "control", "Cf": "control", "Zs": "space", "Zl": "separator", "Zp": "separator", "Mn": "mark"}
HEAD = """// Made by scripts/make_unicode_tables.py from Unicode {version}; do not edit.
#include "models/data/text/unicode_tables.h"

// clang-format off
namespace thinwire::unicode {{

const char* const version = "{version}";
"""


def characters():
    """All but the surrogates, which no text holds."""
    return (code for code in range(LAST + 1) if not 0xD800 <= code <= 0xDFFF)


def class_of(code):
    category = unicodedata.category(chr(code))
    return "punctuation" if category[0] == "P" else CLASSES.get(category)


def case_of(code):
    """What a character is to the rule of the final sigma (Unicode, 3.13, Final_Sigma), seen from what str.lower() does with one before a sigma."""
    is_final = lambda text: text.lower().endswith("\u03c2")
    if is_final(chr(code) + "\u03a3"):
        return "cased"
    return "ignored" if is_final("A" + chr(code) + "\u03a3") else None


def ranges(value_of):
    """(first, last, value) of neighbours with one value; those of value None or 0 are left out."""
    found = []
    for code in characters():
        value = value_of(code)
        if not value:
            continue
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def lower_runs(mapping):
    """(first, last, step, difference) of characters `step` (1 or 2) apart whose small letters are equally far away."""
    runs = []
    for code, small in mapping:
        if runs:
            first, last, step, difference = runs[-1]
            apart = code - last
            if small - code == difference and (apart == step or (first == last and apart in (1, 2))):
                runs[-1] = [first, code, apart, difference]
                continue
        runs.append([code, code, 1, small - code])
    return runs


def table(kind, name, entries):
    lines, line = [f"\nconst {kind} {name}[] = {{"], ""
    for entry in entries:
        text = "{" + ",".join(f"0x{field:X}" if isinstance(field, int) and field > 9 else str(field) for field in entry) + "},"
        if len(line) + len(text) > WIDTH:
            lines.append(line)
            line = ""
        line += text
    return "\n".join([*lines, line, "};", f"const std::size_t {name}_count = {len(entries)};"])


def content():
    small = [(code, chr(code).lower()) for code in characters() if chr(code).lower() != chr(code)]
    two = [(code, *map(ord, letters)) for code, letters in small if len(letters) != 1]
    if any(len(entry) != 3 for entry in two):
        raise SystemExit("a letter has more than two small ones; widen the table")
    parts = [(code, unicodedata.decomposition(chr(code))) for code in characters() if code not in HANGUL]
    canonical = [(code, [int(part, 16) for part in text.split()]) for code, text in parts if text and text[0] != "<"]
    tables = [
        table("Range", "classes", [(first, last, f"Class::{value}") for first, last, value in ranges(class_of)]),
        table("Range", "cases", [(first, last, f"Class::{value}") for first, last, value in ranges(case_of)]),
        table("CombiningRange", "combining", ranges(lambda code: unicodedata.combining(chr(code)))),
        table("LowerRun", "lower_runs", lower_runs([(code, ord(letters)) for code, letters in small if len(letters) == 1])),
        table("Pair", "lower_pairs", two),
        table("Pair", "decompositions", [(code, found[0], found[1] if len(found) > 1 else 0) for code, found in canonical]),
    ]
    return HEAD.format(version=unicodedata.unidata_version) + "\n".join(tables) + "\n\n}  // namespace thinwire::unicode\n"


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "models", "data", "text", "unicode_tables.cpp")
    with open(path + ".tmp", "w", encoding="ascii") as file:
        file.write(content())
    os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
