# labels: unit
# timeout: 900
"""A figure is one file: dropped into a copy of the tree it is drawn and reported, removed it is gone, broken it stops the report."""
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import FIGURES, ROOT, SEED, read_csv, run, scratch_folder
import make_collected as made
import numpy as np

with open(os.path.join(ROOT, "docs", "figures.md"), encoding="utf-8") as _stream:
    EXAMPLE = re.search(r"^```python\n(.+?)^```", _stream.read(), re.S | re.M)[1]  # what the document tells to write


def copied_tree(keep=("links",)):
    """A tree with plots/ alone, and of its figures only those named."""
    root = scratch_folder()
    for room in ("lib", "report"):
        shutil.copytree(os.path.join(ROOT, "plots", room), os.path.join(root, "plots", room), ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(ROOT, "plots", "__init__.py"), os.path.join(root, "plots"))
    os.makedirs(os.path.join(root, "plots", "figures"))
    for name in keep:
        add(root, f"{FIGURES[name].area}/{name}.py", original(name))
    return root


def original(name):
    with open(os.path.join(ROOT, "plots", "figures", FIGURES[name].area, name + ".py"), encoding="utf-8") as stream:
        return stream.read()


def add(root, path, text):
    path = os.path.join(root, "plots", "figures", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


class Discovery(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.collected = os.path.join(scratch_folder(), "collected.h5")
        made.write(cls.collected, [], links=made.link_rows(np.random.default_rng(SEED), ["netns:1gbit"]))

    def report(self, root, *arguments, fresh=False):
        """(finished report.py of a tree, what it wrote)."""
        out = scratch_folder()
        return run("report.py", "--collected", self.collected, "--out", out, *arguments, root=root, fresh=fresh), out

    def test_every_file_of_the_figures_is_found(self):
        folder = os.path.join(ROOT, "plots", "figures")
        files = {name[: -len(".py")] for area in os.scandir(folder) if area.is_dir() for name in os.listdir(area) if name.endswith(".py")}
        self.assertEqual(files - {"__init__"}, set(FIGURES))
        self.assertGreater(len(FIGURES), 30)

    def test_a_new_file_is_drawn_with_its_csv_and_stands_in_the_report_in_its_order(self):
        root = copied_tree()
        add(root, "new_area/carried.py", EXAMPLE)
        done, out = self.report(root, fresh=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({name.split(".")[0] for name in os.listdir(os.path.join(out, "figures"))}, {"links", "carried"})
        for ending in ("pdf", "png"):
            self.assertGreater(os.path.getsize(os.path.join(out, "figures", f"carried.{ending}")), 1000)
        with open(os.path.join(out, "figures", "carried.csv"), encoding="utf-8") as stream:
            rows = read_csv(stream.read())[1]
        self.assertEqual({row["link"] for row in rows}, {"netns:1gbit"})
        with open(os.path.join(out, "report.html"), encoding="utf-8") as stream:
            page = stream.read()
        sections = [anchor for anchor in re.findall(r'<section id="(\w+)"', page) if anchor in ("links", "carried")]
        self.assertEqual(sections, ["links", "carried"], "100 before 105")
        self.assertIn(f"{len(rows)} calibrations.", page)
        listed = run("report.py", "--list", root=root, fresh=False)
        self.assertRegex(listed.stdout, r"new_area\n  carried +What the links carried, per direction\.")
        add(root, "new_area/carried.py", EXAMPLE.replace("order=105", "order=95"))
        self.assertRegex(run("report.py", "--list", root=root, fresh=False).stdout, r"(?s)carried.*links")

    def test_a_new_file_can_be_drawn_alone(self):
        root = copied_tree()
        add(root, "links/carried.py", EXAMPLE)
        done, out = self.report(root, "--only", "carried")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({name.split(".")[0] for name in os.listdir(os.path.join(out, "figures"))}, {"carried"})

    def test_a_file_that_is_no_working_figure_is_named_and_nothing_is_drawn(self):
        for path, text, said in (
            ("links/broken.py", "import nothing_of_that_name\n", r"links/broken\.py, line 1, cannot be imported: ModuleNotFoundError"),
            ("links/broken.py", '"""Half."""\n\nx = (\n', r"links/broken\.py, line 3, cannot be imported: SyntaxError"),
            ("links/broken.py", "1 / 0\n", r"links/broken\.py, line 1, cannot be imported: ZeroDivisionError"),
            ("links/broken.py", EXAMPLE.replace("order=105", "place=105"), r"links/broken\.py, line \d+, cannot be imported: TypeError"),
            ("links/broken.py", '"""No figure."""\n', r"links/broken\.py declares 0 figures"),
            ("links/broken.py", EXAMPLE + EXAMPLE.replace("def draw(", "def again("), r"links/broken\.py declares 2 figures"),
            ("broken.py", EXAMPLE, r"figures/broken\.py lies outside the folder of an area"),
            ("links/more/broken.py", EXAMPLE, r"links/more/broken\.py lies outside the folder of an area"),
            ("codecs/links.py", EXAMPLE, "two figures are called links"),
        ):
            root = copied_tree()
            add(root, path, text)
            done, out = self.report(root, "--only", "links")
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertRegex(done.stderr, said)
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(os.listdir(out), [])

    def test_a_builder_that_returns_no_drawing_is_named(self):
        root = copied_tree()
        add(root, "links/carried.py", EXAMPLE.replace("    return drawing\n", ""))
        done, _ = self.report(root)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("the figure carried returned NoneType", done.stderr)


if __name__ == "__main__":
    unittest.main()
