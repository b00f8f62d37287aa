"""A race (docs/race.md) as `race run` left it: race.json."""
import hashlib
import json
import os
from dataclasses import dataclass, field

from plots.lib.errors import CorruptData, from_os_error

NUMBERS = ("steps_to_target", "step_ms", "step_ms_low", "step_ms_high", "seconds", "seconds_low", "seconds_high", "sooner", "sooner_low", "sooner_high", "final_loss", "link_bytes", "target", "learning_rate")
OTHERS = ("course", "baseline", "entrant", "link", "place", "horizon", "steps", "seeds", "arrived", "remark")


@dataclass
class Race:
    """`standings`: one dictionary per entrant and link with the columns of /race; NaN where there is no number. Empty: nobody raced. `curves`: of each entrant that raced, (steps, mean validation loss) of
    its race runs."""

    folder: str
    standings: list = field(default_factory=list)
    answers: list = field(default_factory=list)
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

    def on(self, link):
        return [s for s in self.standings if s["link"] == link]

    def why_none(self):
        return f"no race in {self.folder}: `race run COURSE --out {self.folder}` makes one"


def load(folder):
    """The race of `folder`; an empty one where there is no race.json. CorruptData for a file that is none."""
    path = os.path.join(folder, "race.json")
    if not os.path.exists(path):
        return Race(folder)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise from_os_error(error, "cannot read the race") from error
    try:
        parsed = json.loads(content)
        standings = [{**{k: s[k] for k in OTHERS}, **{k: float("nan") if s[k] is None else float(s[k]) for k in NUMBERS}} for s in parsed["standings"]]
        # Races of older programs have no curves.
        curves = {e["entrant"]: [(int(steps), float(loss)) for steps, loss in e.get("curve", []) if loss is not None] for e in parsed.get("entrants", [])}
        curves = {entrant: curve for entrant, curve in curves.items() if curve}
        return Race(folder, standings, [str(a) for a in parsed["answers"]], curves, hashlib.sha256(content).hexdigest())
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{path} is no race ({error!r}); `race run` writes one") from error
