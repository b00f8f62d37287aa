# labels: unit
# timeout: 300
"""One look for all figures: kinds, colours and markers are told apart, labels do not overlap."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import SEED
import numpy as np
from matplotlib.text import Text

from plots.lib import data, style


class Looks(unittest.TestCase):
    def test_kinds_of_points_are_told_apart(self):
        self.assertEqual(data.link_kind("netns:1gbit", "timed"), "measured")
        self.assertEqual(data.link_kind("emulated:eth10", "timed"), "emulated")
        self.assertEqual(data.link_kind("shm", "modelled"), "modelled")
        looks = [
            repr(sorted(style.point("topk", kind=k).items()))
            for k in ("measured", "emulated", "modelled", "published")
        ]
        self.assertEqual(len(set(looks)), 4)

    def test_colours_and_markers_are_distinct(self):
        self.assertEqual(len(set(style.FAMILY_COLOURS.values())), len(style.FAMILY_COLOURS))
        pairs = [
            (form, protocol)
            for form in ("fair", "released")
            for protocol in ("dense", "rounds", "gather", "two_shot", "point_to_point")
        ]
        self.assertEqual(len({style.marker(*pair) for pair in pairs}), len(pairs))
        self.assertEqual(style.colour("a_new_codec"), style.colour("a_new_codec"))


class Labels(unittest.TestCase):
    def test_placed_labels_never_overlap_whatever_the_points(self):
        rng = np.random.default_rng(SEED)
        for trial in range(4):
            figure, axes = style.canvas(1, 1, height=4, width=5)
            panel = axes[0, 0]
            points = rng.uniform(0.1, 0.9, size=(25, 2)) ** (1 + trial)
            panel.scatter(*points.T)
            panel.set(xlim=(0, 1), ylim=(0, 1))
            style.freeze_layout(figure)
            labels = [(x, y, f"method {i}", "black") for i, (x, y) in enumerate(points)]
            left_out = style.place_labels(panel, labels)
            figure.canvas.draw()
            renderer = figure.canvas.get_renderer()
            boxes = [Text.get_window_extent(text, renderer) for text in panel.texts]
            self.assertEqual(len(boxes) + len(left_out), 25)
            self.assertGreater(len(boxes), 15)
            for i, a in enumerate(boxes):
                self.assertFalse(any(a.overlaps(b) for b in boxes[i + 1 :]))
            style.plt.close(figure)


if __name__ == "__main__":
    unittest.main()
