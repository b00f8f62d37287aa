"""A race (docs/race.md): its standings from race.json as `race run` left it or from table /race of a collected file, and its answer in words."""
import hashlib
import json
import math
import os
import re
from dataclasses import dataclass, field

import h5py

from plots.lib import words
from plots.lib.errors import CorruptData, from_os_error

NUMBERS = ("steps_to_target", "step_ms", "step_ms_low", "step_ms_high", "seconds", "seconds_low", "seconds_high", "sooner", "sooner_low", "sooner_high", "final_loss", "link_bytes", "target", "learning_rate")
OTHERS = ("course", "description", "baseline", "entrant", "link", "place", "horizon", "steps", "seeds", "arrived", "verdict", "remark")


@dataclass
class Race:
    """`standings`: one dictionary per entrant and link with the columns of /race; NaN where there is no number. Empty: nobody raced. `curves`: of each entrant that raced, (steps, mean validation loss) of
    its race runs."""

    folder: str
    standings: list = field(default_factory=list)
    curves: dict = field(default_factory=dict)
    sha256: str = "none"

    @property
    def links(self):
        return list(dict.fromkeys(s["link"] for s in self.standings))

    @property
    def baseline(self):
        return self.standings[0]["baseline"] if self.standings else ""

    @property
    def entrants(self):
        """The baseline first."""
        return [self.baseline] + sorted({s["entrant"] for s in self.standings} - {self.baseline}) if self.standings else []

    @property
    def soonest_first(self):
        """Entrants by the mean logarithm of their factors over the links, the baseline among them; who did not arrive with all seeds, or has no factor, comes last."""

        def key(entrant):
            own = [s for s in self.standings if s["entrant"] == entrant]
            logs = [math.log(s["sooner"]) for s in own if math.isfinite(s["sooner"]) and s["sooner"] > 0]
            late = entrant != self.baseline and any(s["arrived"] < s["seeds"] for s in own)
            return (late, not logs, -sum(logs) / len(logs) if logs else 0.0)

        return sorted(self.entrants, key=key)

    def on(self, link):
        return [s for s in self.standings if s["link"] == link]

    def winner(self, link):
        """The first entrant that is sooner than the baseline there, or nothing."""
        return next((s for s in self.on(link) if s["verdict"] == "sooner"), None)

    def undecided_before(self, link):
        """Entrants with a shorter time there than the winner, whose intervals hold 1."""
        best = self.winner(link)
        return [s["entrant"] for s in self.on(link) if best and s["place"] < best["place"] and s["verdict"] == "undecided"]

    def missed(self):
        """`dense did not reach it with 1 of 3 seeds`, the words of the remarks; empty where the baseline arrived with all: else its times are lower bounds, and so is how many times sooner others are."""
        own = next((s for s in self.standings if s["entrant"] == self.baseline), None)
        if own is None or own["arrived"] == own["seeds"]:
            return ""
        return f"{self.baseline} did not reach it with {own['seeds'] - own['arrived']} of {words.count(own['seeds'], 'seed')}"

    def bound_of_sooner(self, s):
        """`>` where the baseline's time is a lower bound, `<` where the entrant's is, else empty; a bound over a bound is no number."""
        if s["entrant"] == self.baseline or not math.isfinite(s["sooner"]):
            return ""
        return ">" if self.missed() else "<" if s["arrived"] < s["seeds"] else ""

    @property
    def answers(self):
        """The answer, whom it does not hold for, the scale and how sure it is: sentences; none without a race."""
        return [self.answer(), *self.bounds(), self.scale(), self.sure()] if self.standings else []

    def answer(self):
        """One sentence: who reaches the target how many times sooner than the baseline on which link, and where nobody does."""
        target, names = f"{self.standings[0]['target']:.4g} nats", link_words(self.links)
        won, lost = [], []
        for link in sorted(self.links, key=bits_per_second):
            if (best := self.winner(link)) is None:
                lost.append(names[link])
                continue
            between = f" [{words.number(best['sooner_low'], 3)}, {words.number(best['sooner_high'], 3)}]" if math.isfinite(best["sooner_low"]) else ""
            times = f"{'at least ' if self.missed() else ''}{words.number(best['sooner'], 2 if not between else 3)}{between} times"
            won.append(f"on {names[link]} {best['entrant']}" + (f" {times}" if won else f" reaches {target} {times} sooner than {self.baseline}"))
        if not won:
            return f"On {words.listing(lost)} nothing {'is shown to reach' if self.missed() else 'reaches'} {target} sooner than {self.baseline}."
        nothing = f"; on {words.listing(lost)} nothing {'is shown to' if self.missed() else 'does'}" if lost else ""
        return won[0][:1].upper() + ", ".join(won)[1:] + nothing + "."

    def bounds(self):
        """Who did not reach the target, what makes a winner's time doubtful, and who may be before it."""
        missed = self.missed()
        late = list(dict.fromkeys(s["entrant"] for s in self.standings if s["arrived"] < s["seeds"] and s["entrant"] != self.baseline))
        said = [f"{missed}."] if missed else []
        said += [f"{words.listing(late)} did not reach it with {'its seed' if self.standings[0]['seeds'] == 1 else 'all seeds'}."] if late else []
        for link in self.links:
            if (s := self.winner(link)) and (doubts := "; ".join(r for r in s["remark"].split("; ") if r not in ("", missed))):
                said.append(f"{s['entrant']} on {link}: {doubts}.")
            if before := self.undecided_before(link):
                said.append(f"{words.listing(before)} on {link}: a shorter time, but undecided.")
        return said

    def scale(self):
        first = self.standings[0]
        seeds = words.count(first["seeds"], "seed")
        return f"At this scale: {first['description'] or 'course ' + first['course']}; runs of {first['horizon']} steps, {seeds}."

    def sure(self):
        if any(math.isfinite(s["sooner_low"]) for s in self.standings if s["entrant"] != self.baseline):
            return "Brackets are 95 % intervals over seeds and timed windows; an entrant is sooner where its interval lies above 1."
        return "An indication, no interval: a factor below 1.1 counts as none, and another seed may change the order."

    def why_none(self):
        return f"no race in {self.folder}: `race run COURSE --out {self.folder}` makes one"


