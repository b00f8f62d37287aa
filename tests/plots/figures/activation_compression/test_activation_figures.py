# labels: unit
# timeout: 200
"""Figures of the claims about compressed activations draw the numbers of their tables, and say what is missing without them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw, scratch_folder
import make_activations as made
from make_claims import load, write

# Figures that the claims themselves name.
OWN = {"activation_losses": "those whose figure is activation_losses", "fine_tuning_drop": "those whose figure is fine_tuning_drop", "fine_tuning_bytes": "those whose figure is fine_tuning_drop"}
FIGURES = ("activation_losses", "fine_tuning_drop", "fine_tuning_bytes", "activation_places", "activation_changes", "activation_links", "activation_scaling", "activation_widths")


class ActivationFigures(unittest.TestCase):
    def drawn(self, name, claims):
        drawing = draw(name, load(claims))
        self.addCleanup(close, drawing)
        return drawing

    def test_losses_are_in_nats_and_of_the_same_seed(self):
        drawing = self.drawn("activation_losses", made.boundaries())
        self.assertEqual(len(drawing.figure.axes), 2)
        five = {r["seed"]: r["difference"] for r in drawing.rows if r["arm"] == "Top-5 %, own masks"}
        for seed, lost in {"seed 1": 0.298, "seed 2": 0.3, "seed 3": 0.302}.items():
            self.assertAlmostEqual(five[seed], lost, places=9)
        arms = [tick.get_text() for panel in drawing.figure.axes for tick in panel.get_yticklabels()]
        self.assertEqual(len(arms), len(set(arms)), "an arm that two claims share is drawn once")

    def test_arms_are_compared_with_the_baseline_of_their_own_run(self):
        own, reference = made.boundaries()[0], made.boundaries()[1]
        for table in own["tables"]:
            for row in table["rows"]:
                row["values"] = [1.1 * v for v in row["values"]]  # another text
        folder = write(os.path.join(scratch_folder(), "machine", "page"), [reference])
        drawing = draw("activation_losses", load([own], reference=os.path.join(folder, "claims.json")))
        self.addCleanup(close, drawing)
        self.assertEqual(len(drawing.figure.axes), 2)
        for row in drawing.rows:
            self.assertEqual(row["origin"] == "", "C17" in row["comparison"], row)
            if row["arm"] == "Top-10 %, own masks":
                expected = (0.03 + 0.002 * (int(row["seed"][-1]) - 2)) * (1.1 if row["origin"] == "" else 1)
                self.assertAlmostEqual(row["difference"], expected, places=9)

    def test_arms_of_another_build_are_not_joined(self):
        one, other = made.boundaries()[:2]
        for table in other["tables"]:
            table["rows"][0]["values"][0] += 0.001  # the baseline of seed 1
        drawing = self.drawn("activation_losses", [one, other])
        self.assertEqual(sorted({r["comparison"] for r in drawing.rows}), ["activations, Top-K (C17, standard)", "activations, Top-K (C19, standard)"])

    def test_windows_of_one_place_are_no_comparison_and_who_diverged_is_named(self):
        claim = made.places()
        for table in claim["tables"]:
            table["rows"] = [r for r in table["rows"] if not r["label"].endswith((" 0", " 1"))]  # the last n alone, as C4a trains them
            for row in table["rows"]:
                if row["label"] == "Top-5 %, layers 0-3":
                    row["values"] = [None] * len(row["values"])
        drawing = self.drawn("activation_places", [claim])
        self.assertEqual({r["panel"] for r in drawing.rows}, {"how many"})
        self.assertEqual(len(drawing.figure.axes), 1)
        self.assertEqual(sorted(r["at"] for r in drawing.rows if r["method"] == "Top-5 %"), [1, 2, 3])
        self.assertIn("Top-5 % of all 4 layers diverged with every seed", " ".join(drawing.seen))

    def test_the_heat_map_has_a_box_for_each_arm_and_task(self):
        drawing = self.drawn("fine_tuning_drop", [made.fine_tuning()])
        self.assertEqual(len(drawing.rows), (1 + len(made.KEPT)) * len(made.TASKS))
        box = next(r for r in drawing.rows if r["arm"] == "T1: Top-K, 0.98 %" and r["task"] == "acc")
        self.assertAlmostEqual(box["drop"], 100 * 0.8 * 0.4, places=9)
        self.assertEqual({r["task"] for r in drawing.rows if not r["counts"]}, {"nli"})
        self.assertIn("NO TEST", drawing.figure.axes[0].get_xticklabels()[3].get_text())
        self.assertIn("loses 31 points over 3 tasks", " ".join(drawing.seen))

    def test_of_claims_that_share_tasks_the_one_with_the_most_arms_is_drawn(self):
        few = made.fine_tuning()
        few["id"] = "activation_compression.C2c"
        few["tables"] = [{**t, "rows": [r for r in t["rows"] if r["label"] not in ("R4: Random-K, 9.8 %", "Q1: 2 bits")]} for t in few["tables"]]
        for claims in ([made.fine_tuning(), few], [{**few, "id": "activation_compression.C2a"}, {**made.fine_tuning(), "id": "activation_compression.C2c"}]):
            drawing = self.drawn("fine_tuning_drop", claims)
            self.assertEqual(len(drawing.rows), (1 + len(made.KEPT)) * len(made.TASKS))

    def test_a_corner_is_drawn_alone_and_beside_the_study(self):
        alone = self.drawn("fine_tuning_drop", [made.corner()])
        self.assertEqual({r["arm"]: round(r["drop"], 6) for r in alone.rows}, {arm: round(100 * (0.7 - reached), 6) for arm, reached in made.CORNER.items()})
        self.assertEqual({r["counts"] for r in alone.rows}, {1})
        self.assertIn("1 seed", alone.figure.axes[0].get_title(loc="left"))
        both = self.drawn("fine_tuning_drop", [made.fine_tuning(), made.corner()])
        self.assertEqual(len(both.rows), (1 + len(made.KEPT)) * len(made.TASKS) + len(made.CORNER))
        self.assertEqual(both.figure.axes[0].get_title(loc="left"), "fine-tuning, tp 2 x pp 2, 3 seeds and a small BERT from scratch, 1 seed")

    def test_a_claim_of_fine_tuned_models_that_names_no_figure_is_not_drawn(self):
        other = {**made.fine_tuning(), "id": "activation_compression.C12", "figure": ""}
        self.assertEqual(self.drawn("fine_tuning_drop", [other]).rows, [])
        for claims in ([other, made.corner()], [made.corner(), other]):
            self.assertEqual(len(self.drawn("fine_tuning_drop", claims).rows), len(made.CORNER))

    def test_accuracy_against_bytes_shows_the_tasks_that_count(self):
        drawing = self.drawn("fine_tuning_bytes", [made.fine_tuning()])
        self.assertEqual({r["task"] for r in drawing.rows}, {"acc", "par", "sim"})
        for row in drawing.rows:
            self.assertAlmostEqual(row["retention"], made.KEPT[row["arm"]], places=9)
            self.assertEqual(row["ratio"], made.RATIOS[row["arm"]])

    def test_accuracy_against_bytes_that_nobody_counted_says_so(self):
        claim = made.fine_tuning()
        for table in claim["tables"]:
            if table["name"].startswith("link bytes"):
                for row in table["rows"]:
                    row["values"] = [None] * len(row["values"])
        drawing = self.drawn("fine_tuning_bytes", [claim])
        self.assertEqual(drawing.rows, [])
        self.assertIn("link bytes of fine-tuning", " ".join(drawing.gaps))

    def test_titles_and_labels_over_links_do_not_overlap(self):
        figure = self.drawn("activation_links", made.links()).figure
        figure.canvas.draw()
        titles = [(panel.title if panel.get_title() else panel._left_title).get_window_extent() for panel in figure.axes]
        self.assertTrue(all(box.width > 0 for box in titles))
        labels = [sorted((tick.get_window_extent() for tick in panel.get_xticklabels()), key=lambda box: box.x0) for panel in figure.axes]
        for row in [titles, *labels]:
            for left, right in zip(row, row[1:]):
                self.assertLessEqual(left.x1, right.x0 + 4)  # pixels: fonts differ
        self.assertLessEqual(titles[-1].x1, figure.bbox.x1)

    def test_windows_and_last_layers_are_told_apart(self):
        drawing = self.drawn("activation_places", [made.places(), made.places(8)])
        of = lambda kind, layers: [r for r in drawing.rows if r["panel"] == kind and r["comparison"].endswith(f"{layers} layers")]
        self.assertEqual({r["layers"] for r in of("where", 4)}, {"0", "1", "3"})
        self.assertEqual({r["layers"] for r in of("where", 8)}, {"0 to 1", "3 to 4", "6 to 7"})
        self.assertEqual(sorted({r["at"] for r in of("how many", 8)}), [2, 4, 6, 8])
        all_layers = next(r for r in of("how many", 4) if r["at"] == 4 and r["method"] == "Top-5 %")
        self.assertAlmostEqual(all_layers["difference"], 0.08, places=9)

    def test_changes_by_epoch_and_speed_ups_by_link(self):
        changes = self.drawn("activation_changes", [made.changes()])
        self.assertEqual(len(changes.rows), 3 * 3 * 9)
        self.assertIn("In front of layer 1", changes.seen[0])
        links = self.drawn("activation_links", made.links())
        self.assertEqual(len(links.figure.axes), 4)
        self.assertEqual(len(links.rows), 10 + 4 + 5 + 5)

    def test_growing_models_have_measured_points_and_a_model_beside_them(self):
        drawing = self.drawn("activation_scaling", made.growing())
        self.assertEqual([panel.get_title(loc="left") or panel.get_title() for panel in drawing.figure.axes], ["hidden size grows alone", "nodes grow with it"])
        of = lambda claim, basis: [(r["hidden"], r["nodes"]) for r in drawing.rows if r["claim"].endswith(claim) and r["basis"] == basis]
        self.assertEqual(of("C8", "measured"), [(h, "") for h in (192, 256, 384, 512, 768)])
        self.assertEqual(of("C8", "model"), [(h, "") for h in (192, 768, 3072, 12288)])
        self.assertEqual(of("C9", "model"), [(6144, 1), (12288, 8), (25600, 64)])
        for row in drawing.rows:
            self.assertAlmostEqual(row["speedup"], 1 + 20 / row["hidden"], places=9)
        self.assertIn("measured 1.104 times as fast at hidden 192 and 1.026 at 768", drawing.seen[0])
        alone = self.drawn("activation_scaling", made.growing()[1:])
        self.assertEqual((len(alone.figure.axes), {r["claim"] for r in alone.rows}), (1, {"activation_compression.C9"}))

    def test_losses_stand_over_the_bytes_of_codes(self):
        drawing = self.drawn("activation_widths", [made.sizes()])
        percents = {(r["method"], r["size"]): r["percent"] for r in drawing.rows}
        self.assertEqual(percents, {("auto-encoder, f16", "32"): 25.0, ("Top-K", "25"): 25.0, ("quantisation", "4"): 25.0, ("auto-encoder, f16", "6"): 4.6875, ("Top-K", "4.7"): 4.7,
                                    ("PowerSGD, f16", "16"): 18.75})  # fmt: skip
        for row, lost in zip(drawing.rows, made.SIZES.values()):
            self.assertAlmostEqual(row["difference"], lost, places=9)
        self.assertIn("At 25 % of the bytes quantisation loses least", drawing.seen[0])

    def test_codes_of_unknown_tensors_and_in_f32(self):
        claim = made.sizes()
        claim["rule"] = "a rule. Settings: hidden 128. Arms: dense."  # not how many rows
        self.assertEqual({r["method"] for r in self.drawn("activation_widths", [claim]).rows}, {"auto-encoder, f16", "Top-K", "quantisation"})
        claim = made.sizes()
        for row in claim["tables"][0]["rows"]:
            row["label"] = row["label"].replace("width 32", "width 32, f32")
        found = {r["method"]: r["percent"] for r in self.drawn("activation_widths", [claim]).rows if r["size"] == "32"}
        self.assertEqual(found, {"auto-encoder, f32": 50.0})

    def test_without_the_claims_each_says_what_is_missing(self):
        for name in FIGURES:
            drawing = self.drawn(name, [])
            self.assertEqual(drawing.rows, [], name)
            self.assertRegex(" ".join(drawing.gaps), OWN.get(name, r"activation_compression\.C\d"), name)


if __name__ == "__main__":
    unittest.main()
