"""Rows of a GPU (bench_device, train_gpt, the PyTorch peers): what the two figures of devices share."""
import numpy as np

from plots.lib import data, words

NO_GPU = "SKIPPED: this run has no measurements of a GPU"


def rows(collected, traffic):
    """Device rows of one kind that were timed on a GPU."""
    cells = collected.device_cells.where(traffic=traffic, status="OK")
    return cells.where(np.array([data.on_gpu(r) for r in cells.rows()], dtype=bool))


def why_skipped(collected):
    """Why there are no rows of a GPU, in words."""
    cells = collected.device_cells
    if not len(cells):
        return f"{NO_GPU} (the collected file holds no row of bench_device; docs/device.md says how to run it)"
    emulated = [r for r in cells.rows() if r["device"].startswith("emulated")]
    if emulated:
        return f"{NO_GPU} ({words.count(len(emulated), 'row')} of an emulated device, whose times say nothing about one)"
    return f"{NO_GPU} ({data.why_none(cells, 'codecs on a device')})"


def name(cells):
    return words.listing(cells.distinct("device"))


def label(row):
    """A peer's own name, else the codec's."""
    return row["method"] if data.is_peer(row) else data.compact(row["codec"])


def labels(cells):
    """(label, family, is a peer) of a table: ours in the order of every figure, each followed by its peers."""
    found = {(label(r), data.family_of(r["codec"]), data.is_peer(r)) for r in cells.rows()}
    return sorted(found, key=lambda f: (data.method_order("", f[1]), f[2], data.method_order(f[0], f[1])))
