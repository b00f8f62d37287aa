# labels: unit
# timeout: 300
"""The rooms of plots/: who may import whom, each says what it is for, none grows into a pile, and none lists the figures."""
import ast
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import FIGURES, ROOT

MAY_IMPORT = {"lib": ("lib",), "figures": ("lib",), "report": ("lib", "report", "figures")}
MOST_FILES = 25


def files(room):
    """(path in plots/, text) of a room's Python files, its areas included."""
    for folder, _, names in os.walk(os.path.join(ROOT, "plots", room)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as stream:
                    yield os.path.relpath(path, os.path.join(ROOT, "plots")), stream.read()


def rooms_imported(text):
    """What a module imports of plots, wherever in it: the rooms' names; `.` for a relative import, `*` for one by a name made at run time."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        named = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                found.add(".")
            else:
                named = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id == "__import__":
            found.add("*")
        for name in named:
            parts = name.split(".")
            if parts[0] == "importlib":
                found.add("*")
            if parts[0] == "plots":
                found.add(parts[1] if len(parts) > 1 else "")
    return found


class Rooms(unittest.TestCase):
    def test_imports_point_from_report_to_figures_to_lib(self):
        for room, allowed in MAY_IMPORT.items():
            found = list(files(room))
            self.assertGreater(len(found), 5, room)
            for path, text in found:
                ask = {"*"} if room == "report" else set()  # discovery.py imports what it finds
                self.assertEqual(rooms_imported(text) - set(allowed) - ask, set(), f"{path} imports what {room} may not")

    def test_no_form_of_import_escapes_that_test(self):
        for text, wanted in (
            ("from plots.report import page", {"report"}),
            ("import plots.report.page as p", {"report"}),
            ("from plots import report", {"report"}),
            ("def f():\n    from plots.figures.links import links", {"figures"}),
            ("import plots", {""}),
            ("from ..report import page", {"."}),
            ("import importlib", {"*"}),
            ("from importlib import import_module", {"*"}),
            ("__import__('plots.report')", {"*"}),
            ("import math\nfrom plots.lib.errors import CorruptData", {"lib"}),
        ):
            self.assertEqual(rooms_imported(text), wanted, text)

    def test_plots_has_these_rooms_and_nothing_beside_them(self):
        found = {name for name in os.listdir(os.path.join(ROOT, "plots")) if name != "__pycache__"}
        self.assertEqual(found, {"__init__.py", *MAY_IMPORT})

    def test_every_room_and_area_says_what_lives_there(self):
        for folder, subfolders, _ in os.walk(os.path.join(ROOT, "plots")):
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            path = os.path.join(folder, "__init__.py")
            self.assertTrue(os.path.exists(path), f"{folder} lacks __init__.py")
            with open(path, encoding="utf-8") as stream:
                words = (ast.get_docstring(ast.parse(stream.read())) or "").split()
            self.assertGreater(len(words), 8, path)

    def test_no_folder_is_a_pile(self):
        for top in ("plots", os.path.join("tests", "plots")):
            for folder, subfolders, names in os.walk(os.path.join(ROOT, top)):
                subfolders[:] = [name for name in subfolders if name != "__pycache__"]
                self.assertLessEqual(len(names), MOST_FILES, folder)

    def test_tests_stand_in_the_rooms_of_what_they_test(self):
        for folder, subfolders, names in os.walk(os.path.join(ROOT, "tests", "plots")):
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            room = os.path.relpath(folder, os.path.join(ROOT, "tests", "plots"))
            self.assertTrue(os.path.isdir(os.path.join(ROOT, "plots", room)), f"tests/plots/{room} mirrors no room")

    def test_neither_lib_nor_report_names_a_figure(self):
        distinct = [name for name in FIGURES if "_" in name]  # `links` or `training` alone is a word of other meaning, too
        self.assertGreater(len(distinct), 25)
        for room in ("lib", "report"):
            for path, text in files(room):
                strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
                self.assertEqual(strings & set(distinct), set(), path)


if __name__ == "__main__":
    unittest.main()
