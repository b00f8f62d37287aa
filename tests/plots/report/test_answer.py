# labels: unit
# timeout: 120
"""The leaderboard of the report's first heading: numbers with their intervals, and which of them are bounds."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support  # puts the tree on the path
import make_race

from plots.lib import race as race_of
from plots.lib.race import Race
from plots.report import answer


def rows(change=lambda s: {}, seeds=3):
    """The texts of the first link's rows, by entrant."""
    race = Race("out/race", [race_of._standing({**s, **change(s)}) for s in make_race.standings(seeds)])
    first = answer.standings(race).split("</table>")[-2]  # the slowest link comes first, LINKS[0] last
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", first)]
    return {row[1]: row for row in cells if row}


class Leaderboard(unittest.TestCase):
    def test_a_number_has_its_interval_and_the_baselines_factor_has_none(self):
        found = rows()
        self.assertEqual(found["8 bits"][2:6], ["190", "15.5", "2.94 [2.68, 3.24]", "0.917 [0.833, 1.01]"])
        self.assertEqual(found["dense"][5], "1.00")

    def test_of_one_seed_there_is_no_interval(self):
        self.assertEqual(rows(seeds=1)["8 bits"][4:6], ["2.94", "0.917"])

    def test_who_did_not_arrive_has_a_time_above_and_a_factor_below(self):
        late = rows()["top 5 %"]
        self.assertEqual([late[2], late[4].split()[0], late[5].split()[0]], ["&gt;400", "&gt;5.60", "&lt;0.482"])

    def test_behind_a_baseline_that_did_not_arrive_factors_are_lower_bounds(self):
        found = rows(lambda s: {"arrived": 2} if s["entrant"] == "dense" else {"sooner": None, "sooner_low": None, "sooner_high": None} if s["entrant"] == "top 5 %" else {})
        self.assertEqual(found["8 bits"][5].split()[0], "&gt;0.917")
        self.assertEqual(found["top 5 %"][5], "n/a")


if __name__ == "__main__":
    unittest.main()
