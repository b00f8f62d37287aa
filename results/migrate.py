#!/usr/bin/python3
"""Brings a collected file of schema version 1 to version 2: columns, traffic classes, flags and cell ids by the names of today (docs/renamed.md).

    results/migrate.py OLD.h5 NEW.h5 [--claims OLD_CLAIMS.json NEW_CLAIMS.json]

No number changes. A cell's id is the SHA-256 of its parameters, so it changes where a parameter has another name: the old id is
computed from the recorded command first and must be the one in the file, else nothing is written. OLD and NEW may be one file.
Exit status: 0 done; 2 usage; 3 a file that is missing, or cannot be read or written; 6 a file that cannot be converted, or a full disk.
"""
import argparse
import errno
import hashlib
import json
import os
import re
import shlex
import sys

import h5py
import numpy as np

FROM, TO = 1, 2
FLAGS = {"wire": "comm-dtype", "bucket-mib": "bucket-cap-mb", "floor": "min-lr", "shard-optimizer": "zero-stage"}
# Sharded data parallelism and the matrices of tensor grids shared two classes.
CLASSES = {"weight_gather": "param_all_gather", "gradient_scatter": "grad_reduce_scatter"}
GRID_CLASSES = {"weight_gather": "tp_weight", "gradient_scatter": "tp_weight_gradient"}


class Refused(Exception):
    """What cannot be converted, and why."""


def column(name):
    return re.sub(r"^twin", "baseline", name)


