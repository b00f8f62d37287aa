# labels: unit
# timeout: 120
"""The figure of sketches draws every setting's curve, and says where each passes one half."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_claims as made
from make_claims import load


class SketchRecovery(unittest.TestCase):
    def test_a_curve_per_setting_and_its_half(self):
        drawing = draw("sketch_recovery", load([made.sketch()]))
        panel = drawing.figure.axes[0]
        curves = [line for line in panel.lines if len(line.get_xdata()) > 2]
        self.assertEqual(len(curves), 6)
        self.assertEqual(len(drawing.rows), 6 * 41)
        for curve in curves:
            self.assertEqual(sorted(curve.get_ydata(), reverse=True), list(curve.get_ydata()))
        self.assertEqual(drawing.seen[0].count("0.80"), 6)
        close(drawing)

    def test_without_the_claim_it_says_what_is_missing(self):
        drawing = draw("sketch_recovery", load([]))
        self.assertEqual(drawing.rows, [])
        self.assertIn("gradient_compression.C1", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
