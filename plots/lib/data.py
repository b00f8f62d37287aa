"""Loads collected.h5 (docs/results-schema.md) and is the one place where figures get derived columns from.

Nothing is recomputed that the benches already define (ratio, speedup, break_even_gbps are read, never guessed):
derived columns only name things (family, layout, shape, kind) so that all figures group them alike."""
import hashlib
import re
from dataclasses import dataclass, field

import h5py
import numpy as np

from plots.lib.errors import CorruptData, from_os_error
from plots.lib.schema import COLUMNS, LATER, SCHEMA_VERSION
from plots.lib.table import Table

# A speed-up counts as paying only past this margin; within it the figures speak of "no clear difference".
PAYS = 1.05
# Largest relative L2 error of a result that the tables call "low error". No statement about training.
LOW_ERROR = 0.1

STATUSES = ("OK", "MISTRUSTED", "SKIPPED", "FAILED", "TIMEOUT", "WRONG")
FAMILY_ORDER = ("none", "cast", "autoencoder", "topk", "randomk", "quantize", "powersgd")
STUDY_METHODS = ("none", "A1", "A2", "T1", "T2", "T3", "T4", "R1", "R2", "R3", "R4", "Q1", "Q2", "Q3")

# The program whose cells are whole training runs. Their rows count traffic of a step, not of one operation: they would
# be wrong in figures of the benches, which therefore never see them.
TRAINER = "train_gpt"
# Its rows are of a whole layer on a process grid, all collectives together, for the same reason kept apart.
GRIDS = "bench_tensor_parallel"
# Its rows are of a GPU, as are those of the PyTorch peers: beside measurements of a host they would be read as such.
DEVICES = "bench_device"
_EMPTY = {"text": object, "integer": np.int64, "float": np.float64}


@dataclass
class Collected:
    """What one collected.h5 holds. Tables that the file lacks are empty and named in `absent`. `cells` are those of the
    benches of one operation, `grid_cells` of layers on process grids, `device_cells` of codecs and kernels on a GPU and of the peers there,
    `training_cells` of the trainer, `all_cells` all."""

    path: str
    sha256: str
    attributes: dict
    all_cells: Table
    cells: Table
    training_cells: Table
    grid_cells: Table
    device_cells: Table
    spectra: Table
    magnitudes: Table
    training: Table
    links: Table
    training_curve: Table
    training_time: Table
    training_traffic: Table
    timeline: Table
    provenance: Table
    samples: int = 0
    training_attributes: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)  # what `cells` leaves out
    absent: set = field(default_factory=set)


