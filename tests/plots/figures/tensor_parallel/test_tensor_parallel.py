# labels: unit
# timeout: 300
"""Figures of tensor parallelism, from cells and from claims."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import SEED, close, draw
from complete import OnCompleteData
import make_claims
import make_collected as made
from make_collected import load
import numpy as np


class CompleteRun(OnCompleteData):
    def test_grids_are_drawn_once_with_their_front(self):
        rows = self.csv("tensor_parallel_error")
        self.assertEqual(len(rows), 5 * 3 * 3)  # grids on 4 and 8 ranks, codecs, results
        for p in ("4", "8"):
            own = [(int(r["received_bytes"]), float(r["relative_l2"]), r["on_front"]) for r in rows if r["ranks"] == p and r["what"] == "output"]
            for count, error, front in own:
                beaten = any(b <= count and e <= error and (b, e) != (count, error) for b, e, _ in own)
                self.assertEqual(front, str(int(not beaten)))
        cells = list(made.grid_rows(np.random.default_rng(SEED), codecs=("none", "topk:fraction=0.1")))
        drawing = draw("tensor_parallel_error", load(cells))
        self.assertIn("the codec keeps state", " ".join(drawing.gaps))
        self.assertEqual({r["scheme"] for r in drawing.rows if r["codec"] != "none"}, {"1-D"})
        close(drawing)

    def test_grids_stand_in_no_figure_of_single_operations(self):
        self.assertFalse(np.any(self.collected.cells["program"] == "bench_tensor_parallel"))
        self.assertEqual(len(self.collected.grid_cells), 5 * 3 * 4)

    def test_numbers_of_tensor_parallelism_are_those_of_the_claims(self):
        both = self.csv("tensor_parallel_weak", row="3-D, 64 GPUs", kind="published")
        self.assertEqual([(r["what"], float(r["seconds"])) for r in both], [("average", 0.7), ("(f+b)/batch", 0.5)])
        self.assertIn("prints 0.700 s per sequence, its forward and backward times give 0.500 s", self.drawings["tensor_parallel_weak"].seen[0])
        self.assertEqual({r["scheme"] for r in self.csv("tensor_parallel_weak", what="tree")}, {"2-D"})  # others broadcast nothing
        # 10 + 250 / b = 33 at b = 250 / 23: between its points a curve is A + B / b.
        crossing = self.csv("tensor_parallel_bytes", panel="crossing with 1-D", method="2d 8x8")
        self.assertAlmostEqual(float(crossing[0]["batch"]), 250 / 23)
        counted = self.csv("tensor_parallel_bytes", kind="measured")
        self.assertEqual([(r["scheme"], r["batch"]) for r in counted], [("1-D", "30.0"), ("2-D", "384.0")] + 3 * [("3-D", "384.0")])
        self.assertAlmostEqual(float(counted[1]["million_elements"]), 10 + 250 / 384)
        at_384 = self.csv("tensor_parallel_at_64", what="seconds", scheme="2-D", batch="384", kind="modelled")
        self.assertEqual([r["quantity"] for r in at_384], ["pipelined", "tree"])  # in the table twice
        steps = self.csv("tensor_parallel_links")
        count = lambda **equal: len([r for r in steps if all(r[k] == v for k, v in equal.items())])
        self.assertEqual([count(panel=p) for p in ("model", "tesseract", "best", "eight")], [28, 6, 18, 12])
        self.assertEqual(count(kind="modelled"), 14)  # M1's alone
        self.assertEqual({r["value"] for r in steps if r["panel"] == "eight" and r["link_gbps"] == "10.0" and "twice" in r["quantity"]}, {"1.2"})
        stored = self.csv("tensor_parallel_cube", kind="measured")
        self.assertEqual([(r["quantity"], float(r["value"])) for r in stored if r["quantity"].endswith("q = 4")], [("stored over 1/q^3, q = 4", 1.0), ("most - least, q = 4", 0.0)])
        self.assertEqual(len(self.csv("tensor_parallel_cube", quantity="first element of bias")), 9)


class MissingData(unittest.TestCase):
    def test_timed_grids_that_were_not_judged_leave_their_panel_empty(self):
        some = [c for c in make_claims.timed_grids(np.random.default_rng(SEED)) if c["id"] != "tensor_parallel.M1"]
        drawing = draw("tensor_parallel_links", make_claims.load(some))
        self.assertEqual({r["panel"] for r in drawing.rows}, {"tesseract", "best", "eight"})
        self.assertIn("tensor_parallel.M1", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
