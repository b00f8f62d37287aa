# labels: unit
# timeout: 600
"""Figures of Optimus-CC's claims: drawn from whole, from missing and from the reference's numbers."""
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import SEED, close, draw, names, scratch_folder
from complete import OnCompleteData
import make_claims as made
from make_claims import load
import numpy as np

from plots.lib import claims as claims_of
from plots.lib import optimus_cc
from plots.lib.figure import Source


class CompleteClaims(OnCompleteData):
    def test_figures_of_claims_name_their_own_input(self):
        for name in names(Source.CLAIMS):
            drawing = self.drawings[name]
            self.assertEqual(drawing.sha256, self.claims.sha256[""], name)
            self.assertEqual({r["origin"] for r in drawing.rows}, {""}, name)

    def test_measured_emulated_and_modelled_points_are_told_apart(self):
        kinds = lambda name: {r["kind"] for r in self.drawings[name].rows}
        self.assertEqual(kinds("optimus_cc_stacks"), {"measured", "emulated", "modelled"})
        self.assertEqual(kinds("optimus_cc_stages"), {"emulated", "modelled"})
        self.assertEqual(kinds("optimus_cc_cluster"), {"modelled"})
        bars = [
            (bar.get_facecolor()[3], bar.get_linestyle())
            for axes in self.drawings["optimus_cc_stacks"].figure.axes
            for bar in axes.patches
            if hasattr(bar, "get_height") and math.isclose(bar.get_height(), 0.6)
        ]
        emulated, modelled = [b for b in bars if b[0] == 1], [b for b in bars if b[0] == 0]
        self.assertEqual((len(emulated), len(modelled)), (4, 8))
        self.assertTrue(all(look == "solid" or look == "-" for _, look in emulated) and all(look not in ("solid", "-") for _, look in modelled))

    def test_loss_differences_are_paired_means_with_students_interval(self):
        table = made.losses(np.random.default_rng(SEED), made.ARMS)[0]
        values = {r["label"]: np.array(r["values"]) for r in table["rows"]}
        claims = load([made.claim("optimus_cc.C13", tables=[table])])
        arms = optimus_cc.arms_of(claims, "optimus_cc.C13")
        mean, low, high, pairs = arms.difference("CB+FE+SC")
        differences = values["CB+FE+SC"] - values["dense"]
        half = 2.776445 * np.std(differences, ddof=1) / math.sqrt(5)  # t of 4 degrees of freedom at 97.5 %
        self.assertEqual(pairs, 5)
        self.assertAlmostEqual(mean, float(np.mean(differences)), places=12)
        self.assertAlmostEqual(high - mean, half, delta=1e-3 * half)
        self.assertAlmostEqual(mean - low, half, delta=1e-3 * half)

    def test_numbers_of_the_figures_are_those_of_the_claims(self):
        steps = self.csv("optimus_cc_stacks", what="step", where="step, emulated link")
        self.assertEqual([float(r["value"]) for r in steps], [410.0, 406.0, 402.0, 362.0])
        self.assertAlmostEqual(float(steps[3]["speedup"]), 410 / 362)
        big = self.csv("optimus_cc_cluster", model="8.3B", tflops="70.0", stack="CB+FE+SC", part="gradient sums")
        self.assertEqual([float(r["ms"]) for r in big], [750.0])
        memory = self.csv("optimus_cc_memory", arm="CB rank 2, epilogue", stage="2")
        self.assertEqual(int(memory[0]["above_baseline_bytes"]), round(0.26 * 2**20))
        gain = self.csv("optimus_cc_gain")
        self.assertEqual(len(gain), 14)  # of 15: one was not measured, and that is said
        self.assertIn("rank 40 at 10 Gbit/s", " ".join(self.drawings["optimus_cc_gain"].gaps))
        model = self.csv("optimus_cc_model")
        self.assertEqual([(r["what"], r["kind"], r["counts"], r["within"]) for r in model], [
            ("step", "emulated", "1", "1"), ("step", "emulated", "1", "1"), ("saving", "emulated", "1", "1"), ("saving", "emulated", "0", "0"),
            ("step", "measured", "1", "0"), ("step", "measured", "1", "1"),
        ])  # fmt: skip
        curve = self.csv("optimus_cc_curves", what="perplexity", arm="dense", step="150")
        self.assertAlmostEqual(float(curve[0]["value"]), math.exp(1.9 + 80 / 180))

    def test_exposed_messages_have_a_panel_for_each_kind_of_link(self):
        rows = self.csv("optimus_cc_exposure")
        self.assertEqual({(r["setting"], r["kind"]) for r in rows if r["what"] == "epilogue"}, {("emulated link, overlapped sends", "emulated"), ("namespaces, overlapped sends", "measured")})
        self.assertEqual([float(r["saving_ms"]) for r in rows if r["what"] == "all" and r["kind"] == "measured"], [13.0, 39.0, 130.0])
        self.assertEqual({r["kind"] for r in rows if r["what"] == "(P-1)(c-c')"}, {"modelled"})

    def test_the_trend_has_every_ranks_difference_on_its_own_ground(self):
        rows = self.csv("optimus_cc_trend")
        self.assertEqual(
            [(r["ground"], r["series"], int(r["rank"])) for r in rows],
            [
                ("M = 16, in training", "epilogue, LEP", 2), ("M = 16, in training", "epilogue, LEP", 8), ("M = 8, from scratch", "epilogue, no LEP", 2),
                ("M = 8, from scratch", "epilogue, LEP", 2), ("M = 8, from scratch", "all messages, LEP", 2),
            ],
        )  # fmt: skip
        later = {r["arm"]: r for r in rows if r["ground"] == "M = 16, in training"}
        self.assertGreater(float(later["CB rank 2, epilogue"]["low"]), 0.02)
        self.assertIn("kept within the margin: CB (rank 8, epilogue)", " ".join(self.drawings["optimus_cc_trend"].seen))
        self.assertEqual({r["ground"] for r in self.csv("optimus_cc_curves")}, {"M = 16, in training", "M = 8, from scratch", "M = 8, from scratch, D = 2"})

    def test_the_pilot_has_every_seed_of_every_rate_and_rings_the_rate_used(self):
        rows = self.csv("optimus_cc_learning_rate")
        self.assertEqual(len(rows), 12)
        self.assertEqual([r["loss"] for r in rows if r["rate"] == "0.006"], ["1.526", "1.53", "1.534"])
        drawing = self.drawings["optimus_cc_learning_rate"]
        ring = [line for line in drawing.figure.axes[0].lines if line.get_markersize() == 13]
        self.assertEqual([list(line.get_xydata()[0]) for line in ring], [[0.006, 1.53]])
        self.assertTrue(drawing.seen[0].startswith("Best mean at 0.006: 1.530 nats"), drawing.seen[0])

    def test_the_table_has_the_papers_stacks_and_no_number_of_the_paper(self):
        caption, header, rows = self.drawings["optimus_cc_stacks"].tables[0]
        self.assertEqual([r[0] for r in rows][:4], [s for s in optimus_cc.STACKS if s != "CB without LEP"])  # which has neither losses nor times here
        self.assertTrue(all(r[-1] == "not available" for r in rows), rows)
        self.assertEqual(header[-1], "paper")


