# labels: unit
# timeout: 120
"""A race in words: who is sooner where, how large, how sure; the same from race.json and from a collected file."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import scratch_folder
import make_collected
import make_race

from plots.lib import data, race
from plots.lib.errors import CorruptData
from plots.lib.race import Race


def raced(change=lambda s: {}, seeds=3):
    return Race("out/race", [race._standing({**s, **change(s)}) for s in make_race.standings(seeds)])


class Answer(unittest.TestCase):
    def test_the_slowest_link_comes_first_and_nobody_is_named_where_nobody_is_sooner(self):
        self.assertEqual(raced().answer(), "On 20 Mbit/s 8 bits reaches 2.5 nats 2.92 [2.66, 3.21] times sooner than dense; on 1 Gbit/s nothing does.")

    def test_no_entrant_beats_dense_in_words(self):
        nobody = raced(lambda s: {"verdict": "undecided"} if s["verdict"] == "sooner" else {})
        self.assertEqual(nobody.answer(), "On 20 Mbit/s and 1 Gbit/s nothing reaches 2.5 nats sooner than dense.")

    def test_a_winner_on_every_link(self):
        both = raced(lambda s: {"verdict": "sooner"} if s["entrant"] == "8 bits" else {})
        self.assertRegex(both.answer(), r"^On 20 Mbit/s 8 bits reaches 2.5 nats 2.92 \[.*\] times sooner than dense, on 1 Gbit/s 8 bits 0.917 \[.*\] times\.$")

    def test_one_seed_is_an_indication_and_is_said_to_be_one(self):
        one = raced(seeds=1)
        self.assertEqual(one.answer(), "On 20 Mbit/s 8 bits reaches 2.5 nats 2.9 times sooner than dense; on 1 Gbit/s nothing does.")
        self.assertIn("An indication, no interval", one.sure())
        self.assertIn("1 seed.", one.scale())
        self.assertIn("95 % intervals", raced().sure())

    def test_the_scale_is_the_courses_description(self):
        self.assertIn("GPT of 4 layers, made up; runs of 200 steps, 3 seeds.", raced().scale())
        self.assertIn("course made up", raced(lambda s: {"description": ""}).scale())

    def test_who_did_not_arrive_and_what_makes_a_winner_doubtful_is_said(self):
        said = raced(lambda s: {"remark": "the machine was disturbed"} if s["verdict"] == "sooner" else {}).bounds()
        self.assertEqual(said, ["top 5 % did not reach it with all seeds.", f"8 bits on {make_race.LINKS[1]}: the machine was disturbed."])

    def test_times_against_a_baseline_that_did_not_arrive_are_at_least_so_much(self):
        missed = {"dense": {"arrived": 2}, "8 bits": {"remark": "dense did not reach it with 1 of 3 seeds; the machine was disturbed"}}
        race = raced(lambda s: missed.get(s["entrant"], {}))
        self.assertEqual(race.answer(), "On 20 Mbit/s 8 bits reaches 2.5 nats at least 2.92 [2.66, 3.21] times sooner than dense; on 1 Gbit/s nothing is shown to.")
        self.assertEqual(race.bounds(), ["dense did not reach it with 1 of 3 seeds.", "top 5 % did not reach it with all seeds.", f"8 bits on {make_race.LINKS[1]}: the machine was disturbed."])
        nobody = raced(lambda s: missed.get(s["entrant"], {}) | ({"verdict": "undecided"} if s["verdict"] == "sooner" else {}))
        self.assertEqual(nobody.answer(), "On 20 Mbit/s and 1 Gbit/s nothing is shown to reach 2.5 nats sooner than dense.")

    def test_a_factor_is_a_bound_from_above_or_below_by_who_did_not_arrive(self):
        bounds = lambda race: {s["entrant"]: race.bound_of_sooner(s) for s in race.on(make_race.LINKS[0])}
        self.assertEqual(bounds(raced()), {"dense": "", "8 bits": "", "top 5 %": "<"})
        late = raced(lambda s: {"arrived": 2} if s["entrant"] == "dense" else {"sooner": None} if s["entrant"] == "top 5 %" else {})
        self.assertEqual(bounds(late), {"dense": "", "8 bits": ">", "top 5 %": ""})

    def test_an_undecided_entrant_with_a_shorter_time_is_named(self):
        place = {"dense": 3, "8 bits": 2, "top 5 %": 1}
        race = raced(lambda s: {"place": place[s["entrant"]]} | ({"verdict": "undecided", "arrived": 3} if s["entrant"] == "top 5 %" else {}))
        self.assertIn(f"top 5 % on {make_race.LINKS[1]}: a shorter time, but undecided.", race.bounds())
        self.assertEqual(len([b for b in race.bounds() if "undecided" in b]), 1, "where nobody is sooner, nobody is before the winner")

    def test_without_a_race_there_is_no_sentence(self):
        self.assertEqual(Race("out/race").answers, [])


class Links(unittest.TestCase):
    def test_names_are_rates_and_what_tells_them_apart(self):
        links = ["emulated:1gbit,latency=50us", "netns:100mbit", "emulated:20mbit,latency=1ms", "emulated:20mbit,latency=50ms", "shm", "fabric"]
        self.assertEqual(list(race.link_words(links).values()), ["1 Gbit/s", "100 Mbit/s", "20 Mbit/s (latency=1ms)", "20 Mbit/s (latency=50ms)", "shared memory", "fabric"])
        self.assertEqual(race.link_words(["emulated:200mbit,up=20mbit,latency=15ms"]), {"emulated:200mbit,up=20mbit,latency=15ms": "200 Mbit/s (up=20mbit,latency=15ms)"})
        self.assertEqual(race.link_words(["netns:1gbit", "emulated:1gbit"]), {"netns:1gbit": "netns:1gbit", "emulated:1gbit": "emulated:1gbit"})
        self.assertEqual(sorted(links, key=race.bits_per_second)[-3:], ["emulated:1gbit,latency=50us", "shm", "fabric"])


class Collected(unittest.TestCase):
    def setUp(self):
        self.folder = scratch_folder()
        self.path = os.path.join(self.folder, "collected.h5")
        make_collected.write(self.path, [make_collected.row(traffic="codec")])

    def test_its_table_gives_the_same_race_as_the_file_beside_it(self):
        make_race.add_to(self.path)
        taken = race.load(os.path.join(self.folder, "none"), data.load(self.path))
        written = race.load(make_race.write(os.path.join(self.folder, "race")))
        self.assertEqual([{k: repr(v) for k, v in s.items()} for s in taken.standings], [{k: repr(v) for k, v in s.items()} for s in written.standings])
        self.assertEqual(taken.answers, written.answers)
        self.assertEqual(taken.curves, written.curves)
        self.assertEqual(list(taken.curves), ["dense", "8 bits"])
        self.assertEqual(taken.sha256, data.load(self.path).sha256)

    def test_races_of_older_programs_have_no_curves(self):
        make_race.add_to(self.path, curves=False)
        taken = race.load(os.path.join(self.folder, "none"), data.load(self.path))
        self.assertEqual(taken.curves, {})
        self.assertGreater(len(taken.standings), 0)

    def test_a_file_without_it_holds_no_race(self):
        self.assertEqual(race.load(os.path.join(self.folder, "none"), data.load(self.path)).standings, [])

    def test_a_table_that_is_none_is_named(self):
        import h5py

        with h5py.File(self.path, "a") as file:
            file["race"] = file["cells"][:]
        with self.assertRaisesRegex(CorruptData, "/race or /race_curves of .*collected.h5 is no race"):
            race.load(os.path.join(self.folder, "none"), data.load(self.path))


if __name__ == "__main__":
    unittest.main()
