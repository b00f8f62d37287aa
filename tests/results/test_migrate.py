# labels: unit
# timeout: 60
"""results/migrate.py: collected files of schema version 1 under the names of today."""
import json
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIGRATE = os.path.join(ROOT, "results", "migrate.py")

# A cell that was measured under version 1, and its id then. The id of today is the one that tests/results/test_records.cpp has from results/cell.cpp.
OLD_ID = "0157b4dc3980a8c9e059c1c33fd46d2e63b7b42230d4a732bd85d1f78e446ef2"
NEW_ID = "661674946ee92fa8c1045a1397ccc428359f86a8577d0e2ddd17eba26dfba13e"
OLD_COMMAND = (
    "mpirun -n 4 bench_activation --batch 8 --capture capture.h5 --codec quantize:bits=2 --form fair --hidden 512 --method Q1 --pp 1"
    " --repetitions 3 --seed 1 --seq 128 --serial 1 --tp 4 --wire f16 --link netns:100mbit"
)


def write_old(path, rows, version=1):
    cells = np.array(
        [(i.encode(), p.encode(), t.encode(), link.encode(), ranks, 1.25, c.encode()) for i, p, t, link, ranks, c in rows],
        dtype=[("cell_id", "S64"), ("program", "S24"), ("traffic", "S24"), ("link", "S24"), ("ranks", "<i8"), ("twin_us", "<f8"), ("repro", "S519")],
    )
    samples = np.array([(r[0].encode(), 1, 2.5) for r in rows], dtype=[("cell_id", "S64"), ("twin", "<i8"), ("total_us", "<f8")])
    with h5py.File(path, "w") as file:
        file.attrs["schema_version"] = version
        file.attrs["created"] = "2026-11-21T09:48:56.047Z"
        file.create_dataset("cells", data=cells)
        file.create_dataset("samples", data=samples)


class Migrate(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.old, self.new = os.path.join(scratch.name, "old.h5"), os.path.join(scratch.name, "new.h5")

    def migrate(self, *more):
        return subprocess.run(["/usr/bin/python3", MIGRATE, self.old, self.new, *more], capture_output=True, text=True, check=False)

    def test_a_measured_cell_gets_the_id_of_today_and_keeps_its_numbers(self):
        write_old(self.old, [(OLD_ID, "bench_activation", "tp_forward", "netns:100mbit", 4, OLD_COMMAND)])
        done = self.migrate()
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.new) as file:
            self.assertEqual(file.attrs["schema_version"], 2)
            self.assertEqual(file.attrs["migrated_from_schema"], 1)
            self.assertEqual(file.attrs["created"], "2026-11-21T09:48:56.047Z")
            row = file["cells"][0]
            self.assertEqual(row["cell_id"].decode(), NEW_ID)
            self.assertEqual(row["baseline_us"], 1.25)
            self.assertNotIn("twin_us", file["cells"].dtype.names)
            self.assertEqual(row["repro"].decode(), OLD_COMMAND.replace("--wire f16", "--comm-dtype f16"))
            sample = file["samples"][0]
            self.assertEqual((sample["cell_id"].decode(), sample["baseline"], sample["total_us"]), (NEW_ID, 1, 2.5))

    def test_a_cell_whose_command_is_not_its_id_is_refused_and_nothing_is_written(self):
        write_old(self.old, [(OLD_ID, "bench_activation", "tp_forward", "netns:100mbit", 4, OLD_COMMAND.replace("--seed 1", "--seed 2"))])
        done = self.migrate()
        self.assertEqual(done.returncode, 6)
        self.assertIn(OLD_ID, done.stderr)
        self.assertFalse(os.path.exists(self.new))

    def test_another_version_is_refused_by_name(self):
        write_old(self.old, [(OLD_ID, "bench_activation", "tp_forward", "netns:100mbit", 4, OLD_COMMAND)], version=2)
        done = self.migrate()
        self.assertEqual(done.returncode, 6)
        self.assertIn("schema version 2", done.stderr)

    def test_a_file_that_is_missing_is_named_and_nothing_is_written(self):
        nowhere = os.path.join(os.path.dirname(self.old), "nowhere", "claims.json")
        done = self.migrate()
        self.assertEqual((done.returncode, done.stderr), (3, f"migrate.py: No such file or directory: {self.old}\n"))
        write_old(self.old, [(OLD_ID, "bench_activation", "tp_forward", "netns:100mbit", 4, OLD_COMMAND)])
        done = self.migrate("--claims", nowhere, nowhere)
        self.assertEqual((done.returncode, done.stderr), (3, f"migrate.py: No such file or directory: {nowhere}\n"))
        self.assertFalse(os.path.exists(self.new))
        self.new = os.path.join(os.path.dirname(nowhere), "new.h5")
        done = self.migrate()
        self.assertEqual(done.returncode, 3)
        self.assertIn(self.new, done.stderr)

    def test_a_file_that_is_no_hdf5_is_corrupt_and_named(self):
        with open(self.old, "w", encoding="utf-8") as file:
            file.write("text")
        done = self.migrate()
        self.assertEqual((done.returncode, done.stderr), (6, f"migrate.py: {self.old} is damaged or no HDF5 file\n"))
        self.assertFalse(os.path.exists(self.new))

    def test_ids_in_verdicts_follow(self):
        write_old(self.old, [(OLD_ID, "bench_activation", "tp_forward", "netns:100mbit", 4, OLD_COMMAND)])
        claims = os.path.join(os.path.dirname(self.old), "claims.json")
        with open(claims, "w", encoding="utf-8") as file:
            json.dump({"cells": [OLD_ID], "command": "train_gpt --wire f32 --steps 2"}, file)
        done = self.migrate("--claims", claims, claims)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(claims, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"cells": [NEW_ID], "command": "train_gpt --comm-dtype f32 --steps 2"})

    def test_flags_and_classes_are_those_of_the_document(self):
        import sys

        sys.path.insert(0, os.path.dirname(MIGRATE))
        import migrate

        with open(os.path.join(ROOT, "docs", "renamed.md"), encoding="utf-8") as file:
            text = file.read()
        for old, new in {**migrate.FLAGS, **migrate.CLASSES, **migrate.GRID_CLASSES}.items():
            self.assertRegex(text, rf"\| `(--)?{old}` \|.*`(--)?{new}`", old)
        # Grids metered their matrices under the classes of sharded data parallelism.
        self.assertEqual(migrate.renamed_flag("compress.weight_gather.layers", "2", migrate.GRID_CLASSES), ("compress.tp_weight.layers", "2"))
        self.assertEqual(migrate.renamed_flag("compress.weight_gather", "ef", migrate.CLASSES), ("compress.param_all_gather", "ef"))
        self.assertEqual(migrate.renamed_flag("shard-optimizer", "true", migrate.CLASSES), ("zero-stage", "1"))
        self.assertEqual(migrate.renamed_flag("omit", "pp_forward,gradient_scatter", migrate.CLASSES), ("omit", "pp_forward,grad_reduce_scatter"))


if __name__ == "__main__":
    unittest.main()
