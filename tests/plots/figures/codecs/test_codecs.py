# labels: unit
# timeout: 300
"""Figures of codecs alone: what the CSV says is what is drawn."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw, offsets
from complete import OnCompleteData
import make_collected as made
from make_collected import load
import numpy as np


class CompleteRun(OnCompleteData):
    def test_dots_of_codecs_are_those_of_the_csv(self):
        rows = self.csv("codec_throughput")
        left, right = self.drawings["codec_throughput"].figure.axes
        self.assertEqual(sorted(x for x, _ in offsets(left)), sorted(f"{float(r['gbps']):.9g}" for r in rows))
        self.assertEqual(
            sorted(x for x, _ in offsets(right)), sorted(f"{float(r['bound_fraction']):.9g}" for r in rows)
        )
        self.assertEqual({r["tensor"] for r in rows}, {"generated 32 MiB"}, "the largest tensor is drawn")

    def test_curves_of_spectra_are_those_of_the_csv(self):
        rows = self.csv("spectra")
        drawn = np.concatenate([line.get_ydata() for line in self.drawings["spectra"].figure.axes[0].lines])
        wanted = [
            float(r["value"])
            for r in rows
            if r["kind"] == "weight_gradient" and r["what"] in ("curve", "median")
        ]
        np.testing.assert_allclose(np.sort(drawn), np.sort(wanted))


class ClosedForms(unittest.TestCase):
    def test_rho90_of_flat_and_of_single_spectra(self):
        spectra = [
            dict(tensor="flat", step=1, kind="activation", centred=0, index=i, singular_value=1.0)
            for i in range(10)
        ]
        spectra += [
            dict(
                tensor="one",
                step=1,
                kind="weight_gradient",
                centred=0,
                index=i,
                singular_value=1.0 if i == 0 else 0.0,
            )
            for i in range(10)
        ]
        drawing = draw("spectra", load([made.row(traffic="codec")], spectra=spectra))
        rho = {r["tensor"]: r["value"] for r in drawing.rows if r["what"] == "rho90"}
        close(drawing)
        self.assertEqual(rho, {"flat": 0.9, "one": 0.1})


if __name__ == "__main__":
    unittest.main()
