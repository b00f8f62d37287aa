# labels: unit
# timeout: 300
"""Loading and derived columns."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import ROOT, SEED, scratch_folder
import h5py
import make_collected as made
from make_collected import load
import numpy as np

from plots.lib import data
from plots.lib.errors import CorruptData, EnvironmentFailure
from plots.lib.schema import COLUMNS, LATER
from plots.report import verdicts


def scratch():
    return os.path.join(scratch_folder(), "collected.h5")


class Schema(unittest.TestCase):
    def test_columns_that_figures_read_are_those_of_the_document(self):
        with open(os.path.join(ROOT, "docs", "results-schema.md"), encoding="utf-8") as stream:
            text = stream.read()
        kinds = {"string": "text", "i64": "integer", "f64": "float"}
        for table in COLUMNS.keys() - {"provenance"}:
            section = re.search(rf"^## Table `/{table}`$(.+?)^## ", text, re.M | re.S)[1]
            documented = {
                name: kinds[kind]
                for name, kind in re.findall(r"^\| (\w+) \| (string|i64|f64) \|", section, re.M)
            }
            for name, kind in {**COLUMNS[table], **LATER.get(table, {})}.items():
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
        with self.assertRaisesRegex(CorruptData, "version 7.*version 2"):
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

    def test_speedups_over_transfers_of_two_types_are_not_pooled(self):
        rows = [made.row(program="bench_activation", traffic="tp_forward", method="A1", dtype=dtype, seed=seed, cell_id=f"{dtype} {seed}") for dtype, seeds in (("f32", 1), ("f16", 2)) for seed in range(seeds)]
        rows += [made.row(program="bench_activation", traffic="tp_forward", method="A1", status="FAILED", cell_id="failed"), made.row(program="bench_codec", traffic="codec", dtype="f32", cell_id="alone")]
        collected = load(rows)
        self.assertEqual(set(collected.cells["cell_id"]), {"f16 0", "f16 1", "failed", "alone"})
        self.assertEqual(len(collected.all_cells), 5)
        self.assertEqual(collected.notes, ["1 rows of bench_activation with f32 on the wire are in no figure; drawn are those with f16."])
        self.assertEqual(load(rows[1:]).notes, [])

    def test_absent_tables_are_empty_and_named(self):
        collected = load([made.row(traffic="codec")], keep_empty=False)
        self.assertEqual(collected.absent, COLUMNS.keys() - {"cells", "provenance"})
        self.assertEqual(len(collected.spectra), 0)

    def test_cells_of_the_trainer_are_kept_apart_and_counted(self):
        runs = made.training_runs(np.random.default_rng(SEED), ["netns:1gbit"], plans=("dense", "all"))
        failed = made.row(
            program="train_gpt", method="all", tp=2, pp=2, link="netns:1gbit", status="FAILED", reason="why"
        )
        collected = load([made.row(traffic="codec", program="bench_codec"), failed], runs=runs)
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
        cells = load(
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
        self.assertEqual(data.links(load(rows).cells), ["netns:100mbit", "netns:1gbit", "shm"])

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
        cells = load(rows).cells
        self.assertEqual(
            sorted(zip(cells["tp"], cells["traffic"])),
            [(1, "pp_forward"), (2, "pp_forward"), (2, "tp_forward"), (4, "tp_forward")],
        )


class Reasons(unittest.TestCase):
    def test_an_empty_selection_says_why(self):
        cells = load(
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


if __name__ == "__main__":
    unittest.main()
