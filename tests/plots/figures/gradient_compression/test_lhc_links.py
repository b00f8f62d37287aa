# labels: unit
# timeout: 120
"""The figure of homomorphic sums over links draws what the claim's table holds, and counts only sums that are exact."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_claims as made
from make_claims import load


class LhcLinks(unittest.TestCase):
    def test_marks_are_the_numbers_of_the_table(self):
        claim = made.lhc()
        drawing = draw("lhc_links", load([claim]))
        rows = claim["tables"][0]["rows"]
        self.assertEqual(len(drawing.rows), len(rows))
        for panel, link in zip(drawing.figure.axes, ("netns:100mbit", "netns:1gbit", "shm")):
            exact, others = (sorted(x for x, _ in marks.get_offsets()) for marks in panel.collections)
            of_link = [row["values"] for row in rows if row["label"].startswith(link + ",")]
            self.assertEqual(exact, sorted(v[4] for v in of_link if v[3] == 0))
            self.assertEqual(others, sorted(v[4] for v in of_link if v[3] > 0))
        close(drawing)

    def test_a_faster_sum_that_is_not_exact_is_not_the_fastest(self):
        drawing = draw("lhc_links", load([made.lhc()]))
        said = [sentence for sentence in drawing.seen if sentence.startswith("On ")]
        self.assertEqual(len(said), 3)
        for sentence in said:
            self.assertIn("2 of 6 sums are exact", sentence)
            self.assertIn("equal, 0.1, c = 5, 1 bit", sentence)
        self.assertIn(f"1/{0.3 / 0.09:.2f} of the dense", said[0])
        close(drawing)

    def test_without_the_claims_it_says_what_is_missing(self):
        drawing = draw("lhc_links", load([]))
        self.assertEqual(drawing.rows, [])
        self.assertIn("gradient_compression.C14", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
