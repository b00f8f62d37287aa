# labels: unit
# timeout: 120
"""experiments/text_tasks/make_tasks.py on a made-up language: every task, its files, what goes wrong, a task that somebody adds."""
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [ROOT, os.path.dirname(os.path.abspath(__file__))]
sys.dont_write_bytecode = True
from make_sources import write_language  # noqa: E402

from experiments.text_tasks.lib import discovery  # noqa: E402

TASKS = discovery.tasks()
LABELS = {"nli": {"0", "1", "2"}, "sim": None}  # of the others: two

ADDED = '''"""odd: is the number of words odd?"""
from experiments.text_tasks.lib.task import Row, Task


@Task(columns=("label", "sentence"), like="nothing", metric="accuracy", train=50, dev=10)
def rows(sources, stream):
    for synset in sources.wordnet:
        yield Row(synset.id, str(len(synset.definition.split()) % 2), (synset.definition,))
'''


def run(*arguments, root=ROOT):
    program = os.path.join(root, "experiments", "text_tasks", "make_tasks.py")
    return subprocess.run(["/usr/bin/python3", program, *arguments], capture_output=True, text=True, check=False)


def read(folder, name, side):
    """(header, rows) of a file, each line split at tabs."""
    with open(os.path.join(folder, name, f"{side}.tsv"), encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return rows[0], rows[1:]


def contents(folder):
    found = {}
    for below, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(below, name), "rb") as file:
                found[os.path.relpath(os.path.join(below, name), folder)] = file.read()
    return found


class MakeTasks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = scratch.name
        wordnet, gcide = write_language(cls.scratch)
        cls.language = ["--wordnet", wordnet, "--gcide", gcide]
        cls.out = os.path.join(cls.scratch, "out")
        cls.done = run("--out", cls.out, *cls.language)

    def test_every_task_is_made_and_counted(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), sorted(TASKS))
        self.assertEqual(len(self.done.stdout.splitlines()), 2 * len(TASKS))
        for name, task in TASKS.items():
            for side, most in (("train", task.train), ("dev", task.dev)):
                header, rows = read(self.out, name, side)
                self.assertEqual(tuple(header), task.columns)
                self.assertTrue(1 < len(rows) <= most, f"{name} {side}: {len(rows)}")
                self.assertIn(f"{name} {side} {len(rows)} rows, sha256 ", self.done.stdout)

    def test_rows_have_labels_and_texts(self):
        for name, task in TASKS.items():
            rows = [row for side in ("train", "dev") for row in read(self.out, name, side)[1]]
            self.assertTrue(all(len(row) == len(task.columns) and all(row) for row in rows), name)
            wanted = LABELS.get(name, {"0", "1"})
            if wanted:
                self.assertEqual({row[0] for row in rows}, wanted, name)
            else:
                self.assertTrue(all(0 <= float(row[0]) <= 5 for row in rows), name)

    def test_no_text_of_dev_is_in_train(self):
        for name in TASKS:
            train, dev = ({text for row in read(self.out, name, side)[1] for text in row[1:]} for side in ("train", "dev"))
            self.assertEqual(train & dev, set(), name)

    def test_equal_seeds_give_equal_bytes_and_others_do_not(self):
        again, other = os.path.join(self.scratch, "again"), os.path.join(self.scratch, "other")
        self.assertEqual(run("--out", again, *self.language, "--seed", "1").returncode, 0)
        self.assertEqual(contents(again), contents(self.out))
        self.assertEqual(run("--out", other, *self.language, "--seed", "2").returncode, 0)
        changed, first = contents(other), contents(self.out)
        self.assertEqual([path for path in first if changed[path] == first[path]], [])

    def test_a_task_alone_is_what_it_is_among_all(self):
        for name in TASKS:
            out = os.path.join(self.scratch, "alone")
            self.assertEqual(run("--out", out, *self.language, "--tasks", name).returncode, 0)
            self.assertEqual({path: data for path, data in contents(self.out).items() if path.startswith(name + "/")}, contents(out))
            shutil.rmtree(out)

    def test_wrong_usage_ends_with_2(self):
        for arguments, says in (
            ((), "--out"),
            (("--out", self.scratch, "--tasks", "acc,glue"), "unknown task glue; there are acc"),
            (("--out", self.scratch, "--seed", "-1"), "--seed"),
            (("--out", self.scratch, "--seed", "many"), "--seed"),
            (("--out", self.scratch, "--no-such-option"), "--no-such-option"),
        ):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)

    def test_a_missing_source_ends_with_3_and_names_its_package(self):
        out = os.path.join(self.scratch, "missing")
        for option, package in (("--wordnet", "wordnet-base"), ("--gcide", "dict-gcide")):
            done = run("--out", out, *self.language, "--tasks", "par", option, "/nowhere")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(package, done.stderr)
            self.assertIn("scripts/setup.sh --study", done.stderr)
        self.assertFalse(os.path.exists(out))

    def test_a_folder_that_cannot_be_written_ends_with_3(self):
        blocked = os.path.join(self.scratch, "file")
        with open(blocked, "w", encoding="utf-8"):
            pass
        done = run("--out", os.path.join(blocked, "below"), *self.language, "--tasks", "acc")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot write the task acc", done.stderr)

    def test_list_names_every_task(self):
        done = run("--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.partition(":")[0] for line in done.stdout.splitlines()], list(TASKS))

    def test_a_file_is_all_that_a_new_task_takes(self):
        root = os.path.join(self.scratch, "tree")
        for folder in ("experiments/text_tasks", "plots/lib"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(root, folder), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(os.path.join(ROOT, "plots", "__init__.py"), os.path.join(root, "plots"))
        with open(os.path.join(root, "experiments", "text_tasks", "tasks", "odd.py"), "w", encoding="utf-8") as file:
            file.write(ADDED)
        out = os.path.join(self.scratch, "odd")
        done = run("--out", out, *self.language, "--tasks", "odd", root=root)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([len(read(out, "odd", side)[1]) for side in ("train", "dev")], [50, 10])


class Layers(unittest.TestCase):
    def test_sources_know_no_task_and_tasks_no_other(self):
        base = os.path.join(ROOT, "experiments", "text_tasks")
        for room, strangers in (
            ("sources", ("tasks", "corpus", "lib")),
            ("tasks", ("tasks", "corpus")),
            ("lib", ("sources", "markup")),
            ("markup", ("tasks", "corpus", "lib")),
            ("corpus", ("tasks", "corpus")),
        ):
            for name in sorted(os.listdir(os.path.join(base, room))):
                if name.endswith(".py"):
                    with open(os.path.join(base, room, name), encoding="utf-8") as file:
                        text = file.read()
                    for stranger in strangers:
                        self.assertNotIn(f"from experiments.text_tasks.{stranger}", text, f"{room}/{name}")


if __name__ == "__main__":
    unittest.main()
