# labels: unit
# timeout: 300
"""Numbers and lists as words; which of the papers' numbers are shown."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import ROOT

from plots.lib import published, words


class Words(unittest.TestCase):
    def test_numbers_keep_two_digits_and_round_before_they_choose_a_form(self):
        for value, text in (
            (0.996, "1.0"),
            (3.14159, "3.1"),
            (99.6, "100"),
            (0.0499, "0.050"),
            (0.0, "0"),
            (float("nan"), "n/a"),
            (-0.5, "-0.50"),
            (12345.0, "12,345"),
            (1e-7, "1.0e-07"),
        ):
            self.assertEqual(words.number(value), text)

    def test_lists(self):
        self.assertEqual(words.listing([]), "")
        self.assertEqual(words.listing(["a", "b", "c"]), "a, b and c")
        self.assertEqual(words.listing("abcdef", 4), "a, b, c and 3 more")


class Published(unittest.TestCase):
    def test_only_read_values_come_without_asking(self):
        folder = os.path.join(ROOT, "results", "published")
        plain, asked = published.load(folder), published.load(folder, recollected=True)
        self.assertEqual({row["provenance"] for row in plain}, {"read"})
        self.assertEqual({row["provenance"] for row in asked}, {"read", "recollected"})
        self.assertTrue(
            all(mark == "read" or "unverified" in mark for *_, mark, _ in published.claims(asked))
        )


if __name__ == "__main__":
    unittest.main()
