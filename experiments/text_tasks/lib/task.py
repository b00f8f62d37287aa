"""How a task declares itself: one `@Task(...)` above the function that yields its rows. The file's name is the task's.

    @Task(columns=("label", "sentence"), like="CoLA", metric="Matthews correlation", train=8500, dev=2000)
    def rows(sources, stream):
        ...
        yield Row(key, label, sentence)
"""
import os
from typing import NamedTuple


class Row(NamedTuple):
    """One example. Rows of one `key` go to the same side of the split; `label` and `texts` are what the file shows."""

    key: str
    label: str
    texts: tuple


class Task:
    """`columns`: the header, label first; `like`: the task of GLUE whose shape it has; `train`, `dev`: the most rows that the files hold."""

    def __init__(self, columns, like, metric, train, dev):
        self.columns, self.like, self.metric = columns, like, metric
        self.train, self.dev = train, dev
        self.name = self.about = ""
        self._rows = None

    def __call__(self, rows):
        """As a decorator: takes the function (sources, stream) -> rows, and stands in its place."""
        self.name = os.path.splitext(os.path.basename(rows.__code__.co_filename))[0]
        self.about = (rows.__globals__.get("__doc__") or "").strip().partition("\n")[0]
        self._rows = rows
        return self

    def rows(self, sources, stream):
        return list(self._rows(sources, stream))
