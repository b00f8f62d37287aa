# labels: unit
# timeout: 120
"""The figure of SDP4Bit over links draws what the claim's table holds, and says where coding gains."""
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_claims as made
from make_claims import load


class Sdp4BitLinks(unittest.TestCase):
    def test_points_and_lines_are_the_numbers_of_the_table(self):
        claim = made.sdp4bit()
        rows = [row["values"] for row in claim["tables"][0]["rows"]]
        drawing = draw("sdp4bit_links", load([claim]))
        self.assertEqual(len(drawing.rows), 9 + 8)
        panel = drawing.figure.axes[0]
        drawn = sorted((x, y) for points in panel.collections for x, y in points.get_offsets())
        beyond = 40.0  # shared memory, right of the fastest link
        self.assertEqual(drawn, sorted((beyond if v[1] is None else v[1], v[4]) for v in rows))
        models = [line for line in panel.lines if len(line.get_xdata()) == 4]
        self.assertEqual(len(models), 2)
        for line, ranks in zip(models, (4, 8)):
            self.assertEqual(list(zip(line.get_xdata(), line.get_ydata())), [(v[1], v[9]) for v in rows if v[0] == ranks and v[1] is not None])
        kinds = {(r["gbps"], r["kind"]) for r in drawing.rows if r["kind"] != "modelled"}
        self.assertTrue(all(kind == ("emulated" if math.isfinite(g) else "measured") for g, kind in kinds), kinds)
        close(drawing)

    def test_says_where_it_gains_the_most_and_where_no_longer(self):
        drawing = draw("sdp4bit_links", load([made.sdp4bit()]))
        said = [sentence for sentence in drawing.seen if sentence.startswith("On ")]
        self.assertEqual(len(said), 2)
        best = (130 + 800) / (160 + 800 / 6)
        self.assertIn(f"at most {best:.2f} times shorter, at 0.1 Gbit/s; from 10 Gbit/s on it gains nothing", said[0])  # 138 of 161 ms
        close(drawing)

    def test_without_the_claim_it_says_what_is_missing(self):
        drawing = draw("sdp4bit_links", load([]))
        self.assertEqual(drawing.rows, [])
        self.assertIn("sharded_compression.C15", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
