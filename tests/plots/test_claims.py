# labels: unit
# timeout: 300
"""Claims in the report: what a run judged, what the reference fills in, and the figures of Optimus-CC from made-up claims.json."""
import importlib
import json
import math
import os
import tempfile
import unittest

from support import ROOT, SEED, close, read_csv, run, scratch_folder, visible_texts
import make_claims as made
import matplotlib.pyplot as plt
import numpy as np

from plots import claims as claims_of
from plots import claims_table, optimus_cc, published
from plots import drawing as drawings
from plots.errors import CorruptData
from plots.report import CLAIM_FIGURES


def load(claims, **more):
    return claims_of.load(made.write(scratch_folder(), claims), **more)


def draw(name, claims):
    return importlib.import_module(f"plots.{name}").draw(claims)


class CompleteClaims(unittest.TestCase):
    """Every figure, drawn from claims that hold all its numbers."""

    @classmethod
    def setUpClass(cls):
        cls.claims = load(made.everything(SEED))
        cls.drawings = {name: draw(name, cls.claims) for name in CLAIM_FIGURES}
        for drawing in cls.drawings.values():
            drawing.figure.canvas.draw()

    @classmethod
    def tearDownClass(cls):
        for drawing in cls.drawings.values():
            close(drawing)

    def rows(self, name, **equal):
        rows = read_csv(drawings.to_csv(self.drawings[name], "0" * 64))[1]
        return [r for r in rows if all(r[k] == v for k, v in equal.items())]

    def test_every_figure_draws_and_says_what_is_seen(self):
        for name, drawing in self.drawings.items():
            self.assertEqual(drawing.name, name)
            self.assertTrue(drawing.rows and drawing.seen, name)
            self.assertFalse(any("nan" in sentence.lower().split() for sentence in drawing.seen), drawing.seen)
            self.assertEqual(drawing.sha256, self.claims.sha256[""], name)
            self.assertEqual({r["origin"] for r in drawing.rows}, {""}, name)

    def test_no_two_texts_overlap_and_none_leaves_the_page(self):
        for name, drawing in self.drawings.items():
            page = drawing.figure.bbox
            texts = visible_texts(drawing.figure)
            for text, box in texts:
                inside = page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1
                self.assertTrue(inside, f"{name}: '{text}' leaves the page")
            for i, (text, box) in enumerate(texts):
                for other, second in texts[i + 1 :]:
                    wide = min(box.x1, second.x1) - max(box.x0, second.x0)
                    high = min(box.y1, second.y1) - max(box.y0, second.y0)
                    self.assertFalse(wide > 1 and high > 1, f"{name}: '{text}' overlaps '{other}'")

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
        steps = self.rows("optimus_cc_stacks", what="step", where="step, emulated link")
        self.assertEqual([float(r["value"]) for r in steps], [410.0, 406.0, 402.0, 362.0])
        self.assertAlmostEqual(float(steps[3]["speedup"]), 410 / 362)
        big = self.rows("optimus_cc_cluster", model="8.3B", tflops="70.0", stack="CB+FE+SC", part="gradient sums")
        self.assertEqual([float(r["ms"]) for r in big], [750.0])
        memory = self.rows("optimus_cc_memory", arm="CB rank 2, epilogue", stage="2")
        self.assertEqual(int(memory[0]["above_baseline_bytes"]), round(0.26 * 2**20))
        gain = self.rows("optimus_cc_gain")
        self.assertEqual(len(gain), 14)  # of 15: one was not measured, and that is said
        self.assertIn("rank 40 at 10 Gbit/s", " ".join(self.drawings["optimus_cc_gain"].gaps))
        model = self.rows("optimus_cc_model")
        self.assertEqual([(r["what"], r["kind"], r["counts"], r["within"]) for r in model], [
            ("step", "emulated", "1", "1"), ("step", "emulated", "1", "1"), ("saving", "emulated", "1", "1"), ("saving", "emulated", "0", "0"),
            ("step", "measured", "1", "0"), ("step", "measured", "1", "1"),
        ])  # fmt: skip
        curve = self.rows("optimus_cc_curves", what="perplexity", arm="dense", step="150")
        self.assertAlmostEqual(float(curve[0]["value"]), math.exp(1.9 + 80 / 180))

    def test_numbers_of_tensor_parallelism_are_those_of_the_claims(self):
        both = self.rows("tensor_parallel_weak", row="3-D, 64 GPUs", kind="published")
        self.assertEqual([(r["what"], float(r["seconds"])) for r in both], [("average", 0.7), ("(f+b)/batch", 0.5)])
        self.assertIn("prints 0.700 s per sequence, its forward and backward times give 0.500 s", self.drawings["tensor_parallel_weak"].seen[0])
        self.assertEqual({r["scheme"] for r in self.rows("tensor_parallel_weak", what="tree")}, {"2-D"})  # others broadcast nothing
        # 10 + 250 / b = 33 at b = 250 / 23: between its points a curve is A + B / b.
        crossing = self.rows("tensor_parallel_bytes", panel="crossing with 1-D", method="2d 8x8")
        self.assertAlmostEqual(float(crossing[0]["batch"]), 250 / 23)
        counted = self.rows("tensor_parallel_bytes", kind="measured")
        self.assertEqual([(r["scheme"], r["batch"]) for r in counted], [("1-D", "30.0"), ("2-D", "384.0")] + 3 * [("3-D", "384.0")])
        self.assertAlmostEqual(float(counted[1]["million_elements"]), 10 + 250 / 384)
        at_384 = self.rows("tensor_parallel_at_64", what="seconds", scheme="2-D", batch="384", kind="modelled")
        self.assertEqual([r["quantity"] for r in at_384], ["pipelined", "tree"])  # in the table twice
        steps = self.rows("tensor_parallel_links")
        count = lambda **equal: len([r for r in steps if all(r[k] == v for k, v in equal.items())])
        self.assertEqual([count(panel=p) for p in ("model", "tesseract", "best", "eight")], [28, 6, 18, 12])
        self.assertEqual(count(kind="modelled"), 14)  # M1's alone
        self.assertEqual({r["value"] for r in steps if r["panel"] == "eight" and r["link_gbps"] == "10.0" and "twice" in r["quantity"]}, {"1.2"})
        stored = self.rows("tensor_parallel_cube", kind="measured")
        self.assertEqual([(r["quantity"], float(r["value"])) for r in stored if r["quantity"].endswith("q = 4")], [("stored over 1/q^3, q = 4", 1.0), ("most - least, q = 4", 0.0)])
        self.assertEqual(len(self.rows("tensor_parallel_cube", quantity="first element of bias")), 9)

    def test_recollected_numbers_are_drawn_on_request_only(self):
        kinds = lambda name: {r["kind"] for r in draw(name, self.claims).rows}
        names = ("tensor_parallel_weak", "terapipe_steps", "terapipe_lengths")
        before = [kinds(name) for name in names]
        folder = os.path.join(ROOT, "results", "published")
        try:
            self.claims.published = published.load(folder)
            self.assertFalse(any("recollected" in kinds(name) for name in names))
            self.claims.published = published.load(folder, recollected=True)
            self.assertTrue(all("recollected" in kinds(name) for name in names))
        finally:
            self.claims.published = []
        self.assertEqual(before, [kinds(name) for name in names])
        plt.close("all")

    def test_the_table_has_the_papers_stacks_and_no_number_of_the_paper(self):
        caption, header, rows = self.drawings["optimus_cc_stacks"].tables[0]
        self.assertEqual([r[0] for r in rows][:5], list(optimus_cc.STACKS))
        self.assertTrue(all(r[-1] == "not available" for r in rows), rows)
        self.assertEqual(header[-1], "paper")


