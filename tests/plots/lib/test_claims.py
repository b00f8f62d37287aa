# labels: unit
# timeout: 300
"""Reading claims: order, damaged files, and what references fill in."""
import json
import os
import sys
import tempfile
import unittest
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import scratch_folder
import make_claims as made
from make_claims import load

from plots.lib import claim_drawing
from plots.lib import claims as claims_of
from plots.lib.errors import CorruptData


class Reading(unittest.TestCase):
    def test_claims_are_in_the_order_of_their_numbers(self):
        identifiers = ["optimus_cc.C10", "optimus_cc.M1", "optimus_cc.C2b", "optimus_cc.C2a", "optimus_cc.C1"]
        ordered = [c.id for c in load([made.claim(i) for i in identifiers]).ordered()]
        self.assertEqual(ordered, ["optimus_cc.C1", "optimus_cc.C2a", "optimus_cc.C2b", "optimus_cc.C10", "optimus_cc.M1"])

    def test_damaged_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for content in ("{", "{}", json.dumps({"schema": 2, "claims": []}), json.dumps({"schema": 3, "claims": [{"id": "x"}]})):
                with open(os.path.join(folder, "claims.json"), "w", encoding="utf-8") as stream:
                    stream.write(content)
                with self.assertRaises(CorruptData):
                    claims_of.load(folder)

    def test_a_figure_is_given_the_tables_of_the_claims_that_name_it(self):
        losses = [made.table("validation loss", ["seed 1"], [("dense", [2.0])]), made.table("steps", ["x"], [("dense", [1.0])])]
        claims = load([made.claim("a.C2", tables=losses, figure="curves"), made.claim("b.C1", tables=losses, figure="curves"), made.claim("a.C1", tables=losses, figure="bars")])
        self.assertEqual([t.claim.id for t in claims.tables_of("curves", name="loss")], ["a.C2", "b.C1"])
        self.assertIn("a.C2 is CONFIRMED, b.C1 is CONFIRMED", claims.why_none_of("curves", what="spans"))
        claims.judged, claims.listed = {}, [{"id": "a.C2", "statement": "", "from": "full", "figure": "curves"}, {"id": "a.C1", "statement": "", "from": "quick"}]
        self.assertIn("(a.C2 from profile full upwards)", claims.why_none_of("curves"))

    def test_references_of_several_pages_fill_in_together(self):
        root = os.path.join(scratch_folder(), "results", "reference", "some-machine")
        own, other = os.path.join(root, "optimus_cc"), os.path.join(root, "tensor_parallel")
        made.write(own, [made.claim("optimus_cc.C13")])
        made.write(other, [made.claim("tensor_parallel.C99")])
        claims = claims_of.load(scratch_folder(), [os.path.join(own, "claims.json"), os.path.join(other, "claims.json"), os.path.join(other, "none.json")])
        self.assertEqual({claims.judged[i].reference for i in ("optimus_cc.C13", "tensor_parallel.C99")}, {"some-machine"})
        self.assertEqual(len(claims.sha256["some-machine"].split()), 2)

    def test_of_several_references_the_last_verdict_counts_and_ones_own_run_before_all(self):
        root = os.path.join(scratch_folder(), "results", "reference", "some-machine")
        first, again, mine = os.path.join(root, "z_first"), os.path.join(root, "again"), os.path.join(scratch_folder(), "mine")
        made.write(first, [made.claim("a.C1", verdict="CONFIRMED", when="2026-11-20T10:11:12Z")])
        made.write(again, [made.claim("a.C1", verdict="INCONCLUSIVE", when="2026-11-21T10:11:12Z")])
        made.write(mine, [made.claim("a.C1", verdict="UNSTABLE", when="2026-11-19T10:11:12Z")])
        references = [os.path.join(folder, "claims.json") for folder in (again, first)]
        for order in (references, references[::-1]):
            self.assertEqual(claims_of.load(scratch_folder(), order).judged["a.C1"].verdict, "INCONCLUSIVE")
            self.assertEqual(claims_of.load(mine, order).judged["a.C1"].verdict, "UNSTABLE")

    def test_a_figure_of_many_runs_names_a_machine_once_with_the_days(self):
        def number(day, machine):
            return SimpleNamespace(claim=SimpleNamespace(reference=machine, date=day))

        here = number("2026-11-29", "")
        runs = [number("2026-11-24", "two-cores"), number("2026-11-23", "two-cores"), number("2026-11-24", "two-cores")]
        self.assertEqual(claim_drawing.origin_note([here]), "")
        self.assertEqual(claim_drawing.origin_note(runs[:1]), "From the reference run of 2026-11-24 on two-cores, not from this run")
        self.assertEqual(claim_drawing.origin_note(runs), "From the reference runs of 2026-11-23 and 2026-11-24 on two-cores, not from this run")
        self.assertEqual(
            claim_drawing.origin_note([here, *runs, number("2026-11-22", "gpu")]),
            "In part from the reference run of 2026-11-22 on gpu and reference runs of 2026-11-23 and 2026-11-24 on two-cores, not from this run",
        )


if __name__ == "__main__":
    unittest.main()