class MissingData(unittest.TestCase):
    """A figure without its numbers is left out with a reason, and never invented."""

    def test_without_claims_every_figure_is_left_out_with_a_reason(self):
        for claims in (claims_of.Claims(), load([made.claim(f"optimus_cc.C{i}") for i in range(1, 17)])):
            for name in names(Source.CLAIMS):
                drawing = draw(name, claims)
                self.assertIsNone(drawing.figure, name)
                self.assertFalse(drawing.rows, name)
                self.assertRegex(drawing.gaps[0], "no data because no (judged )?claim", name)

    def test_the_reason_names_the_profile_that_judges(self):
        folder = made.write(scratch_folder(), [], {"optimus_cc.C10": "standard"})
        drawing = draw("optimus_cc_errors", claims_of.load(folder))
        self.assertIn("optimus_cc.C10 from profile standard", drawing.gaps[0])

    def test_numbers_that_are_not_there_leave_gaps(self):
        drawing = draw("optimus_cc_stages", load([made.stages(missing=(26.0,))]), laid_out=False)
        emulated = [r for r in drawing.rows if r["kind"] == "emulated"]
        self.assertEqual((len(emulated), len(drawing.rows)), (10, 25))
        close(drawing)
        only_losses = draw("optimus_cc_stacks", load(made.quality(np.random.default_rng(SEED))), laid_out=False)
        self.assertIn("no timed steps", " ".join(only_losses.gaps))
        self.assertEqual({r["what"] for r in only_losses.rows}, {"loss"})
        close(only_losses)

    def test_an_arm_that_breaks_training_leaves_the_others_readable(self):
        arms = {**made.ARMS, "naive ranks 2, 16": 3.1}
        drawing = draw("optimus_cc_stacks", load(made.quality(np.random.default_rng(SEED), arms)), laid_out=False)
        self.assertEqual(drawing.figure.axes[0].get_xscale(), "symlog")
        close(drawing)

    def test_an_invalid_claims_numbers_are_drawn_and_named(self):
        claims = made.quality(np.random.default_rng(SEED))
        claims[0]["verdict"] = "INVALID"
        drawing = draw("optimus_cc_curves", load(claims), laid_out=False)
        self.assertIn("optimus_cc.C1a is INVALID, its numbers decide nothing", " ".join(drawing.gaps))
        close(drawing)


