# labels: unit
# timeout: 300
"""TeraPipe's figures, and what of the papers' numbers is drawn beside modelled ones."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import ROOT, draw
from complete import OnCompleteData
import matplotlib.pyplot as plt

from plots.lib import published


class Published(OnCompleteData):
    def test_recollected_numbers_are_drawn_on_request_only(self):
        kinds = lambda name: {r["kind"] for r in draw(name, self.claims).rows}
        names = ("tensor_parallel_weak", "terapipe_steps", "terapipe_lengths")
        before = [kinds(name) for name in names]
        folder = os.path.join(ROOT, "results", "published")
        try:
            self.claims.published = published.load(folder)
            self.assertFalse(any("recollected" in kinds(name) for name in names))
            self.claims.published = published.load(folder, recollected=True)
            self.assertTrue(all("recollected" in kinds(name) for name in names))
        finally:
            self.claims.published = []
        self.assertEqual(before, [kinds(name) for name in names])
        plt.close("all")


if __name__ == "__main__":
    unittest.main()
