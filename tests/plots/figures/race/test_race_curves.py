# labels: unit
# timeout: 120
"""Loss against seconds and against bytes: points are curves times what a step takes and sends; marks lie at the first validation at or below the target."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw, scratch_folder
import make_race
from plots.lib import race, race_looks


class RaceCurves(unittest.TestCase):
    def test_seconds_are_steps_times_the_links_step(self):
        drawing = draw("race_loss_seconds", race.load(make_race.write(scratch_folder())))
        self.assertEqual({r["entrant"] for r in drawing.rows}, {"dense", "8 bits"})
        for r in drawing.rows:
            at = make_race.LINKS.index(r["link"])
            self.assertAlmostEqual(r["seconds"], r["steps"] * make_race.STEP_MS[r["entrant"]][at] / 1e3)
        for panel, at in zip(drawing.figure.axes, range(2)):
            marks = sorted(float(line.get_xdata()[0]) for line in panel.lines if line.get_linestyle() == "None")
            # Losses reach 2.5 at 180 steps and, validated every 20, at 200 instead of 190.
            self.assertEqual([round(m, 9) for m in marks], sorted(round(n * make_race.STEP_MS[e][at] / 1e3, 9) for e, n in (("dense", 180), ("8 bits", 200))))
        self.assertIn("top 5 %", drawing.gaps[0])
        close(drawing)

    def test_bytes_are_steps_times_a_steps(self):
        drawing = draw("race_loss_bytes", race.load(make_race.write(scratch_folder())))
        for r in drawing.rows:
            self.assertEqual(r["bytes"], r["steps"] * 1e6)
        self.assertIn("dense, 180 MB", drawing.seen[0])
        close(drawing)

    def test_of_many_entrants_the_soonest_have_a_colour_each_and_the_others_are_pale(self):
        few = race.load(make_race.write(scratch_folder()))
        self.assertEqual(len({look["color"] for look in race_looks.looks(few).values()}), 3)
        standings = [{**s, "entrant": f"{s['entrant']} {i}", "sooner": s["sooner"] * (1 + i / 100)} for s in few.standings if s["entrant"] == "8 bits" for i in range(15)]
        many = race.Race("out/race", [s for s in few.standings if s["entrant"] == "dense"] + standings)
        looks = race_looks.looks(many)
        self.assertEqual({e for e, look in looks.items() if look["color"] != race_looks.PALE}, {"dense"} | {f"8 bits {i}" for i in range(7, 15)})
        self.assertEqual(len({(look["color"], look["marker"]) for look in looks.values()}), 10)
        self.assertEqual([h.get_label() for h in race_looks.handles(many, ["dense", "8 bits 0", "8 bits 1", "8 bits 14"])], ["dense", "8 bits 14", "2 others"])

    def test_a_race_without_curves_says_how_to_have_them(self):
        folder = make_race.write(scratch_folder())
        path = os.path.join(folder, "race.json")
        with open(path, encoding="utf-8") as file:
            old = json.load(file)
        del old["entrants"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(old, file)
        for name in ("race_loss_seconds", "race_loss_bytes"):
            drawing = draw(name, race.load(folder))
            self.assertIsNone(drawing.figure)
            self.assertIn("no curves", drawing.gaps[0])

    def test_without_a_race_they_say_how_to_run_one(self):
        for name in ("race_loss_seconds", "race_loss_bytes"):
            self.assertIn("race run", draw(name, race.load(scratch_folder())).gaps[0])


if __name__ == "__main__":
    unittest.main()
