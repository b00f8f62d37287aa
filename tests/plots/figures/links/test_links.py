# labels: unit
# timeout: 300
"""The figure of link calibrations: what the CSV says is what is drawn."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import offsets, read_csv
from complete import OnCompleteData

from plots.lib import drawing as drawings


class CompleteRun(OnCompleteData):
    def test_dots_are_those_of_the_csv(self):
        rows = self.csv("links")
        drawn = offsets(self.drawings["links"].figure.axes[0])
        crosses = [r for r in rows if r["trusted"] == "0"]
        self.assertEqual(len(drawn), len(rows) + len(crosses))
        self.assertEqual(
            set(drawn), {(f"{float(r['bytes']):.9g}", f"{float(r['measured_gbps']):.9g}") for r in rows}
        )

    def test_csv_starts_with_the_hash_of_its_input(self):
        comments, _ = read_csv(drawings.to_csv(self.drawings["links"], self.collected.sha256))
        self.assertEqual(comments[0], f"# input-sha256: {self.collected.sha256}")


if __name__ == "__main__":
    unittest.main()
