# labels: unit
# timeout: 120
"""The figure of the race draws the standings, tells bounds from times, and stands first in the report."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import close, draw, run, scratch_folder
import make_race
from plots.lib import race
from plots.lib.errors import CorruptData


class RaceTimes(unittest.TestCase):
    def test_points_are_the_standings(self):
        drawing = draw("race_times", race.load(make_race.write(scratch_folder())))
        self.assertEqual(len(drawing.rows), 6)
        for panel, what in zip(drawing.figure.axes, ("seconds", "sooner")):
            points = [line for line in panel.lines if line.get_linestyle() == "None"]
            self.assertEqual(sorted(float(p.get_ydata()[0]) for p in points), sorted(r[what] for r in drawing.rows))
            hollow = [float(p.get_ydata()[0]) for p in points if p.get_markerfacecolor() == "white"]
            self.assertEqual(sorted(hollow), sorted(r[what] for r in drawing.rows if r["entrant"] == "top 5 %"), "bounds are hollow")
        self.assertIn("8 bits reaches 2.5 nats", " ".join(drawing.seen))
        self.assertIn("top 5 %", drawing.seen[-1])
        close(drawing)

    def test_triangles_point_to_where_the_value_lies(self):
        folder = make_race.write(scratch_folder())
        path = os.path.join(folder, "race.json")
        with open(path, encoding="utf-8") as file:
            written = json.load(file)
        for s in written["standings"]:
            s["arrived"] = {"dense": 2, "8 bits": 3, "top 5 %": 3}[s["entrant"]]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(written, file)
        drawing = draw("race_times", race.load(folder))
        for panel, what, bounds in zip(drawing.figure.axes, ("seconds", "sooner"), (["dense"], ["8 bits", "top 5 %"])):
            hollow = [(line.get_marker(), float(line.get_ydata()[0])) for line in panel.lines if line.get_linestyle() == "None" and line.get_markerfacecolor() == "white"]
            self.assertEqual(sorted(hollow), sorted(("^", r[what]) for r in drawing.rows if r["entrant"] in bounds))
        close(drawing)

    def test_one_seed_has_no_whiskers(self):
        with_intervals = draw("race_times", race.load(make_race.write(scratch_folder())))
        without = draw("race_times", race.load(make_race.write(scratch_folder(), seeds=1)))
        for a, b in zip(with_intervals.figure.axes, without.figure.axes):
            self.assertEqual(len(a.lines) - len(b.lines), 6)
        close(with_intervals), close(without)

    def test_without_a_race_it_says_how_to_run_one(self):
        drawing = draw("race_times", race.load(scratch_folder()))
        self.assertIsNone(drawing.figure)
        self.assertIn("race run", drawing.gaps[0])

    def test_a_damaged_file_is_named(self):
        folder = make_race.write(scratch_folder())
        path = os.path.join(folder, "race.json")
        for text in ("{", "[]", '{"answers": [], "standings": [{}]}'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(CorruptData, re.escape(path)):
                race.load(folder)

    def test_the_report_opens_with_it(self):
        out = scratch_folder()
        done = run("report.py", "--race", make_race.write(scratch_folder()), "--out", out, "--only", "race_times")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertLess(page.index("The answer: which method reaches the loss first"), page.index("Claims: what the papers state"))
        self.assertIn("On 20 Mbit/s 8 bits reaches 2.5 nats 2.92", page)
        self.assertIn("&gt;400", page)


if __name__ == "__main__":
    unittest.main()
