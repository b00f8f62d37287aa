# labels: docs
# timeout: 120
# needs: sweep, claims
"""Figures that ARTIFACT.md names exist, and its commands select what they say."""
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from plots.lib.figure import Source  # noqa: E402
from plots.report import discovery  # noqa: E402

with open(os.path.join(ROOT, "ARTIFACT.md"), encoding="utf-8") as stream:
    TEXT = stream.read()
ROWS = re.findall(r"^\| [^|]+ \| `([a-z_]+)` \| `(\w+=\w+)` \|", TEXT, re.M)


class Artifact(unittest.TestCase):
    def test_every_row_names_a_figure_that_a_run_without_a_gpu_draws(self):
        drawn = {name for name, figure in discovery.figures().items() if figure.reads in (Source.BENCHES, Source.TRAINING_RUNS)}
        self.assertGreaterEqual(len(ROWS), 10)
        self.assertEqual({figure for figure, _ in ROWS} - drawn, set())

    def test_every_part_selects_cells_of_the_quick_study(self):
        for part in sorted({part for _, part in ROWS}):
            done = subprocess.run(
                [os.path.join(BIN, "sweep"), "plan", os.path.join(ROOT, "experiments/studies/quick.toml"), "--out", "/nonexistent/out", "--where", part],
                capture_output=True, text=True, timeout=60, check=False,
            )
            self.assertEqual(done.returncode, 0, f"{part}: {done.stderr}")
            self.assertRegex(done.stdout, r"[1-9]\d* cells", part)

    def test_the_help_of_the_main_job_counts_cells_entrants_links_and_seeds(self):
        words = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "seven": 7, "ten": 10}
        said = subprocess.run([os.path.join(ROOT, "run_all.sh"), "--help"], capture_output=True, text=True, check=True).stdout
        for profile, course in (("smoke", "smoke"), ("quick", "quick"), ("standard", "pipeline")):
            (line,) = re.findall(rf"^ +{profile} +(\d+ cells, .*)$", said, re.M)
            planned = subprocess.run(
                [os.path.join(BIN, "sweep"), "plan", os.path.join(ROOT, f"experiments/studies/{profile}.toml"), "--out", "/nonexistent/out"],
                capture_output=True, text=True, timeout=60, check=True,
            ).stdout
            self.assertIn(re.search(r"(\d+) cells", planned)[0], line)
            with open(os.path.join(ROOT, f"experiments/race/courses/{course}.toml"), "rb") as stream:
                race = tomllib.load(stream)
            for noun, there in (("entrants?", race["entrant"]), ("links?", race["race"]["links"]), ("seeds?", race["race"]["seeds"])):
                if found := re.search(rf"(\w+) {noun}\b", line):
                    self.assertEqual(words[found[1]], len(there), f"{profile}: {found[0]}")
        self.assertIn(re.search(r"quick +(\d+ cells)", said)[1], TEXT)

    def test_every_file_that_a_command_names_exists(self):
        commands = re.findall(r"`([^`\n]+)`", TEXT) + re.findall(r"^build/bin/.*$|^/usr/bin/python3 .*$", TEXT, re.M)
        named = {word for command in commands for word in shlex.split(command) if re.match(r"(\./)?((plots|results|experiments|bench|docs)/|run_)[\w./-]*\.\w+$", word)}
        self.assertGreaterEqual(len(named), 6)
        for path in named:
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)
        for program in set(re.findall(r"build/bin/(\w+)", TEXT)):
            self.assertTrue(os.path.exists(os.path.join(BIN, program)), program)

    def test_every_id_of_a_claim_is_one_that_the_program_lists_and_that_its_folder_judged(self):
        done = subprocess.run([os.path.join(BIN, "claims"), "list", "--json"], capture_output=True, text=True, timeout=60, check=True)
        listed = {claim["id"] for claim in json.loads(done.stdout)["claims"] if claim["built"]}
        self.assertEqual({word for word in re.findall(r"\b\w+\.[CM]\d+\w?\b", TEXT)} - listed, set())
        (table,) = re.findall(r"^\| folder \| claims \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.M)
        self.assertGreaterEqual(len(table.splitlines()), 10)
        for row in table.splitlines():
            folder, claims = re.match(r"\| `(\w+)` \| (.*?) \|", row).groups()
            with open(os.path.join(ROOT, "results", "reference", "cpu-2-cores", folder, "claims.json"), encoding="utf-8") as stream:
                judged = {claim["id"] for claim in json.load(stream)["claims"]}
            for word in " ".join(re.findall(r"`([^`]+)`", claims)).split():
                self.assertRegex(word, r"^\w+(\.[CM]\d+\w?)?$", row)
                chosen = {i for i in listed if i == word or i.startswith(word + ".")}  # an id, or a whole page
                self.assertTrue(chosen, f"{folder}: `claims run {word}` is refused")
                self.assertTrue(chosen & judged, f"{folder}: {word} was not judged there")

    def test_named_tests_exist(self):
        for name in re.findall(r"ctest --test-dir build -R ([\w.]+)", TEXT):
            folder = os.path.join(ROOT, "tests", *name.split("."))
            self.assertTrue(os.path.isdir(folder) or any(os.path.exists(folder + ending) for ending in (".cpp", ".sh", ".py")), name)


if __name__ == "__main__":
    unittest.main()
