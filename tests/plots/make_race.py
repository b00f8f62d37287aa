"""Made-up races: race.json as `race run` writes it, and table /race as `sweep collect` takes it over."""
import json
import os

import h5py
import numpy as np

LINKS = ("emulated:1gbit,latency=50us", "emulated:20mbit,latency=50us")
STEPS = {"dense": 180.0, "8 bits": 190.0, "top 5 %": 400.0}
STEP_MS = {"dense": (15.0, 185.0), "8 bits": (15.5, 60.0), "top 5 %": (14.0, 30.0)}


def standing(entrant, at, seeds=3):
    steps, step = STEPS[entrant], STEP_MS[entrant][at]
    seconds = steps * step / 1e3
    sooner = STEPS["dense"] * STEP_MS["dense"][at] / 1e3 / seconds
    spread = lambda x: (x / 1.1, x * 1.1) if seeds > 1 else (None, None)
    between = dict(zip(("seconds_low", "seconds_high"), spread(seconds))) | dict(zip(("sooner_low", "sooner_high"), spread(sooner))) | dict(zip(("step_ms_low", "step_ms_high"), spread(step)))
    late = entrant == "top 5 %"
    verdict = "not arrived" if late else "baseline" if entrant == "dense" else "sooner" if sooner > 1.1 else "undecided"
    return dict(course="made up", description="GPT of 4 layers, made up", baseline="dense", entrant=entrant, link=LINKS[at], place=1 + list(STEPS).index(entrant), horizon=200, steps=0 if late else 200, seeds=seeds, arrived=0 if late else seeds,
                target=2.5, learning_rate=0.01, steps_to_target=steps, final_loss=None if late else 2.4, step_ms=step, seconds=seconds, sooner=sooner, link_bytes=1e6, **between,
                verdict=verdict, remark="not within 2 horizons" if late else "")  # fmt: skip


def standings(seeds=3):
    return [standing(e, at, seeds) for at in range(2) for e in STEPS]


def curve(entrant):
    """Losses fall from 5 as steps do, to 2.5 at the end of what each takes; who does not arrive has no curve."""
    return [[20 * i, 5 - 2.5 * 20 * i / STEPS[entrant]] for i in range(1, int(STEPS[entrant] // 20) + 2)] if entrant != "top 5 %" else []


def write(folder, seeds=3):
    """A race of three entrants on two links, one of which never arrives; the folder."""
    curves = [{"entrant": e, "curve": curve(e)} for e in STEPS]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "race.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": 1, "entrants": curves, "standings": standings(seeds)}, file)
    return folder


def add_to(collected, seeds=3, curves=True):
    """The same race as tables /race and, not of older programs, /race_curves of a collected file."""
    rows = standings(seeds)
    kinds = [(name, "S120" if isinstance(value, str) else "i8" if isinstance(value, int) else "f8") for name, value in rows[0].items()]
    table = np.array([tuple(np.nan if value is None else value.encode() if isinstance(value, str) else value for value in row.values()) for row in rows], dtype=kinds)
    with h5py.File(collected, "a") as file:
        file["race"] = table
        if curves:
            points = [(b"made up", e.encode(), steps, loss) for e in STEPS for steps, loss in curve(e)]
            file["race_curves"] = np.array(points, dtype=[("course", "S20"), ("entrant", "S20"), ("steps", "i8"), ("loss", "f8")])
