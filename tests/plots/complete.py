"""Complete made-up data for every source that a figure may read, and what tests of drawings of such data share."""
import functools
import os
import unittest

from support import FIGURES, SEED, close, read_csv, scratch_folder
import make_claims
import make_collected
import make_device
import make_race

from plots.lib import claims, data, drawing, race
from plots.lib.figure import Source


@functools.lru_cache(None)
def source(reads):
    """What a figure that reads this is given; made once per test program."""
    if reads is Source.CLAIMS:
        return claims.load(make_claims.write(scratch_folder(), make_claims.everything(SEED)))
    if reads is Source.RACE:
        return race.load(make_race.write(scratch_folder()))
    if reads is Source.DEVICE:
        return make_collected.load(list(make_device.gpu_cells()))
    if reads is Source.TRAINING_RUNS:  # the same file
        return source(Source.BENCHES)
    path = os.path.join(scratch_folder(), "collected.h5")
    make_collected.everything(path, seed=SEED)
    return data.load(path)


class Drawings(dict):
    """Figures of complete data, each made when it is first asked for. Nothing lays them out or renders them, which takes most of the time and
    changes no number: test_every_figure.py does so with these very figures."""

    def __missing__(self, name):
        self[name] = FIGURES[name].draw(source(FIGURES[name].reads))
        return self[name]


class OnCompleteData(unittest.TestCase):
    """Base of tests that look at such drawings."""

    @classmethod
    def setUpClass(cls):
        cls.drawings = Drawings()

    @classmethod
    def tearDownClass(cls):
        for drawn in cls.drawings.values():
            close(drawn)

    @property
    def collected(self):
        return source(Source.BENCHES)

    @property
    def claims(self):
        return source(Source.CLAIMS)

    def csv(self, name, **equal):
        """Rows of a figure as its CSV holds them, those whose columns are `equal`."""
        rows = read_csv(drawing.to_csv(self.drawings[name], "0" * 64))[1]
        return [row for row in rows if all(row[column] == value for column, value in equal.items())]
