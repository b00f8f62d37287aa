# labels: unit
# timeout: 120
"""The figure of TAGC over links draws what the claim's tables hold, and says which arm is fastest where."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_claims as made
from make_claims import load


class TagcLinks(unittest.TestCase):
    def test_lines_are_the_numbers_of_the_tables(self):
        claim = made.tagc()
        drawing = draw("tagc_links", load([claim]))
        arms = [*made.TAGC_ARMS, "gradients omitted"]
        self.assertEqual(len(drawing.rows), 2 * 6 * len(arms))
        for panel, what, table in zip(drawing.figure.axes, ("step", "synchronisation"), claim["tables"]):
            lines = [line for line in panel.lines if len(line.get_xdata()) > 2]
            self.assertEqual(len(lines), len(arms) if what == "step" else len(arms) - 1)
            for line, arm in zip(lines, arms):
                at = 1 + arms.index(arm)
                wanted = [(row["values"][0], row["values"][at]) for row in table["rows"] if row["values"][at] > 0]
                self.assertEqual(list(zip(line.get_xdata(), line.get_ydata())), wanted, arm)
        fsdp = next(line for line in drawing.figure.axes[1].lines)
        self.assertEqual(len(fsdp.get_xdata()), 5, "at 100 Gbit/s FSDP exposes nothing: no point on a logarithmic axis")
        close(drawing)

    def test_says_what_is_fastest_on_each_link(self):
        drawing = draw("tagc_links", load([made.tagc()]))
        said = [sentence for sentence in drawing.seen if sentence.startswith("At ")]
        self.assertEqual(len(said), 6)
        self.assertIn("all layers, c = 4, 1 bit", said[0])  # 150 + 240 + 20 of 150 + 792 ms
        self.assertIn(f"takes {100 * 410 / 942:.0f} %", said[0])
        self.assertIn("MLP, c = 2, 1 bit", said[-1])
        self.assertIn("108 %", said[-1])
        close(drawing)

    def test_without_the_claims_it_says_what_is_missing(self):
        drawing = draw("tagc_links", load([]))
        self.assertEqual(drawing.rows, [])
        self.assertIn("gradient_compression.C6", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
