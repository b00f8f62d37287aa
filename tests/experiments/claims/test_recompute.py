# labels: unit
# timeout: 600
# needs: claims
"""The committed verdicts follow from the committed cells: every claim of results/reference whose rule is registered is judged again, and nothing is measured. Not again: exact claims without cells, some
of which compute for minutes; anybody's run_all.sh computes them anew."""
import glob
import json
import math
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
PAGES = sorted(glob.glob(os.path.join(ROOT, "results", "reference", "*", "*", "claims.json")))


def judged(path):
    with open(path, encoding="utf-8") as stream:
        return {claim["id"]: claim for claim in json.load(stream)["claims"]}


def follows_from_cells(claim):
    return claim["rule_hash"] and (claim["cells"] or claim["basis"] != "exact")


def equal(a, b):
    """Numbers up to the last digits that another compiler's sums may have; words exactly."""
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return a == b


def present_rules(*pages):
    """{claim: hash of its rule as it is now}, of these pages or of all"""
    listed = subprocess.run([os.path.join(BIN, "claims"), "list", *pages, "--json"], capture_output=True, text=True, check=True)
    return {claim["id"]: claim["rule_hash"] for claim in json.loads(listed.stdout)["claims"]}


class Recompute(unittest.TestCase):
    rules = present_rules()

    def again(self, page):
        """Claims of this page judged again, by id."""
        folder = os.path.dirname(page)
        wanted = {}  # profile: ids
        for identifier, claim in judged(page).items():
            if follows_from_cells(claim) and claim["rule_hash"] == self.rules[identifier]:
                wanted.setdefault(claim["profile"], []).append(identifier)
        if not wanted:
            return {}
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        for kept in glob.glob(os.path.join(folder, "*_probe")):  # what claims compute themselves and keep
            os.symlink(kept, os.path.join(scratch.name, os.path.basename(kept)))
        cells = [word for file in sorted(glob.glob(os.path.join(folder, "*.h5"))) for word in ("--cells-of", file)]
        for profile, ids in sorted(wanted.items()):  # one claims.json takes them all
            command = [os.path.join(BIN, "claims"), "run", *ids, "--profile", profile, *cells, "--out", scratch.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return judged(os.path.join(scratch.name, "claims.json"))

    def test_a_page_lists_all_its_claims(self):
        for page in sorted({identifier.split(".")[0] for identifier in self.rules}):
            self.assertEqual(present_rules(page), {i: rule for i, rule in self.rules.items() if i.startswith(page + ".")}, page)

    def test_verdicts_and_numbers_are_those_that_are_committed(self):
        self.assertTrue(PAGES, "no reference of claims is committed")
        for page in PAGES:
            now = self.again(page)
            for identifier, claim in judged(page).items():
                if not follows_from_cells(claim):
                    continue
                with self.subTest(identifier):
                    if claim["rule_hash"] != self.rules[identifier]:
                        self.assertIn("by a former rule", claim["rule_changed"], "a verdict by another rule than the present one must say so")
                        continue
                    self.assertIn(identifier, now, "its cells are not among those that are committed")
                    mine = now[identifier]
                    self.assertEqual(mine["verdict"], claim["verdict"])
                    self.assertEqual(mine["rule_hash"], claim["rule_hash"])
                    self.assertEqual(mine["cells"], claim["cells"])
                    self.assertEqual([m["name"] for m in mine["measures"]], [m["name"] for m in claim["measures"]])
                    for a, b in zip(mine["measures"], claim["measures"]):
                        for key in ("value", "low", "high", "margin"):
                            self.assertTrue(equal(a[key], b[key]), f"{a['name']}: {key} {a[key]} where {b[key]} is committed")

    def test_all_cells_behind_a_verdict_fit_in_32_mib(self):
        size = sum(os.path.getsize(os.path.join(at, f)) for page in PAGES for at, _, files in os.walk(os.path.dirname(page)) for f in files)
        self.assertLessEqual(size, 32 << 20)

    def test_runs_at_the_same_moment_keep_each_others_verdicts(self):
        ids = ["optimus_cc.C4", "optimus_cc.C7", "tensor_parallel.C16", "tensor_parallel.M2"]
        with tempfile.TemporaryDirectory() as out:
            runs = [subprocess.Popen([os.path.join(BIN, "claims"), "run", one, "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for one in ids]
            self.assertEqual([run.wait(120) for run in runs], [0] * len(ids))
            self.assertEqual(set(judged(os.path.join(out, "claims.json"))), set(ids))


if __name__ == "__main__":
    unittest.main()
