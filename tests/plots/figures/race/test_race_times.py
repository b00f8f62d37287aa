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
from plots.lib import race, race_looks, words
from plots.lib.errors import CorruptData


def change(folder, edit):
    """Edits every standing of race.json."""
    path = os.path.join(folder, "race.json")
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    for s in written["standings"]:
        edit(s)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(written, file)


def points_of(panel):
    return [line for line in panel.lines if line.get_marker() not in ("None", "", None)]


class RaceTimes(unittest.TestCase):
    def test_a_row_is_an_entrant_its_point_the_factor_and_beside_it_stands_the_time(self):
        standings = race.load(make_race.write(scratch_folder()))
        drawing = draw("race_times", standings)
        self.assertEqual(len(drawing.rows), 6)
        names = [label.get_text() for label in drawing.figure.axes[0].get_yticklabels()]
        self.assertEqual(names, ["8 bits", "dense", "top 5 %"], "the soonest first, who does not arrive last")
        for panel, link in zip(drawing.figure.axes, make_race.LINKS):
            rows = {r["entrant"]: r for r in drawing.rows if r["link"] == link}
            at = {names[round(float(p.get_ydata()[0]))]: p for p in points_of(panel)}
            self.assertEqual({e: float(p.get_xdata()[0]) for e, p in at.items()}, {e: r["sooner"] for e, r in rows.items()})
            self.assertEqual([e for e, p in at.items() if p.get_markerfacecolor() == "white"], ["top 5 %"], "bounds are hollow")
            self.assertEqual(at["top 5 %"].get_marker(), "<")
            told = {names[round(t.get_position()[1])]: t.get_text() for t in panel.texts if not t.get_text().startswith("T")}
            self.assertEqual(told, {e: (">" if e == "top 5 %" else "") + words.number(r["seconds"], 3) for e, r in rows.items()})
            self.assertIn("T (s)", [t.get_text() for t in panel.texts])
        self.assertIn("8 bits reaches 2.5 nats", " ".join(drawing.seen))
        self.assertIn("top 5 %", drawing.seen[-1])
        close(drawing)

    def test_times_of_a_link_share_the_unit_that_fits_the_shortest(self):
        folder = make_race.write(scratch_folder())
        longer = dict(zip(make_race.LINKS, (100, 1000)))  # the shortest of each link take minutes, and hours
        change(folder, lambda s: s.update(seconds=s["seconds"] * longer[s["link"]]))
        drawing = draw("race_times", race.load(folder))
        for panel, link, unit, length in zip(drawing.figure.axes, make_race.LINKS, ("min", "h"), (60, 3600)):
            texts = [t.get_text().lstrip(">") for t in panel.texts]
            self.assertEqual(texts[-1], f"T ({unit})")
            self.assertEqual(sorted(texts[:-1]), sorted(words.number(r["seconds"] / length, 3) for r in drawing.rows if r["link"] == link))
        close(drawing)

    def test_triangles_point_to_where_the_value_lies(self):
        folder = make_race.write(scratch_folder())
        change(folder, lambda s: s.update(arrived={"dense": 2, "8 bits": 3, "top 5 %": 3}[s["entrant"]]))
        drawing = draw("race_times", race.load(folder))
        names = [label.get_text() for label in drawing.figure.axes[0].get_yticklabels()]
        for panel in drawing.figure.axes:
            hollow = {names[round(float(p.get_ydata()[0]))]: p.get_marker() for p in points_of(panel) if p.get_markerfacecolor() == "white"}
            self.assertEqual(hollow, {"8 bits": ">", "top 5 %": ">"})
            self.assertIn(">", [t.get_text() for t in panel.texts if round(t.get_position()[1]) == names.index("dense")][0])
        close(drawing)

    def test_verdicts_are_colours(self):
        drawing = draw("race_times", race.load(make_race.write(scratch_folder())))
        for panel, link in zip(drawing.figure.axes, make_race.LINKS):
            tints = sorted(p.get_color() for p in points_of(panel))
            self.assertEqual(tints, sorted(race_looks.VERDICT_COLOURS[r["verdict"]] for r in drawing.rows if r["link"] == link))
        close(drawing)

    def test_one_seed_has_no_whiskers(self):
        with_intervals = draw("race_times", race.load(make_race.write(scratch_folder())))
        without = draw("race_times", race.load(make_race.write(scratch_folder(), seeds=1)))
        for a, b in zip(with_intervals.figure.axes, without.figure.axes):
            self.assertEqual(len(a.lines) - len(b.lines), 3)
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
