# labels: unit
# timeout: 300
"""Plans of training runs: their losses, their times, their looks."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import SEED
import make_collected as made
from make_collected import load
import numpy as np

from plots.lib import plans


class TrainingRuns(unittest.TestCase):
    LINKS = ["netns:100mbit", "netns:1gbit"]

    def runs(self, **arguments):
        return made.training_runs(np.random.default_rng(SEED), self.LINKS, **arguments)

    def test_a_target_is_reached_where_the_straight_line_crosses_it(self):
        x, losses = [10.0, 20.0, 30.0], [3.0, 2.0, 1.0]
        self.assertEqual(plans.reaches(x, losses, 2.5), 15.0)
        self.assertEqual(plans.reaches(x, losses, 1.0), 30.0)
        self.assertEqual(plans.reaches(x, losses, 4.0), 10.0)
        self.assertTrue(np.isnan(plans.reaches(x, losses, 0.9)))
        self.assertEqual(plans.reaches([1.0, 2.0, 3.0], [3.0, 1.0, 3.0], 2.0), 1.5, "the first time counts")

    def test_times_come_from_timed_compute_only(self):
        runs = plans.load(load([], runs=self.runs()))
        self.assertEqual(runs.links, self.LINKS, "shared memory was real compute on too many ranks")
        tables = self.runs(plans=("dense",))
        for row in tables["training_time"]:
            if row["compute"] == "real":
                row["communication_share"] = 0.2  # as on enough cores
        self.assertEqual(plans.load(load([], runs=tables)).links, [*self.LINKS, "shm"])

    def test_several_seeds_become_their_median(self):
        tables = self.runs(plans=("dense",))
        for i, shift in enumerate((0.5, 0.1)):
            tables["training_curve"] += [
                dict(
                    row,
                    cell_id=f"seed {i}",
                    validation_loss=row["validation_loss"] + shift,
                    loss=row["loss"] + shift,
                )
                for row in tables["training_curve"]
                if not row["cell_id"].startswith("seed")
            ]
        curve = plans.load(load([], runs=tables)).curves["dense"]
        one = [r["validation_loss"] for r in self.runs(plans=("dense",))["training_curve"]]
        self.assertEqual(curve.runs, 3)
        np.testing.assert_allclose(curve.validated()[1], [v + 0.1 for v in one if np.isfinite(v)])

    def test_trainings_that_failed_are_named(self):
        tables = self.runs(plans=("dense",))
        cells = [
            dict(tables["cells"][0], cell_id=f"{plan} {seed}", traffic="", status=status, repro=f"mpirun -n 8 train_gpt --plan '{plan}' --seed {seed}")
            for plan, seed, status in (("dense", 7, "FAILED"), ("very wild", 1, "FAILED"), ("very wild", 2, "TIMEOUT"), ("skipped", 1, "SKIPPED"))
        ]
        notes = plans.load(load(cells, runs=tables)).notes
        self.assertIn("dense: 1 training failed and left no curve; what is drawn are its others.", notes)
        self.assertIn("very wild: 2 trainings failed and left no curve; it never reaches any loss.", notes)
        self.assertEqual(len(notes), 2)

    def test_plans_are_told_apart_and_ordered_from_dense_to_all(self):
        found = plans.load(load([], runs=self.runs())).plans
        self.assertEqual([p.name for p in found], list(made.PLANS))
        looks = {(p.look["color"], p.look["linestyle"], p.look["marker"]) for p in found}
        self.assertEqual(len(looks), len(found))
        self.assertEqual(
            found[-1].described(),
            (
                "tp_forward, embedding by quantize 8; pp_backward by powersgd 16 +lep; dp_gradient by"
                " powersgd 8 +ef"
            ),
        )


if __name__ == "__main__":
    unittest.main()
