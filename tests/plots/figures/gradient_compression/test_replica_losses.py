# labels: unit
# timeout: 120
"""The figure of losses joins the claims of one comparison, and draws each arm's seeds against the first arm's."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_claims as made
from make_claims import load


class ReplicaLosses(unittest.TestCase):
    def test_a_panel_per_comparison_with_every_arm_once(self):
        drawing = draw("replica_losses", load(made.replica_losses()))
        titles = [panel.get_title(loc="left") for panel in drawing.figure.axes]
        self.assertEqual(len(titles), 2)
        arms = [tick.get_text() for panel in drawing.figure.axes for tick in panel.get_yticklabels()]
        self.assertEqual(sorted(arms), sorted(["TLq", "TLq-HS", "8 and 8 bits", "SDP4Bit", "rank 4"]))
        self.assertEqual(len(drawing.rows), 3 * (5 + 2) - 1)  # base arms, too; SDP4Bit has two seeds
        self.assertIn("2 to 3 seeds", titles[1])
        self.assertIn(" 3 seeds", titles[0])
        close(drawing)

    def test_differences_are_of_the_same_seed(self):
        drawing = draw("replica_losses", load(made.replica_losses()))
        parts = {r["seed"]: r["difference_percent"] for r in drawing.rows if r["arm"] == "TLq"}
        for seed, percent in {"seed 1": 1.0, "seed 2": 1.1, "seed 3": 0.9}.items():
            self.assertAlmostEqual(parts[seed], percent, places=9)
        close(drawing)

    def test_without_the_claims_it_says_what_is_missing(self):
        drawing = draw("replica_losses", load([]))
        self.assertEqual(drawing.rows, [])
        self.assertIn("those whose figure is replica_losses", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