class Reference(unittest.TestCase):
    """What a run did not judge is shown from the reference, and marked."""

    def setUp(self):
        folder = os.path.join(scratch_folder(), "results", "reference", "some-machine", "optimus_cc")
        made.write(folder, made.everything(SEED))
        self.reference = os.path.join(folder, "claims.json")

    def test_figures_from_the_reference_say_so_in_the_picture_and_the_csv(self):
        claims = claims_of.load(made.write(scratch_folder(), made.stacks()[:1]), self.reference)
        cluster, errors, both = (draw(f"optimus_cc_{n}", claims, laid_out=False) for n in ("cluster", "errors", "stacks"))
        written = lambda d: " ".join(t.get_text() for t in d.figure.texts)
        self.assertNotIn("reference", written(cluster))
        self.assertIn("From the reference run of 2026-11-20 on some-machine, not from this run", written(errors))
        self.assertIn("In part from the reference run of 2026-11-20 on some-machine", written(both))
        self.assertEqual({r["origin"] for r in errors.rows}, {"reference run of 2026-11-20 on some-machine"})
        self.assertEqual({r["origin"] for r in both.rows}, {"", "reference run of 2026-11-20 on some-machine"})
        self.assertEqual(errors.sha256, claims.sha256["some-machine"])
        self.assertEqual(len(both.sha256.split()), 2)
        for drawing in (cluster, errors, both):
            close(drawing)

    def test_arms_of_another_profile_never_share_a_panel(self):
        quick = [made.claim("optimus_cc.C1a", tables=made.losses(np.random.default_rng(1), {"dense": 0.0, "CB rank 2, epilogue": 1.0}), profile="quick")]
        arms = optimus_cc.arms_of(claims_of.load(made.write(scratch_folder(), quick), self.reference), "optimus_cc.C1", "optimus_cc.C13")
        self.assertEqual(arms.profile, "standard")
        self.assertEqual({t.claim.reference for t in arms.tables}, {"some-machine"})


if __name__ == "__main__":
    unittest.main()
