"""A table as named numpy columns: just enough selection and grouping for figures, without pandas."""
import numpy as np


class Table:
    """Columns of equal length. Text columns are numpy objects of str, numbers int64 or float64."""

    def __init__(self, columns):
        self.columns = dict(columns)

    def __len__(self):
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name):
        return self.columns[name]

    def __contains__(self, name):
        return name in self.columns

    def with_column(self, name, values, dtype=object):
        """A copy with one column more (or replaced); `values` has one entry per row."""
        column = np.empty(len(self), dtype=dtype)
        column[:] = values
        return Table({**self.columns, name: column})

    def where(self, mask=None, **equal):
        """Rows where `mask` holds and each named column equals the value (or is in the tuple, list or set)."""
        keep = np.ones(len(self), dtype=bool) if mask is None else np.asarray(mask, dtype=bool).copy()
        for name, wanted in equal.items():
            column = self.columns[name]
            if isinstance(wanted, (tuple, list, set, frozenset)):
                keep &= np.array([value in wanted for value in column], dtype=bool)
            else:
                keep &= np.array([value == wanted for value in column], dtype=bool)
        return self.take(np.flatnonzero(keep))

    def take(self, indices):
        return Table({name: values[indices] for name, values in self.columns.items()})

    def distinct(self, name):
        """Values of a column in order of first appearance."""
        return list(dict.fromkeys(self.columns[name])) if len(self) else []

    def groups(self, *names):
        """Pairs (key, sub-table), keys in order of first appearance."""
        members = {}
        for i, key in enumerate(zip(*(self.columns[name] for name in names))):
            members.setdefault(key, []).append(i)
        return [(key, self.take(np.array(rows))) for key, rows in members.items()]

    def rows(self):
        """Rows as dictionaries."""
        names = list(self.columns)
        return [dict(zip(names, values)) for values in zip(*(self.columns[name] for name in names))]

    def median(self, name):
        """Median of the finite values of a column; NaN when there is none."""
        values = finite(self.columns[name])
        return float(np.median(values)) if len(values) else float("nan")


def finite(values):
    """The finite entries as float64."""
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values)]