def load(path):
    """Reads collected.h5. Throws EnvironmentFailure when it cannot be read, CorruptData when it is damaged, is not
    ours, or has another schema version; the message says how to mend."""
    try:
        with open(path, "rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise from_os_error(
            error, "cannot read the collected results; give --collected the file that `sweep collect` wrote"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            return _load(file, path, digest.hexdigest())
    except OSError as error:
        raise CorruptData(
            f"{path} is no readable HDF5 file ({_first_line(error)}): it is truncated or damaged; "
            "run `sweep collect` again, the cells beside it are untouched"
        ) from error


def _load(file, path, sha256):
    attributes = {name: _plain(value) for name, value in file.attrs.items()}
    version = attributes.get("schema_version")
    if version is None:
        raise CorruptData(f"{path} has no attribute schema_version: it was not written by `sweep collect`")
    if version != SCHEMA_VERSION:
        raise CorruptData(
            f"{path} has schema version {version}, these figures read version {SCHEMA_VERSION}: "
            "collect again with the thinwire that these figures belong to"
        )
    if "cells" not in file:
        raise CorruptData(f"{path} has no table /cells: it was not written by `sweep collect`")
    tables, absent = {}, set()
    for name, columns in COLUMNS.items():
        if name in file:
            tables[name] = _read_table(file, name, columns, path)
        else:
            absent.add(name)
            tables[name] = Table({c: np.empty(0, dtype=_EMPTY[kind]) for c, kind in {**columns, **LATER.get(name, {})}.items()})
    training_attributes = dict(attributes)
    for name in (
        "training_curve",
        "training",
    ):  # the capture's own run last: its figure shows these first of all
        if name in file:
            training_attributes.update({key: _plain(value) for key, value in file[name].attrs.items()})
    all_cells = _derive(tables["cells"])
    on_device = np.array([r["program"] == DEVICES or is_peer(r) for r in all_cells.rows("program")], dtype=bool)
    samples = len(file["samples"]) if "samples" in file else 0
    cells, notes = _of_one_type(all_cells.where((all_cells["program"] != TRAINER) & (all_cells["program"] != GRIDS) & ~on_device))
    return Collected(
        path=path,
        sha256=sha256,
        attributes=attributes,
        all_cells=all_cells,
        cells=cells,
        training_cells=all_cells.where(program=TRAINER),
        grid_cells=all_cells.where(program=GRIDS),
        device_cells=all_cells.where(on_device),
        spectra=tables["spectra"],
        magnitudes=tables["magnitudes"],
        training=tables["training"],
        links=tables["links"],
        training_curve=tables["training_curve"],
        training_time=tables["training_time"],
        training_traffic=tables["training_traffic"],
        timeline=tables["timeline"],
        provenance=tables["provenance"],
        samples=samples,
        training_attributes=training_attributes,
        notes=notes,
        absent=absent,
    )


def _read_table(file, name, columns, path):
    dataset = file[name]
    names = getattr(dataset, "dtype", None) is not None and dataset.dtype.names
    if not names:
        raise CorruptData(f"{path}: /{name} is not a table (compound dataset); see docs/results-schema.md")
    missing = [column for column in columns if column not in names]
    if missing:
        raise CorruptData(
            f"{path}: table /{name} lacks the column(s) {', '.join(missing)}; see docs/results-schema.md"
        )
    records = dataset[:]
    result = {}
    for column in names:  # further columns (repro, launch, ...) are kept for tables
        values = records[column]
        kind = columns.get(column) or (
            "text" if values.dtype.kind in "SO" else "float" if values.dtype.kind == "f" else "integer"
        )
        if kind == "text" and values.dtype.kind in "SOU":
            result[column] = np.array([_plain(v) for v in values] + [None], dtype=object)[:-1]
        elif kind != "text" and values.dtype.kind in "iuf":
            result[column] = values.astype(_EMPTY[kind])
        else:
            raise CorruptData(
                f"{path}: column {column} of /{name} is {values.dtype}, expected {kind}; see"
                " docs/results-schema.md"
            )
    for column, kind in LATER.get(name, {}).items():
        if column not in result:
            result[column] = np.full(len(records), {"text": "", "float": np.nan}[kind], dtype=_EMPTY[kind])
    return Table(result)


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value


def _first_line(error):
    return str(error).splitlines()[0] if str(error) else type(error).__name__


# ---- derived columns: names only, one definition each -------------------------------------------------------------


def is_peer(row):
    """Whether another library measured the row (bench/peers)."""
    return row["program"].startswith("pytorch")


def on_gpu(row):
    """Whether the row's times are those of a GPU: not of the host, and not of a device that the host emulates."""
    return bool(row["device"]) and not row["device"].startswith("emulated")


def family_of(codec):
    """Codec name without keys and wrappers: `topk:fraction=0.01+ef` -> `topk`."""
    return re.split(r"[:+]", codec, maxsplit=1)[0] or "none"


def compact(codec):
    """A legend's name of a codec expression: `powersgd:rank=4+ef` -> `powersgd 4 +ef`; long fractions are rounded."""
    head, *wrappers = codec.split("+")
    name, _, keys = head.partition(":")
    values = [key.partition("=")[2] or key for key in keys.split(",") if key]
    values = [f"{float(v):.4g}" if re.fullmatch(r"0\.\d{6,}", v) else v for v in values]
    return " ".join([name or "none", *values, *(f"+{w.split(':')[0]}" for w in wrappers)])


def label_of(method, codec):
    """The study's short name where the row has one (A1, T3, none), else the compact codec expression."""
    if not codec or (method and method not in (codec, family_of(codec))):
        return method
    return compact(codec)


def classes_present(cells, usual, further):
    """The classes that a figure shows: the usual ones always (with a reason where empty), further ones where they have rows."""
    here = set(cells["traffic"])
    return tuple(usual) + tuple(traffic for traffic in further if traffic in here)


def link_kind(link, compute):
    """`measured`, `emulated` or `modelled`: figures must draw them differently."""
    if compute in ("modelled", "modeled", "model") or link.startswith("model"):
        return "modelled"
    return "emulated" if link.startswith("emulated:") else "measured"


def group_size(row):
    """Ranks that take part in one operation of the row's traffic class."""
    traffic = row["traffic"]
    if traffic.startswith("tp_"):
        return int(row["tp"])
    if traffic.startswith("pp_"):
        return 2
    return int(row["dp"] if row["dp"] > 1 else row["ranks"])


def scheme_of(row):
    """How an embedding gradient is synchronised, `fused` or `two-step`, from the operation's name (else from method,
    protocol or tensor); empty for other traffic."""
    if row["traffic"] != "embedding":
        return ""
    for name in ("operation", "method", "protocol", "tensor"):
        text = row[name].lower().replace("-", "_").replace(" ", "_")
        if "fused" in text:
            return "fused"
        if "two_step" in text or "twostep" in text:
            return "two-step"
    return row["operation"].replace("_", " ") or "unnamed"


_DERIVED_FROM = ("traffic", "operation", "method", "codec", "protocol", "tensor", "link", "compute", "ranks", "tp", "pp", "dp", "batch", "seq")


def _derive(cells):
    cells = _spread_over_classes(cells)
    # A codec alone crosses no link, wherever its bench ran.
    cells = cells.with_column(
        "link", ["" if traffic == "codec" else link for traffic, link in zip(cells["traffic"], cells["link"])]
    )
    rows = cells.rows(*_DERIVED_FROM)
    cells = cells.with_column("family", [family_of(r["codec"] or r["method"]) for r in rows])
    labels = [label_of(r["method"], r["codec"]) for r in rows]
    # Two codecs must never share a name in a figure: fall back to the full expression.
    codecs_of = {}
    for label, row in zip(labels, rows):
        if label == compact(row["codec"]):
            codecs_of.setdefault(label, set()).add(row["codec"])
    labels = [r["codec"] if len(codecs_of.get(label, ())) > 1 else label for label, r in zip(labels, rows)]
    cells = cells.with_column("label", labels)
    cells = cells.with_column("scheme", [scheme_of(r) for r in rows])
    cells = cells.with_column("layout", [f"({r['tp']},{r['pp']})" for r in rows])
    cells = cells.with_column("shape", [f"{r['batch']}×{r['seq']}" for r in rows])
    cells = cells.with_column("group", [group_size(r) for r in rows], np.int64)
    return cells.with_column("kind", [link_kind(r["link"], r["compute"]) for r in rows])


# Benches whose codecs stand against an uncompressed transfer of some type: one in f32 takes twice as long as one in f16.
EXCHANGES = ("bench_activation", "bench_gradient", "bench_embedding")


def _of_one_type(cells):
    """(cells, notes): of each of EXCHANGES only the cells of the type on the wire that most of them have. A median over two types is the speed-up of neither."""
    keep, notes = np.ones(len(cells), dtype=bool), []
    for program in EXCHANGES:
        own = cells["program"] == program
        types = [t for t in dict.fromkeys(cells["dtype"][own]) if t]
        if len(types) < 2:
            continue
        drawn = max(types, key=lambda t: int(np.sum(own & (cells["dtype"] == t))))
        others = own & (cells["dtype"] != drawn) & (cells["dtype"] != "")
        keep &= ~others
        notes.append(f"{int(np.sum(others))} rows of {program} with {' and '.join(t for t in types if t != drawn)} on the wire are in no figure; drawn are those with {drawn}.")
    return cells.where(keep), notes


def _spread_over_classes(cells):
    """A cell that ended before it had a row per traffic class (FAILED, SKIPPED, ...) has one row without a class.
    It stands for every class that its layout would have measured, so that no figure overlooks it."""
    classes_of = {
        "bench_gradient": ["dp_gradient"],
        "bench_embedding": ["embedding"],
        "bench_codec": ["codec"],
        DEVICES: ["codec"],
        TRAINER: [""],  # all classes at once
    }
    pick, classes = [], []
    for i, row in enumerate(cells.rows("traffic", "status", "program", "tp", "pp")):
        wanted = [row["traffic"]]
        if not row["traffic"] and row["status"] != "OK":
            wanted = (
                classes_of.get(row["program"])
                or (["tp_forward"] * int(row["tp"] > 1) + ["pp_forward"] * int(row["pp"] > 1))
                or [""]
            )
        pick += [i] * len(wanted)
        classes += wanted
    return cells.take(np.array(pick, dtype=int)).with_column("traffic", classes)


def method_order(label, family):
    """Sort key: the study's methods first and in its order, then codec families, then by name (numbers by value)."""
    parts = [float(p) if re.fullmatch(r"\d+(\.\d+)?", p) else 0.0 for p in re.split(r"([\d.]+)", label)]
    study = STUDY_METHODS.index(label) if label in STUDY_METHODS else len(STUDY_METHODS)
    rank = FAMILY_ORDER.index(family) if family in FAMILY_ORDER else len(FAMILY_ORDER)
    return (
        study,
        rank,
        family if rank == len(FAMILY_ORDER) else "",
        re.sub(r"[\d.]+", "#", label),
        parts,
        label,
    )


def methods(cells):
    """Pairs (label, family) of a table, in the order of every figure."""
    return sorted(set(zip(cells["label"], cells["family"])), key=lambda pair: method_order(*pair))


def links(cells):
    """Links of a table from the slowest to the fastest; unrated ones (shared memory) last."""
    names = [link for link in cells.distinct("link") if link]
    return sorted(
        names, key=lambda link: (rate_of(cells, link) if np.isfinite(rate_of(cells, link)) else np.inf, link)
    )


def rate_of(cells, link):
    """Median measured rate of a link in Gbit/s; without a measured one, the nominal rate in its name; else NaN."""
    measured = cells.where(link=link).median("link_gbps")
    return measured if np.isfinite(measured) and measured > 0 else nominal_gbps(link)


def nominal_gbps(link):
    """`netns:100mbit` -> 0.1; NaN when the name holds no rate."""
    match = re.search(r":([\d.]+)(k|m|g)bit", link)
    return float(match[1]) * {"k": 1e-6, "m": 1e-3, "g": 1.0}[match[2]] if match else float("nan")


def timed(cells):
    """Rows that carry a trustworthy timing verdict: status OK and a speed-up (NaN where compute was oversubscribed)."""
    return cells.where(positive(cells["speedup"]), status="OK")


def positive(values):
    """Mask of the finite values above zero: what a logarithmic axis can show."""
    return np.isfinite(values) & (values > 0)


def vnmse(cells):
    """The column; where a file is from before it, the square of relative_l2 that it is by definition."""
    return np.where(np.isfinite(cells["vnmse"]), cells["vnmse"], np.square(cells["relative_l2"]))


def message_ratio(cells):
    """`ratio` of codecs alone; where a file is from before bench_codec wrote it, dense over payload bytes, which it is by definition."""
    sent = np.where(cells["payload_bytes"] > 0, cells["payload_bytes"], np.nan)
    return np.where(np.isfinite(cells["ratio"]), cells["ratio"], cells["dense_bytes"] / sent)


def delivered(cells):
    """Rows whose bytes and error are valid. A MISTRUSTED link spoils times, not bytes or numerics."""
    return cells.where(status=("OK", "MISTRUSTED"))


def why_none(cells, what):
    """One sentence that explains why a selection has nothing to draw, from the statuses and reasons of its rows."""
    if not len(cells):
        return f"no data because the collected file holds no row for {what}."
    parts = []
    for (status,), rows in cells.groups("status"):
        reasons = [reason for reason in rows.distinct("reason") if reason]
        because = f" ({shorten(reasons[0])}{'; and others' if len(reasons) > 1 else ''})" if reasons else ""
        parts.append(f"{len(rows)} {status}{because}")
    if all(status in ("OK", "MISTRUSTED") for status in cells.distinct("status")):
        return f"no data because the rows for {what} carry no such value: {'; '.join(parts)}."
    return f"no data because every row for {what} ended without a result: {'; '.join(parts)}."


def shorten(text, limit=110):
    text = " ".join(str(text).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
