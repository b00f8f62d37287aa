# labels: unit
# timeout: 60
"""results/migrate_claims.py: verdicts of schema 2 under the words of today."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from plots.lib import claims as claims_of


def old_claim(identifier, verdict, basis):
    return {
        "id": identifier, "statement": "s", "provenance": "read: x", "rule": "the rule of then", "basis": basis, "profile": "standard",
        "when": "2026-11-21T10:11:12Z", "verdict": verdict, "because": "the reason", "tables": [],
        "measures": [{"name": "m", "value": 1.25, "low": 1.0, "high": None, "margin": None, "unit": "x"}],
    }  # fmt: skip


class MigrateClaims(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = os.path.join(scratch.name, "claims.json")

    def write(self, content):
        with open(self.path, "w", encoding="utf-8") as stream:
            stream.write(content)

    def migrate(self):
        program = os.path.join(ROOT, "results", "migrate_claims.py")
        return subprocess.run(["/usr/bin/python3", program, self.path, self.path], capture_output=True, text=True, check=False)

    def test_words_change_numbers_do_not_and_figures_read_the_file(self):
        self.write(json.dumps({"schema": 2, "claims": [
            old_claim("optimus_cc.C1a", "REFUTED", "training"), old_claim("tensor_parallel.C7", "REFUTED", "published numbers"),
            old_claim("optimus_cc.C4", "PASS", "exact"),
        ]}))  # fmt: skip
        done = self.migrate()
        self.assertEqual(done.returncode, 0, done.stderr)
        claims = claims_of.load(os.path.dirname(self.path)).judged
        self.assertEqual(
            {i: c.verdict for i, c in claims.items()},
            {"optimus_cc.C1a": "NOT REPRODUCED AT THIS SCALE", "tensor_parallel.C7": "REFUTED", "optimus_cc.C4": "PASS"},
        )
        one = claims["optimus_cc.C1a"]
        self.assertEqual((one.because, one.measures[0].value, one.measures[0].low, one.rule), ("the reason", 1.25, 1.0, "the rule of then"))
        self.assertEqual((one.rule_hash, one.registered), ("", ""))
        self.assertIn("before rules were registered", one.rule_changed)

    def test_another_schema_and_damaged_files_are_refused_and_left_alone(self):
        for content in ("{", "{}", json.dumps({"schema": 3, "claims": []}), json.dumps({"schema": 2, "claims": [{"id": "x"}]})):
            self.write(content)
            done = self.migrate()
            self.assertEqual(done.returncode, 6, content)
            self.assertNotIn("Traceback", done.stderr)
            with open(self.path, encoding="utf-8") as stream:
                self.assertEqual(stream.read(), content)


if __name__ == "__main__":
    unittest.main()
