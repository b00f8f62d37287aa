# labels: docs
# timeout: 120
# needs: sweep
"""ARTIFACT.md names every figure, and its commands select what they say."""
import os
import re
import shlex
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from plots.report import FIGURES  # noqa: E402

with open(os.path.join(ROOT, "ARTIFACT.md"), encoding="utf-8") as stream:
    TEXT = stream.read()
ROWS = re.findall(r"^\| [^|]+ \| `([a-z_]+)` \| `(\w+=\w+)` \|", TEXT, re.M)


class Artifact(unittest.TestCase):
    def test_every_figure_has_a_row_and_every_row_a_figure(self):
        self.assertEqual({figure for figure, _ in ROWS}, set(FIGURES))

    def test_every_part_selects_cells_of_the_quick_study(self):
        for part in sorted({part for _, part in ROWS}):
            done = subprocess.run(
                [os.path.join(BIN, "sweep"), "plan", os.path.join(ROOT, "experiments/studies/quick.toml"), "--out", "/nonexistent/out", "--where", part],
                capture_output=True, text=True, timeout=60, check=False,
            )
            self.assertEqual(done.returncode, 0, f"{part}: {done.stderr}")
            self.assertRegex(done.stdout, r"[1-9]\d* cells", part)

    def test_every_file_that_a_command_names_exists(self):
        commands = re.findall(r"`([^`\n]+)`", TEXT) + re.findall(r"^build/bin/.*$|^/usr/bin/python3 .*$", TEXT, re.M)
        named = {word for command in commands for word in shlex.split(command) if re.match(r"(\./)?(plots|results|experiments|bench|docs|run_)[\w./-]*\.\w+$", word)}
        self.assertGreaterEqual(len(named), 6)
        for path in named:
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)
        for program in set(re.findall(r"build/bin/(\w+)", TEXT)):
            self.assertTrue(os.path.exists(os.path.join(BIN, program)), program)

    def test_named_tests_exist(self):
        for name in re.findall(r"ctest --test-dir build -R ([\w.]+)", TEXT):
            folder = os.path.join(ROOT, "tests", *name.split("."))
            self.assertTrue(os.path.isdir(folder) or any(os.path.exists(folder + ending) for ending in (".cpp", ".sh", ".py")), name)


if __name__ == "__main__":
    unittest.main()