def value_text(text):
    """The canonical spelling of a parameter's value, as results/cell.cpp has it."""
    if text in ("true", "false") or re.fullmatch(r"-?\d+", text):
        return text if text in ("true", "false") else str(int(text))
    try:
        number = float(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    if not np.isfinite(number) or not re.fullmatch(r"-?[0-9.eE+-]+", text):
        return json.dumps(text, ensure_ascii=False)
    return str(int(number)) if number == int(number) and abs(number) <= 2**53 else repr(number)


def cell_id(program, ranks, link, parameters):
    """The SHA-256 of a cell's canonical JSON (results/cell.cpp)."""
    inside = ",".join(json.dumps(k, ensure_ascii=False) + ":" + value_text(v) for k, v in sorted(parameters.items()))
    text = (
        '{"link":' + json.dumps(link, ensure_ascii=False) + ',"parameters":{' + inside + '},"program":'
        + json.dumps(program, ensure_ascii=False) + ',"ranks":' + str(ranks) + "}"
    )
    return hashlib.sha256(text.encode()).hexdigest()


def split_command(command, program):
    """(words up to the program, [(flag, value)]) of a recorded command."""
    words = shlex.split(command)
    if program not in words:
        raise Refused(f"the command of a {program} cell does not name it: {command}")
    at = words.index(program) + 1
    flags, rest = [], words[at:]
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Refused(f"`{word}` is no flag in: {command}")
        name, equals, value = word[2:].partition("=")
        flags.append((name, value if equals else rest.pop(0)))
    return words[:at], flags


def renamed_flag(name, value, classes):
    head, dot, tail = name.partition(".")
    if head == "compress" and dot:
        traffic, dot, part = tail.partition(".")
        return f"compress.{classes.get(traffic, traffic)}{dot}{part}", value
    if name == "shard-optimizer":
        return FLAGS[name], {"true": "1", "false": "0"}[value]
    if name == "omit":
        value = ",".join(classes.get(word, word) for word in value.split(","))
    return FLAGS.get(name, name), value


def classes_of(program, flags):
    grid = dict(flags).get("tensor-parallel", "1d") != "1d"
    return GRID_CLASSES if program in ("bench_tensor_parallel", "check_tensor_parallel") or grid else CLASSES


def quoted(words):
    return " ".join(shlex.quote(word) for word in words)


class Migration:
    def __init__(self):
        self.ids, self.classes = {}, {}

    def learn(self, cells):
        """New ids and traffic classes of all cells; the new commands, in the order of the rows."""
        commands = []
        for row in cells:
            program, link, ranks = row["program"].decode(), row["link"].decode(), int(row["ranks"])
            old, command = row["cell_id"].decode(), row["repro"].decode()
            head, flags = split_command(command, program)
            given = {name: value for name, value in flags if name != "link"}
            if cell_id(program, ranks, link, given) != old:
                raise Refused(f"cell {old} is not what its command says: {command}")
            classes = classes_of(program, flags)
            new_flags = [renamed_flag(name, value, classes) for name, value in flags]
            parameters = {name: value for name, value in new_flags if name != "link"}
            self.ids[old] = cell_id(program, ranks, link, parameters)
            self.classes[old] = classes
            commands.append(quoted(head + [word for name, value in new_flags for word in ("--" + name, value)]))
        return commands

    def text(self, name, cell, value):
        if name == "cell_id":
            return self.ids.get(value, value)
        if name == "traffic":
            return self.classes.get(cell, CLASSES).get(value, value)
        return value

    def table(self, rows, commands):
        """The rows under the names of today; text columns as wide as what they hold."""
        columns = {}
        cells = [c.decode() for c in rows["cell_id"]] if "cell_id" in rows.dtype.names else [""] * len(rows)
        for name in rows.dtype.names:
            values = rows[name]
            if values.dtype.kind == "S":
                texts = commands if name == "repro" and commands else [self.text(name, c, v.decode()) for c, v in zip(cells, values)]
                values = np.array([t.encode() for t in texts], dtype=values.dtype if not len(values) else None)
                if values.dtype.itemsize == 0:
                    values = values.astype("S1")
            columns[column(name)] = values
        out = np.zeros(len(rows), dtype=[(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            out[name] = values
        return out


def text_kind(dataset):
    """(padding, character set) of a table's text columns; readers convert between no two of them."""
    table = dataset.id.get_type()
    for i in range(table.get_nmembers()):
        member = table.get_member_type(i)
        if isinstance(member, h5py.h5t.TypeStringID):
            return member.get_strpad(), member.get_cset()
    return None


def file_type(dtype, kind):
    """The HDF5 type of a table whose text columns are of this kind."""
    table = h5py.h5t.create(h5py.h5t.COMPOUND, dtype.itemsize)
    for name in dtype.names:
        column_type, offset = dtype.fields[name][:2]
        if column_type.kind == "S":
            member = h5py.h5t.C_S1.copy()
            member.set_size(column_type.itemsize)
            member.set_strpad(kind[0]), member.set_cset(kind[1])
        else:
            member = h5py.h5t.py_create(column_type)
        table.insert(name.encode(), offset, member)
    return table


def migrate(old, new):
    """Writes `new` from `old`; returns the map of cell ids."""
    migration, tables = Migration(), {}
    try:
        with h5py.File(old, "r") as file:
            version = int(file.attrs.get("schema_version", 0))
            if version != FROM:
                raise Refused(f"{old} has schema version {version}; this converts version {FROM} to {TO}")
            attributes = dict(file.attrs)
            commands = migration.learn(file["cells"][:])
            for name, dataset in file.items():
                tables[name] = (
                    migration.table(dataset[:], commands if name == "cells" else None),
                    {"chunks": dataset.chunks, "compression": dataset.compression, "compression_opts": dataset.compression_opts, "shuffle": dataset.shuffle},
                    dict(dataset.attrs),
                    text_kind(dataset),
                )
    except OSError as error:  # of the HDF5 library, whose text is about its inside: main() has opened the file before
        raise Refused(f"{old} is damaged or no HDF5 file") from error
    temporary = new + ".tmp"
    with h5py.File(temporary, "w") as file:
        for key, value in attributes.items():
            file.attrs[key] = TO if key == "schema_version" else value
        file.attrs["migrated_from_schema"] = FROM
        for name, (rows, kept, attrs, kind) in tables.items():
            made = file.create_dataset(name, shape=rows.shape, dtype=file_type(rows.dtype, kind), **(kept if kept["chunks"] else {}))
            if len(rows):
                made.id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(rows), made.id.get_type())
            made.attrs.update(attrs)
    os.replace(temporary, new)
    return migration.ids


def migrate_claims(old, new, ids):
    """Cell ids inside a claims.json."""
    with open(old, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"\b[0-9a-f]{64}\b", lambda m: ids.get(m.group(0), m.group(0)), text)
    for before, after in (("--wire ", "--comm-dtype "), ("--bucket-mib ", "--bucket-cap-mb ")):
        text = text.replace(before, after)
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old"), parser.add_argument("new")
    parser.add_argument("--claims", nargs=2, metavar=("OLD", "NEW"))
    options = parser.parse_args()
    try:
        for path in [options.old] + (options.claims or [])[:1]:  # before anything is written
            with open(path, "rb"):
                pass
        ids = migrate(options.old, options.new)
        if options.claims:
            migrate_claims(*options.claims, ids)
    except Refused as error:
        print(f"migrate.py: {error}", file=sys.stderr)
        return 6
    except OSError as error:
        # Errors of the HDF5 library name no file; what it still opens here is NEW.
        print(f"migrate.py: {os.strerror(error.errno) if error.errno else error}: {error.filename or options.new}", file=sys.stderr)
        return 6 if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else 3
    print(f"{options.new}: {len(ids)} cell ids, {sum(a != b for a, b in ids.items())} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
