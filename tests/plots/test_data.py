# labels: unit
# timeout: 120
"""Loading, derived columns and verdicts of the figures."""
import os
import re
import unittest

from support import ROOT, SEED, scratch_folder
import h5py
import make_collected as made
import numpy as np

from matplotlib.text import Text

from plots import data, published, style, verdicts, words
from plots.errors import CorruptData, EnvironmentFailure


def scratch():
    return os.path.join(scratch_folder(), "collected.h5")


def loaded(rows, **tables):
    path = scratch()
    made.write(path, rows, **tables)
    return data.load(path)


class Schema(unittest.TestCase):
    def test_columns_that_figures_read_are_those_of_the_document(self):
        with open(os.path.join(ROOT, "docs", "results-schema.md"), encoding="utf-8") as stream:
            text = stream.read()
        kinds = {"string": "text", "i64": "integer", "f64": "float"}
        for table in data.COLUMNS.keys() - {"provenance"}:
            section = re.search(rf"^## Table `/{table}`$(.+?)^## ", text, re.M | re.S)[1]
            documented = {
                name: kinds[kind]
                for name, kind in re.findall(r"^\| (\w+) \| (string|i64|f64) \|", section, re.M)
            }
            for name, kind in data.COLUMNS[table].items():
                self.assertEqual(documented.get(name), kind, f"/{table} {name}")

    def test_damaged_and_foreign_files_are_refused_with_a_remedy(self):
        path = scratch()
        made.write(path, [made.row(program="bench_codec", traffic="codec")])
        with open(path, "rb") as stream:
            content = stream.read()
        for cut in (0, 1, 100, len(content) // 2):
            with open(path, "wb") as stream:
                stream.write(content[:cut])
            with self.assertRaisesRegex(CorruptData, "truncated or damaged"):
                data.load(path)
        with self.assertRaises(EnvironmentFailure):
            data.load(path + ".missing")

    def test_another_schema_version_is_refused_naming_both(self):
        path = scratch()
        made.write(path, [made.row(traffic="codec")], attributes={"schema_version": 7})
        with self.assertRaisesRegex(CorruptData, "version 7.*version 1"):
            data.load(path)

    def test_a_missing_column_or_table_is_named(self):
        path = scratch()
        with h5py.File(path, "w") as file:
            file.attrs["schema_version"] = 2
        with self.assertRaisesRegex(CorruptData, "/cells"):
            data.load(path)
        row = made.row(traffic="codec")
        del row["baseline_us"]
        made.write(path, [row])
        with self.assertRaisesRegex(CorruptData, "baseline_us"):
            data.load(path)

    def test_absent_tables_are_empty_and_named(self):
        collected = loaded([made.row(traffic="codec")], keep_empty=False)
        self.assertEqual(collected.absent, data.COLUMNS.keys() - {"cells", "provenance"})
        self.assertEqual(len(collected.spectra), 0)

    def test_cells_of_the_trainer_are_kept_apart_and_counted(self):
        runs = made.training_runs(np.random.default_rng(SEED), ["netns:1gbit"], plans=("dense", "all"))
        failed = made.row(
            program="train_gpt", method="all", tp=2, pp=2, link="netns:1gbit", status="FAILED", reason="why"
        )
        collected = loaded([made.row(traffic="codec", program="bench_codec"), failed], runs=runs)
        self.assertEqual(collected.cells.distinct("program"), ["bench_codec"])
        self.assertEqual(collected.training_cells.distinct("program"), ["train_gpt"])
        self.assertEqual(len(collected.all_cells), 2 + len(runs["cells"]), "a failed run stays one row")
        counts = {
            link: (cells, rows, statuses["FAILED"])
            for link, _, cells, rows, statuses in verdicts.link_counts(collected)
        }
        self.assertEqual(counts["netns:1gbit"], (3, 1 + 2 * len(made.STEP_BYTES), 1))
        self.assertIn(("FAILED", "why", 1, ["netns:1gbit"]), verdicts.reasons(collected))


class Names(unittest.TestCase):
    def test_family_and_label_of_a_codec_expression(self):
        self.assertEqual(data.family_of("topk:fraction=0.01+ef"), "topk")
        self.assertEqual(data.family_of("none"), "none")
        self.assertEqual(data.family_of(""), "none")
        self.assertEqual(data.compact("powersgd:rank=4,wire=f16+ef:decay=0.9"), "powersgd 4 f16 +ef")
        self.assertEqual(data.label_of("T3", "topk:k=100"), "T3")
        self.assertEqual(data.label_of("topk", "topk:k=100"), "topk 100")

    def test_two_codecs_never_share_a_label(self):
        cells = loaded(
            [
                made.row(traffic="codec", method="powersgd", codec=c)
                for c in ("powersgd:rank=4", "powersgd:min_ratio=4", "powersgd:rank=8")
            ]
        ).cells
        self.assertEqual(len(set(cells["label"])), 3)
        self.assertIn("powersgd 8", set(cells["label"]))

    def test_nominal_rates_and_the_order_of_links(self):
        self.assertEqual(data.nominal_gbps("netns:100mbit"), 0.1)
        self.assertEqual(data.nominal_gbps("netns:2.5gbit"), 2.5)
        self.assertTrue(np.isnan(data.nominal_gbps("shm")))
        rows = [
            made.row(traffic="tp_forward", link=l, link_gbps=g)
            for l, g in (("shm", np.nan), ("netns:1gbit", 0.96), ("netns:100mbit", np.nan))
        ]
        self.assertEqual(data.links(loaded(rows).cells), ["netns:100mbit", "netns:1gbit", "shm"])

    def test_a_cell_that_ended_early_stands_for_each_class_of_its_layout(self):
        rows = [
            made.row(
                program="bench_activation",
                method="T1",
                codec="topk",
                tp=tp,
                pp=pp,
                link="shm",
                status="FAILED",
                reason="why",
                cell_id=f"{tp}{pp}",
            )
            for tp, pp in ((1, 4), (2, 2), (4, 1))
        ]
        cells = loaded(rows).cells
        self.assertEqual(
            sorted(zip(cells["tp"], cells["traffic"])),
            [(1, "pp_forward"), (2, "pp_forward"), (2, "tp_forward"), (4, "tp_forward")],
        )

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


class Reasons(unittest.TestCase):
    def test_an_empty_selection_says_why(self):
        cells = loaded(
            [
                made.row(
                    traffic="tp_forward",
                    link="netns:1gbit",
                    status="SKIPPED",
                    reason="no namespaces here",
                    cell_id=str(i),
                )
                for i in range(3)
            ]
        ).cells
        text = data.why_none(cells, "links")
        self.assertIn("3 SKIPPED (no namespaces here)", text)
        self.assertTrue(
            data.why_none(cells.where(traffic="embedding"), "embedding").startswith("no data because")
        )


class Verdicts(unittest.TestCase):
    def rows(self):
        speedups = {"A1": (1.2, 1.4, 0.9), "T1": (1.04, 1.0, 1.2), "Q3": (0.5, 1.01, 1.05), "none": (1, 1, 1)}
        errors = {"A1": 0.5, "T1": 0.9, "Q3": 0.01, "none": 0}
        for method, values in speedups.items():
            for i, value in enumerate(values):
                yield made.row(
                    program="bench_activation",
                    traffic="tp_forward",
                    method=method,
                    codec={"A": "autoencoder", "T": "topk", "Q": "quantize", "n": "none"}[method[0]],
                    protocol="gather",
                    link="netns:1gbit",
                    link_gbps=0.95,
                    tp=4,
                    ranks=4,
                    batch=8 * (i + 1),
                    seq=128,
                    speedup=value,
                    relative_l2=errors[method],
                )

    def test_pays_by_the_median_and_never_by_the_maximum(self):
        rows = list(self.rows())
        (verdict,) = verdicts.verdicts(loaded(rows))
        self.assertEqual((verdict.methods, verdict.cells), (3, 9))
        self.assertEqual(verdict.pays, ["A1"])
        self.assertEqual(verdict.never, ["Q3"])
        self.assertEqual(verdict.best, ("A1", 1.2, 1.4, 0.5))
        self.assertEqual(verdict.low_error, ("Q3", 1.01, 1.05, 0.01))

    def test_mistrusted_rows_are_counted_but_never_judged(self):
        rows = list(self.rows())
        for row in rows:
            if row["method"] == "A1":
                row.update(status="MISTRUSTED", reason="off by 20 %")
        collected = loaded(rows)
        (verdict,) = verdicts.verdicts(collected)
        self.assertEqual(verdict.pays, [])
        ((_, _, _, total, counts),) = verdicts.link_counts(collected)
        self.assertEqual((total, counts["MISTRUSTED"]), (12, 3))
        self.assertEqual(verdicts.reasons(collected), [("MISTRUSTED", "off by 20 %", 3, ["netns:1gbit"])])

    def test_rows_without_a_speedup_give_no_verdict(self):
        rows = list(self.rows())
        for row in rows:
            row["speedup"] = np.nan
        self.assertEqual(verdicts.verdicts(loaded(rows)), [])


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