class MissingData(unittest.TestCase):
    """A figure without its numbers is left out with a reason, and never invented."""

    def test_without_claims_every_figure_is_left_out_with_a_reason(self):
        for claims in (claims_of.Claims(), load([made.claim(f"optimus_cc.C{i}") for i in range(1, 17)])):
            for name in CLAIM_FIGURES:
                drawing = draw(name, claims)
                self.assertIsNone(drawing.figure, name)
                self.assertFalse(drawing.rows, name)
                self.assertRegex(drawing.gaps[0], "no data because no (judged )?claim", name)

    def test_the_reason_names_the_profile_that_judges(self):
        folder = made.write(scratch_folder(), [], {"optimus_cc.C10": "standard"})
        drawing = draw("optimus_cc_errors", claims_of.load(folder))
        self.assertIn("optimus_cc.C10 from profile standard", drawing.gaps[0])

    def test_timed_grids_that_were_not_judged_leave_their_panel_empty(self):
        some = [c for c in made.timed_grids(np.random.default_rng(SEED)) if c["id"] != "tensor_parallel.M1"]
        drawing = draw("tensor_parallel_links", load(some))
        self.assertEqual({r["panel"] for r in drawing.rows}, {"tesseract", "best", "eight"})
        self.assertIn("tensor_parallel.M1", " ".join(drawing.gaps))
        close(drawing)

    def test_numbers_that_are_not_there_leave_gaps(self):
        drawing = draw("optimus_cc_stages", load([made.stages(missing=(26.0,))]))
        emulated = [r for r in drawing.rows if r["kind"] == "emulated"]
        self.assertEqual((len(emulated), len(drawing.rows)), (10, 25))
        close(drawing)
        only_losses = draw("optimus_cc_stacks", load(made.quality(np.random.default_rng(SEED))))
        self.assertIn("no timed steps", " ".join(only_losses.gaps))
        self.assertEqual({r["what"] for r in only_losses.rows}, {"loss"})
        close(only_losses)

    def test_an_arm_that_breaks_training_leaves_the_others_readable(self):
        arms = {**made.ARMS, "naive ranks 2, 16": 3.1}
        drawing = draw("optimus_cc_stacks", load(made.quality(np.random.default_rng(SEED), arms)))
        self.assertEqual(drawing.figure.axes[0].get_xscale(), "symlog")
        close(drawing)

    def test_an_invalid_claims_numbers_are_drawn_and_named(self):
        claims = made.quality(np.random.default_rng(SEED))
        claims[0]["verdict"] = "INVALID"
        drawing = draw("optimus_cc_curves", load(claims))
        self.assertIn("optimus_cc.C1a is INVALID, its numbers decide nothing", " ".join(drawing.gaps))
        close(drawing)


