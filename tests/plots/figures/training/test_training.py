# labels: unit
# timeout: 600
"""Figures of training runs: what the CSV says is what is drawn, and what is said follows the numbers."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import FIGURES, SEED, close, draw, names
from complete import OnCompleteData
import make_collected as made
from make_collected import load
import numpy as np

from plots.lib import drawing as drawings, plans
from plots.lib.figure import Source


class CompleteRun(OnCompleteData):
    def test_curve_of_the_captured_run_is_that_of_the_csv(self):
        rows = self.csv("training")
        line = self.drawings["training"].figure.axes[0].lines[0]
        np.testing.assert_array_equal(
            line.get_ydata(), [float(r["value"]) for r in rows if r["what"] == "loss"]
        )
        self.assertEqual(
            {r["what"]: float(r["value"]) for r in rows if r["what"].endswith("entropy")},
            {"unigram_entropy": 3.3, "bigram_entropy": 2.45},
        )

    def test_loss_curves_are_those_of_the_csv_and_the_difference_is_one(self):
        rows = self.csv("loss_curves")
        panels = self.drawings["loss_curves"].figure.axes
        for axes, what in zip(panels, ("training", "validation", "difference")):
            for line in axes.lines:
                if len(line.get_xdata()) < 3:
                    continue  # entropy, zero
                mine = {r["plan"] for r in rows if r["what"] == what}
                drawn = [f"{v:.12g}" for v in line.get_ydata()]
                found = [
                    plan
                    for plan in mine
                    if drawn
                    == [f"{float(r['value']):.12g}" for r in rows if r["what"] == what and r["plan"] == plan]
                ]
                self.assertEqual(len(found), 1, what)
        self.assertEqual(
            [sum(len(line.get_xdata()) > 2 for line in axes.lines) for axes in panels],
            [len(made.PLANS), len(made.PLANS), len(made.PLANS) - 1],
        )
        value = {(r["what"], r["plan"], r["step"]): float(r["value"]) for r in rows}
        for (what, plan, step), v in value.items():
            if what == "difference":
                self.assertAlmostEqual(
                    v, value["validation", plan, step] - value["validation", "dense", step]
                )
        raw = self.collected.training_curve
        kept = raw.where(np.isfinite(raw["validation_loss"]), plan="all")
        self.assertEqual(
            [value["validation", "all", str(s)] for s in kept["step"]], list(kept["validation_loss"])
        )

    def test_loss_against_bytes_and_time_is_that_of_the_csv(self):
        rows = [r for r in self.csv("loss_vs_bytes") if r["what"] == "curve"]
        left, right = self.drawings["loss_vs_bytes"].figure.axes
        lines = [line for line in left.lines if len(line.get_xdata()) > 2]
        scale = 1e9 if "(GB)" in left.get_xlabel() else 1e6
        np.testing.assert_allclose(
            np.concatenate([line.get_xdata() for line in lines]) * scale,
            [float(r["link_bytes"]) for r in rows],
        )
        np.testing.assert_allclose(
            np.concatenate([line.get_ydata() for line in lines]), [float(r["validation_loss"]) for r in rows]
        )
        until = [float(r["link_bytes"]) for r in self.csv("loss_vs_bytes") if r["what"] == "until_target"]
        scale = 1e9 if "(GB)" in right.get_xlabel() else 1e6
        np.testing.assert_allclose(
            [p.get_width() * scale for p in right.patches], [u for u in until if np.isfinite(u)]
        )
        self.assertEqual(
            sum(t.get_text() == "not reached in this run" for t in right.texts),
            sum(not np.isfinite(u) for u in until),
        )
        rows = self.csv("loss_vs_time")
        links = list(dict.fromkeys(r["link"] for r in rows))
        self.assertEqual(
            links, ["netns:100mbit", "netns:1gbit", "netns:4gbit"], "no shared memory: it was not timed"
        )
        for axes, link in zip(self.drawings["loss_vs_time"].figure.axes, links):
            here = [r for r in rows if r["link"] == link]
            self.assertTrue(
                all(
                    abs(float(r["seconds"]) - (int(r["step"]) + 1) * float(r["step_ms"]) / 1e3) < 1e-9
                    for r in here
                )
            )
            drawn = np.concatenate([line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 2])
            scale = 60 if "(min)" in axes.get_xlabel() else 1
            np.testing.assert_allclose(drawn * scale, [float(r["seconds"]) for r in here])

    def test_bars_of_a_training_step_are_those_of_the_csv(self):
        rows = self.csv("training_stage_split")
        self.assertEqual(len(rows), 3 * len(made.PLANS))
        for axes, link in zip(
            self.drawings["training_stage_split"].figure.axes, dict.fromkeys(r["link"] for r in rows)
        ):
            here = [r for r in rows if r["link"] == link]
            self.assertEqual(here[0]["plan"], "dense", "the uncompressed plan comes first")
            wanted = [
                float(r[f"{s}_ms"])
                for r in here
                for s in ("compute", "encode", "transfer", "decode", "wait")
                if float(r[f"{s}_ms"]) > 0
            ]
            np.testing.assert_allclose([p.get_width() for p in axes.patches], wanted)
            for r in here:
                self.assertAlmostEqual(float(r["speedup"]), float(here[0]["step_ms"]) / float(r["step_ms"]))

    def test_bars_of_the_timeline_are_those_of_the_csv(self):
        rows = self.csv("timeline")
        self.assertEqual(list(dict.fromkeys(r["plan"] for r in rows)), ["dense", "all"])
        for axes, plan in zip(self.drawings["timeline"].figure.axes, ("dense", "all")):
            drawn = sorted(
                f"{path.get_extents().x0 * 1e3:.6g} {path.get_extents().x1 * 1e3:.6g}"
                for c in axes.collections
                for path in c.get_paths()
            )
            wanted = sorted(
                f"{float(r['start_us']):.6g} {float(r['end_us']):.6g}" for r in rows if r["plan"] == plan
            )
            self.assertEqual(drawn, wanted)


class TrainingRuns(unittest.TestCase):
    LINKS = ["netns:100mbit", "netns:1gbit"]

    def runs(self, **arguments):
        return made.training_runs(np.random.default_rng(SEED), self.LINKS, **arguments)

    def test_bench_figures_do_not_see_training_runs(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, self.LINKS, layouts=((2, 2),), shapes=((8, 128),))) + list(
            made.gradient_rows(rng, self.LINKS)
        )
        alone, beside = load(cells), load(cells, runs=self.runs())
        for name in names(Source.BENCHES):
            both = [FIGURES[name].draw(collected) for collected in (alone, beside)]  # not rendered: of the same rows comes the same picture
            self.assertEqual(*(drawings.to_csv(d, "") for d in both), name)
            for drawing in both:
                close(drawing)

    def test_runs_of_another_model_are_left_out_and_counted(self):
        tables, other = self.runs(), self.runs(plans=("dense",), steps=50)
        for row in other["cells"]:
            row["hidden"] = 256
        merged = {name: tables[name] + other[name] for name in tables}
        collected = load([], runs=merged)
        self.assertEqual(len(plans.load(collected).curves["dense"].step), 300)
        for name in (n for n in names(Source.TRAINING_RUNS) if n not in ("timeline", "streams")):  # these show single steps
            drawing = draw(name, collected, laid_out=False)
            self.assertIn("3 training runs of another model", " ".join(drawing.gaps), name)
            close(drawing)

    def test_a_link_off_its_calibration_is_marked(self):
        tables = self.runs(plans=("dense", "all"))
        for row in tables["cells"]:
            if row["link"] == "netns:1gbit" and row["method"] == "all" and row["traffic"] == "dp_gradient":
                row.update(status="MISTRUSTED", reason="off")
        drawing = draw("training_stage_split", load([], runs=tables), laid_out=False)
        marked = {(r["plan"], r["link"]) for r in drawing.rows if not r["trusted"]}
        stars = [t.get_text() for a in drawing.figure.axes for t in a.texts if t.get_text().endswith(" *")]
        close(drawing)
        self.assertIn(
            "Not counted on netns:1gbit, which was off its calibration: 'all'", " ".join(drawing.seen)
        )
        self.assertIn("On netns:100mbit a step of the uncompressed plan takes", " ".join(drawing.seen))
        self.assertEqual(marked, {("all", "netns:1gbit")})
        self.assertEqual(len(stars), 1)

    def test_the_timeline_shows_the_link_where_half_of_the_step_is_communication(self):
        for link, shares in (("netns:1gbit", (0.9, 0.45)), ("netns:100mbit", (0.6, 0.1))):
            tables = self.runs()
            for row in tables["training_time"]:
                if row["compute"] == "timed":
                    row["communication_share"] = shares[self.LINKS.index(row["link"])]
            drawing = draw("timeline", load([], runs=tables), laid_out=False)
            close(drawing)
            self.assertEqual({r["link"] for r in drawing.rows}, {link})
            self.assertEqual({r["plan"] for r in drawing.rows}, {"dense", "all"})

    def test_spans_that_nearly_touch_are_one_and_others_are_not(self):
        spans = [(0, 10), (10.5, 20), (40, 50), (45, 60), (1000, 2000)]
        tables = {
            "timeline": [
                dict(
                    cell_id="c",
                    plan="dense",
                    link="shm",
                    rank=0,
                    category="compute",
                    name="mlp",
                    micro=0,
                    start_us=float(a),
                    end_us=float(b),
                )
                for a, b in spans
            ]
        }
        drawing = draw("timeline", load([], runs=tables), laid_out=False)
        close(drawing)
        self.assertEqual(
            [(r["start_us"], r["end_us"]) for r in drawing.rows],
            [(0.0, 20.0), (40.0, 60.0), (1000.0, 2000.0)],
        )

    def test_what_is_seen_follows_the_numbers(self):
        def seen(penalty, *figures):
            tables = self.runs(plans=("dense", "all"))
            for row in tables["training_curve"]:
                if row["plan"] == "all":
                    row["validation_loss"] += penalty
            collected = load([], runs=tables)
            for name in figures:
                drawing = draw(name, collected, laid_out=False)
                close(drawing)
                yield " ".join(drawing.seen)

        curves, over_time, over_bytes = seen(1.0, "loss_curves", "loss_vs_time", "loss_vs_bytes")
        self.assertIn("'all' (+1.", curves)
        self.assertIn("Visibly worse", curves)
        self.assertIn("never within this run: 'all'", over_time)
        self.assertIn("never gets", over_bytes)
        (curves,) = seen(-0.5, "loss_curves")
        self.assertIn("lower than the uncompressed plan", curves)
        over_time, over_bytes = seen(-0.3, "loss_vs_time", "loss_vs_bytes")
        self.assertIn("sooner there: 'all'", over_time)
        self.assertIn("fewer bytes get there 'all'", over_bytes)


if __name__ == "__main__":
    unittest.main()
