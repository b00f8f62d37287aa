"""Made-up races: race.json as `race run` writes it."""
import json
import os

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
    return dict(course="made up", baseline="dense", entrant=entrant, link=LINKS[at], place=1 + list(STEPS).index(entrant), horizon=200, steps=0 if late else 200, seeds=seeds, arrived=0 if late else seeds,
                target=2.5, learning_rate=0.01, steps_to_target=steps, final_loss=None if late else 2.4, step_ms=step, seconds=seconds, sooner=sooner, link_bytes=1e6, **between,
                remark="not within 2 horizons" if late else "")  # fmt: skip


def write(folder, seeds=3):
    """A race of three entrants on two links, one of which never arrives; the folder."""
    answers = [f"On {LINKS[0]} nothing reaches 2.5 nats sooner than dense.", f"On {LINKS[1]} 8 bits reaches 2.5 nats 2.92 [2.66, 3.21] times sooner than dense."]
    # Losses fall from 5 as steps do, to 2.5 at the end of what each takes; who does not arrive has no curve.
    curves = [{"entrant": e, "curve": [[20 * i, 5 - 2.5 * 20 * i / STEPS[e]] for i in range(1, int(STEPS[e] // 20) + 2)] if e != "top 5 %" else []} for e in STEPS]
    race = {"schema": 1, "answers": answers, "entrants": curves, "standings": [standing(e, at, seeds) for at in range(2) for e in STEPS]}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "race.json"), "w", encoding="utf-8") as file:
        json.dump(race, file)
    return folder
