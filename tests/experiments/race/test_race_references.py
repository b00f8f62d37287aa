# labels: unit
# timeout: 120
"""The committed races follow from their committed cells: steps to the target, times of a step and intervals, computed here from curves and samples without a line of the race's own code."""
import glob
import json
import math
import os
import shlex
import statistics
import unittest

import h5py

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RACES = sorted(glob.glob(os.path.join(ROOT, "results", "reference", "*", "*", "race.json")))
STUDENT_975 = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}  # quantiles by degrees of freedom, as printed in tables


def options_of(command):
    """`program --a 1 --b two` as {"a": "1", "b": "two"}; a flag without a value as empty."""
    words, options, name = shlex.split(command), {}, None
    for word in words[words.index("train_gpt") + 1:]:
        if word.startswith("--"):
            name = word[2:]
            options[name] = ""
        elif name:
            options[name] = word
    return options


class Cell:
    def __init__(self, row):
        self.id, self.link, self.status = row["cell_id"], row["link"].decode(), row["status"].decode()
        self.options = options_of(row["repro"].decode())
        self.entrant = self.options["plan"]
        self.seed, self.steps = int(self.options["seed"]), int(self.options["steps"])
        self.timed = self.options.get("compute") == "timed"
        self.window = int(self.options.get("repetition", 0 if "resume" in self.options else self.seed))


def cells_of(file):
    return {row["cell_id"]: Cell(row) for row in file["cells"][:]}


def half_width(values):
    return STUDENT_975[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def product(*factors):
    """exp of sums of means (sign, logarithms), with the interval of their variances added."""
    mean = sum(sign * statistics.mean(logs) for sign, logs in factors)
    half = math.sqrt(sum(half_width(logs) ** 2 for _, logs in factors))
    return [math.exp(mean), math.exp(mean - half), math.exp(mean + half)]


class Again:
    """Standings of one folder, from its cells."""

    def __init__(self, race, file):
        self.registered, self.course = race["registered"], json.loads(race["registered"]["course"])["race"]
        self.asked = race["windows"] if race.get("pair_windows") else None  # of each entrant on a link, where they are paired
        self.cells = cells_of(file)
        self.curves, self.samples = {}, {}
        for row in file["training_curve"][:]:
            if not math.isnan(row["validation_loss"]):
                self.curves.setdefault(row["cell_id"], []).append((row["step"] + 1, row["validation_loss"]))
        for row in file["samples"][:]:
            self.samples.setdefault(row["cell_id"], []).append(row["total_us"] * 1e-3)

    def runs(self, s):
        """{seed: curve} of the race runs of a standing's entrant; without a curve: diverged."""
        return {
            c.seed: self.curves.get(c.id, [])
            for c in self.cells.values()
            if not c.timed and c.entrant == s["entrant"] and c.steps == s["steps"] and c.seed != self.course["tuning_seed"] and "eval-interval" in c.options
            and math.isclose(float(c.options["learning-rate"]), s["learning_rate"], rel_tol=1e-9)
        }

    def arrivals(self, s):
        """{seed: step of the first validation at or below the target}, None where there is none."""
        return {seed: next((step for step, loss in curve if loss <= s["target"]), None) for seed, curve in self.runs(s).items()}

    def log_steps(self, s):
        return [math.log(step or s["steps"]) for _, step in sorted(self.arrivals(s).items())]

    def log_windows(self, s):
        """Of the last three windows, or of as many as there are; of all where they are paired."""
        windows = sorted((c.window, c.id) for c in self.cells.values() if c.timed and c.status == "OK" and c.entrant == s["entrant"] and c.link == s["link"])
        logs = [math.log(statistics.mean(self.samples[cell])) for _, cell in windows]
        return logs if self.asked else logs[-3:]

    def of_windows(self, base, s):
        """Factors of a step of the baseline over one of its own: one of differences over rounds where windows are paired and none is missing, else two."""
        own, other = self.log_windows(s), self.log_windows(base)
        if self.asked and len(own) == len(other) == self.asked:
            return [(1, [b - a for a, b in zip(own, other)])]
        return [(1, other), (-1, own)]


class References(unittest.TestCase):
    def each(self, check):
        """check(cells of the folder, standing of the baseline, standing) of all entrants and links of all races."""
        self.assertTrue(RACES)
        for path in RACES:
            collected = glob.glob(os.path.join(os.path.dirname(path), "*.h5"))
            self.assertEqual(1, len(collected), path)
            with open(path, encoding="utf-8") as stream, h5py.File(collected[0], "r") as file:
                race = json.load(stream)
                again = Again(race, file)
                for s in race["standings"]:
                    base = next(b for b in race["standings"] if b["entrant"] == s["baseline"] and b["link"] == s["link"])
                    with self.subTest(folder=os.path.dirname(path), entrant=s["entrant"], link=s["link"]):
                        check(again, base, s)

    def close(self, expected, actual):
        if actual is None or math.isnan(actual):
            self.assertTrue(math.isnan(expected), expected)
        else:
            self.assertAlmostEqual(expected, actual, delta=1e-5 * abs(actual))

    def test_steps_to_the_target_and_losses_follow_from_the_curves(self):
        def check(again, _, s):
            if s["steps"] == 0:
                return  # it did not arrive with its tuning seed and did not race
            arrivals = again.arrivals(s)
            self.assertEqual(s["seeds"], len(arrivals))
            self.assertEqual(s["arrived"], sum(step is not None for step in arrivals.values()))
            self.close(math.exp(statistics.mean(again.log_steps(s))), s["steps_to_target"])
            self.close(statistics.mean(curve[-1][1] if curve else math.inf for curve in again.runs(s).values()), s["final_loss"])

        self.each(check)

    def test_times_of_a_step_follow_from_the_windows(self):
        def check(again, _, s):
            for expected, column in zip(product((1, again.log_windows(s))), ("step_ms", "step_ms_low", "step_ms_high")):
                self.close(expected, s[column])

        self.each(check)

    def test_times_to_the_target_and_their_intervals(self):
        def check(again, base, s):
            if s["steps"] == 0 or base["arrived"] < base["seeds"]:
                return
            own, other = again.log_steps(s), again.log_steps(base)
            for expected, column in zip(product((1, own), (1, again.log_windows(s))), ("seconds", "seconds_low", "seconds_high")):
                self.close(expected / 1000, s[column])
            if s["entrant"] == s["baseline"]:
                return
            paired = sorted(again.arrivals(s)) == sorted(again.arrivals(base))
            steps = [(1, [b - a for a, b in zip(own, other)])] if paired else [(1, other), (-1, own)]
            for expected, column in zip(product(*steps, *again.of_windows(base, s)), ("sooner", "sooner_low", "sooner_high")):
                self.close(expected, s[column])

        self.each(check)

    def test_a_target_that_was_not_stated_is_the_mean_of_the_baseline_with_the_race_seeds(self):
        def check(again, base, s):
            if s is not base or again.course["target"] > 0:
                return
            until = again.course["target_at"] * again.course["horizon"]
            losses = [[loss for step, loss in curve if step <= until][-1] for curve in again.runs(base).values()]
            self.close(statistics.mean(losses), again.registered["target"])

        self.each(check)


if __name__ == "__main__":
    unittest.main()