class Reference(unittest.TestCase):
    """What a run did not judge is shown from the reference, and marked."""

    def setUp(self):
        folder = os.path.join(scratch_folder(), "results", "reference", "some-machine", "optimus_cc")
        made.write(folder, made.everything(SEED))
        self.reference = os.path.join(folder, "claims.json")

    def test_own_verdicts_come_first_and_the_rest_is_marked_with_date_and_machine(self):
        own = made.claim("optimus_cc.C13", "REFUTED", profile="quick", when="2026-12-01T00:00:00Z")
        folder = made.write(scratch_folder(), [own], {"optimus_cc.C13": "quick", "optimus_cc.C9": "standard", "optimus_cc.C99": "full"})
        claims = claims_of.load(folder, self.reference, "quick")
        self.assertEqual((claims.judged["optimus_cc.C13"].verdict, claims.judged["optimus_cc.C13"].origin), ("REFUTED", ""))
        html = claims_table.section(claims)
        mine, rest = html.split("<h3>From the reference run</h3>")
        self.assertIn("because of optimus_cc.C13", mine)
        self.assertNotIn("optimus_cc.C9", mine)
        self.assertIn("reference run of 2026-11-20 on some-machine", rest)
        self.assertRegex(rest, r"optimus_cc\.C9<br>.*reference run.*judged by --profile standard")
        self.assertRegex(rest, r"(?s)<h3>Not judged</h3>.*optimus_cc\.C99.*--profile full")

    def test_references_of_several_pages_fill_in_together(self):
        folder = os.path.join(os.path.dirname(os.path.dirname(self.reference)), "tensor_parallel")
        made.write(folder, [made.claim("tensor_parallel.C99")])
        claims = claims_of.load(scratch_folder(), [self.reference, os.path.join(folder, "claims.json"), os.path.join(folder, "none.json")])
        self.assertEqual({claims.judged[i].reference for i in ("optimus_cc.C13", "tensor_parallel.C99")}, {"some-machine"})
        self.assertEqual(len(claims.sha256["some-machine"].split()), 2)

    def test_figures_from_the_reference_say_so_in_the_picture_and_the_csv(self):
        claims = claims_of.load(made.write(scratch_folder(), made.stacks()[:1]), self.reference)
        cluster, errors, both = (draw(f"optimus_cc_{n}", claims) for n in ("cluster", "errors", "stacks"))
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


