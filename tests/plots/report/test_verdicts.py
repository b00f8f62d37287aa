# labels: unit
# timeout: 300
"""Verdicts: what pays, what never does, what is not judged."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import make_collected as made
from make_collected import load
import numpy as np

from plots.report import verdicts


class Verdicts(unittest.TestCase):
    def rows(self):
        speedups = {"A1": (1.2, 1.4, 0.9), "T1": (1.04, 1.0, 1.2), "Q3": (0.5, 1.01, 1.05), "none": (1, 1, 1)}
        errors = {"A1": 0.5, "T1": 0.9, "Q3": 0.01, "none": 0}
        for method, values in speedups.items():
            for i, value in enumerate(values):
                yield made.row(
                    program="bench_activation",
                    traffic="tp_forward",
                    method=method,
                    codec={"A": "autoencoder", "T": "topk", "Q": "quantize", "n": "none"}[method[0]],
                    protocol="gather",
                    link="netns:1gbit",
                    link_gbps=0.95,
                    tp=4,
                    ranks=4,
                    batch=8 * (i + 1),
                    seq=128,
                    speedup=value,
                    relative_l2=errors[method],
                )

    def test_pays_by_the_median_and_never_by_the_maximum(self):
        rows = list(self.rows())
        (verdict,) = verdicts.verdicts(load(rows))
        self.assertEqual((verdict.methods, verdict.cells), (3, 9))
        self.assertEqual(verdict.pays, ["A1"])
        self.assertEqual(verdict.never, ["Q3"])
        self.assertEqual(verdict.best, ("A1", 1.2, 1.4, 0.5))
        self.assertEqual(verdict.low_error, ("Q3", 1.01, 1.05, 0.01))

    def test_mistrusted_rows_are_counted_but_never_judged(self):
        rows = list(self.rows())
        for row in rows:
            if row["method"] == "A1":
                row.update(status="MISTRUSTED", reason="off by 20 %")
        collected = load(rows)
        (verdict,) = verdicts.verdicts(collected)
        self.assertEqual(verdict.pays, [])
        ((_, _, _, total, counts),) = verdicts.link_counts(collected)
        self.assertEqual((total, counts["MISTRUSTED"]), (12, 3))
        self.assertEqual(verdicts.reasons(collected), [("MISTRUSTED", "off by 20 %", 3, ["netns:1gbit"])])

    def test_rows_without_a_speedup_give_no_verdict(self):
        rows = list(self.rows())
        for row in rows:
            row["speedup"] = np.nan
        self.assertEqual(verdicts.verdicts(load(rows)), [])


if __name__ == "__main__":
    unittest.main()
