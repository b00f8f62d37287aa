# labels: unit
# timeout: 300
"""The table of traffic classes that figures share has every class of the library, and tells them apart."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import ROOT

from plots.lib import traffic_classes


class Classes(unittest.TestCase):
    def test_every_class_of_the_library_is_in_the_table(self):
        with open(os.path.join(ROOT, "collectives", "channel", "traffic.h"), encoding="utf-8") as stream:
            body = re.search(r"enum class TrafficClass \{(.*?)\};", stream.read(), re.S)[1]
        library = re.findall(r"^\s*(\w+)", body, re.M)
        self.assertEqual(sorted({*traffic_classes.NAMES, "control"}), sorted(library))

    def test_no_two_classes_share_words_or_a_marker(self):
        for of in (lambda c: c.name, lambda c: c.words, lambda c: c.marker):
            self.assertEqual(len({of(c) for c in traffic_classes.CLASSES}), len(traffic_classes.CLASSES))

    def test_what_the_table_does_not_know_goes_by_its_own_name(self):
        self.assertEqual(traffic_classes.words_of("tp_forward"), "tensor-parallel forward sum")
        self.assertEqual(traffic_classes.words_of("later"), "later")


if __name__ == "__main__":
    unittest.main()