def link_words(links):
    """{link: its rate in words, `100 Mbit/s`}; links of one rate, of another one upwards or of another meter are told apart by what follows it, unrated ones keep their name."""
    units, parts = {"k": "kbit/s", "m": "Mbit/s", "g": "Gbit/s"}, {}
    for link in links:
        match = re.fullmatch(r"\w+:([\d.]+)([kmg])bit(?:,(.*))?", link)
        parts[link] = (f"{match[1]} {units[match[2]]}", match[3]) if match else ("shared memory" if link == "shm" else link, "")
    rates = [rate for rate, _ in parts.values()]
    more = lambda rate, rest: rest and (rates.count(rate) > 1 or "up=" in rest or "meter=" in rest)
    return {link: f"{rate} ({rest})" if more(rate, rest) else link if rates.count(rate) > 1 else rate for link, (rate, rest) in parts.items()}


def bits_per_second(link):
    """Key that sorts links from slow to fast, unrated ones last."""
    match = re.search(r":([\d.]+)([kmg])bit", link)
    return float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]] if match else math.inf


def load(folder, collected=None):
    """The race of `folder`; where it has no race.json that of the collected file; an empty one where neither holds one. CorruptData for a file that is none."""
    path = os.path.join(folder, "race.json")
    if not os.path.exists(path):
        return _collected(folder, collected) if collected else Race(folder)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise from_os_error(error, "cannot read the race") from error
    try:
        parsed = json.loads(content)
        standings = [_standing(s) for s in parsed["standings"]]
        # Races of older programs have no curves.
        curves = {e["entrant"]: [(int(steps), float(loss)) for steps, loss in e.get("curve", []) if loss is not None] for e in parsed.get("entrants", [])}
        curves = {entrant: curve for entrant, curve in curves.items() if curve}
        return Race(folder, standings, curves, hashlib.sha256(content).hexdigest())
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{path} is no race ({error!r}); `race run` writes one") from error


def _collected(folder, collected):
    with h5py.File(collected.path, "r") as file:
        if "race" not in file:
            return Race(folder)
        table = file["race"][:]
        points = file["race_curves"][:] if "race_curves" in file else []  # races of older programs have none
    try:
        plain = lambda value: value.decode() if isinstance(value, bytes) else value.item()
        curves = {}
        for point in points:
            if math.isfinite(loss := plain(point["loss"])):
                curves.setdefault(plain(point["entrant"]), []).append((plain(point["steps"]), loss))
        return Race(folder, [_standing({name: plain(row[name]) for name in table.dtype.names}) for row in table], curves, collected.sha256)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"table /race or /race_curves of {collected.path} is no race ({error!r}); `race run` and `sweep collect` write them") from error


def _standing(s):
    return {**{k: s[k] for k in OTHERS}, **{k: float("nan") if s[k] is None else float(s[k]) for k in NUMBERS}}
