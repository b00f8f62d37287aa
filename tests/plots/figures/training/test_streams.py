# labels: unit
# timeout: 120
"""The streams of a sharded step: bars are the spans of one rank, lane by lane, and what is said follows them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw
import make_collected as made
from make_collected import load


def timeline(*steps):
    return {"timeline": [row for step in steps for row in step]}


class Streams(unittest.TestCase):
    def test_bars_are_the_spans_of_one_rank_lane_by_lane(self):
        step = list(made.sharded_step_rows())
        drawing = draw("streams", load([], runs=timeline(step)))
        self.assertEqual({r["rank"] for r in drawing.rows}, {0})
        of = lambda lane: [(r["start_us"], r["end_us"]) for r in drawing.rows if r["stream"] == lane]
        own = lambda *names: [(r["start_us"], r["end_us"]) for r in step if r["rank"] == 0 and r["name"] in names and r["category"] != "encode"]
        self.assertEqual(of("gathers"), [(0.0, 48e3)], "eight gathers one after the other")
        self.assertEqual(of("reduce-scatters"), own("grad_reduce_scatter"))
        self.assertEqual(len(of("reduce-scatters")), 4)
        self.assertEqual(of("waiting"), own("weights", "gradients"))
        self.assertEqual(of("codecs"), [])
        self.assertEqual({r["kind"] for r in drawing.rows if r["stream"] == "passes"}, {"forward", "backward"})
        drawn = sorted(
            f"{path.get_extents().x0 * 1e3:.6g} {path.get_extents().x1 * 1e3:.6g}" for c in drawing.figure.axes[0].collections for path in c.get_paths()
        )
        self.assertEqual(drawn, sorted(f"{r['start_us']:.6g} {r['end_us']:.6g}" for r in drawing.rows))
        end = max(r["end_us"] for r in drawing.rows)
        self.assertIn(f"gathers of weights {100 * 48e3 / end:.0f} %", drawing.seen[0])
        close(drawing)

    def test_a_plan_without_codecs_stands_above_one_with(self):
        drawing = draw("streams", load([], runs=timeline(made.sharded_step_rows("a, coded", codec_ms=1.0), made.sharded_step_rows("b"), made.sharded_step_rows("c", link="netns:4gbit"))))
        self.assertEqual(list(dict.fromkeys(r["plan"] for r in drawing.rows)), ["b", "a, coded"], "on the link that has two")
        self.assertEqual(sum(r["stream"] == "codecs" for r in drawing.rows), 4)
        close(drawing)

    def test_steps_of_another_model_stand_in_no_panel(self):
        steps = {plan: list(made.sharded_step_rows(plan, codec_ms=codec)) for plan, codec in (("a", 0.0), ("b", 1.0), ("large", 0.0))}
        cells = [
            made.row(cell_id=rows[0]["cell_id"], program="train_gpt", operation="train_step", method=plan, source="training", link="netns:1gbit", **{**made.TRAINING_MESH, "hidden": 256 if plan == "large" else 128})
            for plan, rows in steps.items()
        ]
        drawing = draw("streams", load([], runs={"cells": cells, **timeline(*steps.values())}))
        self.assertEqual(list(dict.fromkeys(r["plan"] for r in drawing.rows)), ["a", "b"])
        self.assertIn("1 sharded step of another model", " ".join(drawing.gaps))
        close(drawing)

    def test_steps_that_gather_nothing_are_not_drawn(self):
        dense = made.timeline_rows("d" * 64, "dense", "netns:1gbit", dict(compute_ms=60, encode_ms=0, decode_ms=0, transfer_ms=20))
        drawing = draw("streams", load([], runs=timeline(dense)))
        self.assertEqual(drawing.rows, [])
        self.assertIn("--zero-stage 3", " ".join(drawing.gaps))
        close(drawing)


if __name__ == "__main__":
    unittest.main()
