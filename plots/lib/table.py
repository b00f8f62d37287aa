"""A table as named numpy columns: just enough selection and grouping for figures, without pandas."""
import numpy as np


class Table:
    """Columns of equal length. Text columns are numpy objects of str, numbers int64 or float64. A selection copies a column when it is
    first asked for: a figure selects often, and looks at few of the eighty columns of a cell."""

    def __init__(self, columns, indices=None):
        """`indices`: the rows of these columns that it has, in its order; all without."""
        self._whole, self._indices = dict(columns), indices
        self._columns = {} if indices is not None else self._whole

    def __len__(self):
        if self._indices is not None:
            return len(self._indices)
        return len(next(iter(self._whole.values()))) if self._whole else 0

    def __getitem__(self, name):
        if name not in self._columns:
            self._columns[name] = self._whole[name][self._indices]
        return self._columns[name]

    def __contains__(self, name):
        return name in self._whole

    @property
    def columns(self):
        """Their names."""
        return list(self._whole)

    def with_column(self, name, values, dtype=object):
        """A copy with one column more (or replaced); `values` has one entry per row."""
        column = np.empty(len(self), dtype=dtype)
        column[:] = values
        return Table({**{other: self[other] for other in self._whole}, name: column})

    def where(self, mask=None, **equal):
        """Rows where `mask` holds and each named column equals the value (or is in the tuple, list or set)."""
        keep = np.ones(len(self), dtype=bool) if mask is None else np.asarray(mask, dtype=bool).copy()
        for name, wanted in equal.items():
            column = self[name]
            if isinstance(wanted, (tuple, list, set, frozenset)):
                keep &= np.array([value in wanted for value in column], dtype=bool)
            else:
                keep &= column == wanted
        return self.take(np.flatnonzero(keep))

    def take(self, indices):
        indices = np.asarray(indices, dtype=int)
        return Table(self._whole, indices if self._indices is None else self._indices[indices])

    def distinct(self, name):
        """Values of a column in order of first appearance."""
        return list(dict.fromkeys(self[name])) if len(self) else []

    def groups(self, *names):
        """Pairs (key, sub-table), keys in order of first appearance."""
        members = {}
        for i, key in enumerate(zip(*(self[name] for name in names))):
            members.setdefault(key, []).append(i)
        return [(key, self.take(rows)) for key, rows in members.items()]

    def rows(self, *names):
        """Rows as dictionaries, of these columns or of all."""
        names = names or self.columns
        return [dict(zip(names, values)) for values in zip(*(self[name] for name in names))]

    def median(self, name):
        """Median of the finite values of a column; NaN when there is none."""
        values = np.sort(finite(self[name]))  # np.median takes several times as long for the few values that there are
        return float((values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2) if len(values) else float("nan")


def finite(values):
    """The finite entries as float64."""
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values)]
