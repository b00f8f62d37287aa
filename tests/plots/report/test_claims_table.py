# labels: unit
# timeout: 300
"""The report's section on claims, and the report of claims alone."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import SEED, run, scratch_folder
import make_claims as made
from make_claims import load

from plots.lib import claims as claims_of
from plots.report import claims_table


class Table(unittest.TestCase):
    def test_it_has_statement_provenance_basis_metric_interval_margin_verdict_and_reason(self):
        metric = made.measure("L(x) - L(dense)", 0.0123, 0.001, 0.02, 0.02, "nats per token")
        claims = load([made.claim("optimus_cc.C1a", "INCONCLUSIVE", measures=[metric]), made.claim("optimus_cc.C4", "FAIL", "exact")])
        html = claims_table.section(claims)
        for wanted in (
            "Statement of optimus_cc.C1a.", "<b>read</b>: the paper", "training", "L(x) - L(dense)", "0.01230 [0.00100, 0.0200] nats per token",
            "0.02 nats per token", "INCONCLUSIVE", "0123456789ab", "registered 2026-11-19", "claims run optimus_cc.C1a", "because of optimus_cc.C1a", 'class="fail">FAIL', "FAIL: optimus_cc.C4",
        ):  # fmt: skip
            self.assertIn(wanted, html)

    def test_a_rule_that_changed_after_results_and_earlier_verdicts_are_seen_without_unfolding(self):
        changed = made.claim(
            "optimus_cc.C1a", rule_changed="3 cells were made under another rule", changes=[{"date": "2026-11-20", "what": "margin 0.02", "why": "a slip"}],
            earlier=[{"when": "2026-11-18T00:00:00Z", "profile": "standard", "verdict": "INCONCLUSIVE", "because": "x", "rule": "y", "rule_hash": ""}],
            cells=["a" * 64], registered="",
        )  # fmt: skip
        html = claims_table.section(load([changed]))
        (line,) = re.findall(r'<details class="claim" id="optimus_cc\.C1a"><summary>(.*?)</summary>', html)
        for wanted in ("CONFIRMED", '<b class="id">C1a</b>', "Statement of optimus_cc.C1a.", "rule changed after results", "NOT REGISTERED", "earlier INCONCLUSIVE"):
            self.assertIn(wanted, line)
        for wanted in ("rule changed after results: 3 cells", "earlier, 2026-11-18: INCONCLUSIVE", "changed 2026-11-20: margin 0.02, because a slip", "1 cell", "aaaaaaaaaaaa"):
            self.assertIn(wanted, html)

    def test_verdicts_are_counted_in_one_order_paper_by_paper(self):
        verdicts = ["FAIL", "NOT REPRODUCED AT THIS SCALE", "CONFIRMED", "PASS", "CONFIRMED"]
        html = claims_table.section(load([made.claim(f"optimus_cc.C{i}", v) for i, v in enumerate(verdicts)]))
        self.assertIn("<h4>optimus_cc: 1 PASS, 2 CONFIRMED, 1 NOT REPRODUCED AT THIS SCALE and 1 FAIL</h4>", html)

    def test_text_of_claims_is_escaped(self):
        html = claims_table.section(load([made.claim("optimus_cc.C1a", because="a < b <script>")]))
        self.assertIn("a &lt; b &lt;script&gt;", html)


class Reference(unittest.TestCase):
    """What a run did not judge is shown from the reference, and marked."""

    def setUp(self):
        folder = os.path.join(scratch_folder(), "results", "reference", "some-machine", "optimus_cc")
        made.write(folder, made.everything(SEED))
        self.reference = os.path.join(folder, "claims.json")

    def test_own_verdicts_come_first_and_the_rest_is_marked_with_date_and_machine(self):
        own = made.claim("optimus_cc.C13", "NOT REPRODUCED AT THIS SCALE", profile="quick", when="2026-12-01T00:00:00Z")
        folder = made.write(scratch_folder(), [own], {"optimus_cc.C13": "quick", "optimus_cc.C9": "standard", "optimus_cc.C99": "full"})
        claims = claims_of.load(folder, self.reference, "quick")
        self.assertEqual((claims.judged["optimus_cc.C13"].verdict, claims.judged["optimus_cc.C13"].origin), ("NOT REPRODUCED AT THIS SCALE", ""))
        html = claims_table.section(claims)
        mine, rest = html.split("<h3>From the reference run</h3>")
        self.assertIn("because of optimus_cc.C13", mine)
        self.assertNotIn("optimus_cc.C9", mine)
        self.assertIn("reference run of 2026-11-20 on some-machine", rest)
        self.assertRegex(rest, r'(?s)id="optimus_cc\.C9">.*reference run.*judged by --profile standard')
        self.assertRegex(rest, r"(?s)<h3>Not judged</h3>.*optimus_cc\.C99.*--profile full")


class Programs(unittest.TestCase):
    """report.py as a user runs it."""

    def test_claims_alone_give_a_report(self):
        folder = made.write(scratch_folder(), made.stacks(), {"optimus_cc.C14a": "smoke", "optimus_cc.C10": "standard"})
        out = scratch_folder()
        done = run("report.py", "--claims", folder, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"left out \(the report says why\): (race_\w+, )+margins, optimus_cc_learning_rate, optimus_cc_trend, optimus_cc_curves")
        figures = {name.split(".")[0] for name in os.listdir(os.path.join(out, "figures"))}
        self.assertEqual(figures, {"optimus_cc_stacks", "optimus_cc_breakdown", "optimus_cc_cluster"})
        with open(os.path.join(out, "report.html"), encoding="utf-8") as stream:
            text = stream.read()
        for wanted in ("Claims: what the papers state", "Figures not drawn", "from profile standard", "optimus_cc.C14a"):
            self.assertIn(wanted, text)

    def test_wrong_usage_and_damaged_files_end_with_their_status(self):
        out = scratch_folder()
        for status, pattern, arguments in (
            (2, "--collected FILE, --claims DIR or --race DIR", ()),
            (3, "holds no claims.json", ("--claims", out)),
            (3, f"{out}/nowhere holds no race.json", ("--race", f"{out}/nowhere")),
            (3, f"--reference {out}/nowhere.json: there is no such file", ("--claims", made.write(scratch_folder(), []), "--reference", "", f"{out}/nowhere.json")),
            (2, "drawn from a collected file", ("--claims", made.write(scratch_folder(), []), "--only", "links")),
        ):
            done = run("report.py", "--out", out, *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, pattern)
            self.assertEqual(os.listdir(out), [])
        folder = scratch_folder()
        with open(os.path.join(folder, "claims.json"), "w", encoding="utf-8") as stream:
            stream.write('{"schema": 3, "claims": [{"id": "x"}]}')
        done = run("report.py", "--claims", folder, "--out", out)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertRegex(done.stderr, "claims.json is no file of claims")
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
