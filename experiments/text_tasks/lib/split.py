"""Train and dev: rows of one key on one side, no text of dev in train (docs/papers/text_tasks.md, "Rules common to all tasks")."""
from experiments.text_tasks.lib.stream import fnv1a64

PARTS = 5  # one key in so many goes to dev


def is_dev(key):
    return fnv1a64("split:" + key) % PARTS == 0


def split(rows, stream, most_train, most_dev):
    """(train, dev) as lists of (label, text, ...): shuffled, without repeats, cut."""
    train = [row for row in rows if not is_dev(row.key)]
    dev = [row for row in rows if is_dev(row.key)]
    stream.shuffle(train)
    stream.shuffle(dev)
    train = _distinct(train)[:most_train]
    seen = {text for row in train for text in row[1:]}
    dev = [row for row in _distinct(dev) if seen.isdisjoint(row[1:])]
    return train, dev[:most_dev]


def _distinct(rows):
    return list(dict.fromkeys((row.label, *row.texts) for row in rows))