class Table(unittest.TestCase):
    """The table of claims."""

    def test_it_has_statement_provenance_basis_metric_interval_margin_verdict_and_reason(self):
        metric = made.measure("L(x) - L(dense)", 0.0123, 0.001, 0.02, 0.02, "nats per token")
        claims = load([made.claim("optimus_cc.C1a", "INCONCLUSIVE", measures=[metric]), made.claim("optimus_cc.C4", "FAIL", "exact")])
        html = claims_table.section(claims)
        for wanted in (
            "Statement of optimus_cc.C1a.", "<b>read</b>: the paper", "training", "L(x) - L(dense)", "0.01230 [0.00100, 0.0200] nats per token",
            "0.02 nats per token", "INCONCLUSIVE", "at this scale", "because of optimus_cc.C1a", 'class="fail">FAIL', "FAIL: optimus_cc.C4",
        ):  # fmt: skip
            self.assertIn(wanted, html)

    def test_text_of_claims_is_escaped(self):
        html = claims_table.section(load([made.claim("optimus_cc.C1a", because="a < b <script>")]))
        self.assertIn("a &lt; b &lt;script&gt;", html)

    def test_claims_are_in_the_order_of_their_numbers(self):
        identifiers = ["optimus_cc.C10", "optimus_cc.M1", "optimus_cc.C2b", "optimus_cc.C2a", "optimus_cc.C1"]
        ordered = [c.id for c in load([made.claim(i) for i in identifiers]).ordered()]
        self.assertEqual(ordered, ["optimus_cc.C1", "optimus_cc.C2a", "optimus_cc.C2b", "optimus_cc.C10", "optimus_cc.M1"])


class Programs(unittest.TestCase):
    """report.py as a user runs it."""

    def test_claims_alone_give_a_report(self):
        folder = made.write(scratch_folder(), made.stacks(), {"optimus_cc.C14a": "smoke", "optimus_cc.C10": "standard"})
        out = scratch_folder()
        done = run("report.py", "--claims", folder, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out (the report says why): optimus_cc_curves", done.stdout)
        figures = {name.split(".")[0] for name in os.listdir(os.path.join(out, "figures"))}
        self.assertEqual(figures, {"optimus_cc_stacks", "optimus_cc_breakdown", "optimus_cc_cluster"})
        with open(os.path.join(out, "report.html"), encoding="utf-8") as stream:
            text = stream.read()
        for wanted in ("Claims of the papers", "Figures not drawn", "from profile standard", "optimus_cc.C14a"):
            self.assertIn(wanted, text)

    def test_wrong_usage_and_damaged_files_end_with_their_status(self):
        out = scratch_folder()
        for status, pattern, arguments in (
            (2, "--collected FILE or --claims DIR", ()),
            (3, "holds no claims.json", ("--claims", out)),
            (2, "drawn from a collected file", ("--claims", made.write(scratch_folder(), []), "--only", "links")),
        ):
            done = run("report.py", "--out", out, *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, pattern)
        with tempfile.TemporaryDirectory() as folder:
            for content in ("{", "{}", json.dumps({"schema": 1, "claims": []}), json.dumps({"schema": 2, "claims": [{"id": "x"}]})):
                with open(os.path.join(folder, "claims.json"), "w", encoding="utf-8") as stream:
                    stream.write(content)
                with self.assertRaises(CorruptData):
                    claims_of.load(folder)
            done = run("report.py", "--claims", folder, "--out", out)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertRegex(done.stderr, "claims.json is no file of claims")
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
