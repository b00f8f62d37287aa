"""The report's first heading: who reaches the loss first on which link, which methods pay without spoiling what they send, and the fastest at any error."""
import numpy as np

from plots.lib import data, traffic_classes, words
from plots.lib.race import bits_per_second, link_words
from plots.report import page, verdicts

NO_RACE = "No race was run here, so which method reaches a loss first on which link is open: <code>race run COURSE --out OUT/race</code> answers it (docs/race.md)."


def opening(race):
    """The answer in large letters, its scale and how sure it is; without a race, that there was none."""
    if not race.standings:
        return f'<p class="answer">{NO_RACE}</p>\n'
    first, *others = race.answers
    return f'<p class="answer">{page.text(first)}</p>\n<p class="scale">{page.text(" ".join(others))}</p>\n'


def standings(race):
    """A table per link: the leaderboard."""
    header = ["place", "entrant", "steps", "ms a step", "seconds [95 %]", "times sooner [95 %]", "MB a step", "remark"]
    span = lambda low, high: f" [{words.number(low, 3)}, {words.number(high, 3)}]" if low == low and high == high else ""
    names, parts = link_words(race.links), []
    for link in sorted(race.links, key=bits_per_second):
        rows = []
        for s in race.on(link):
            bound = "" if s["arrived"] == s["seeds"] else ">"
            rows.append([s["place"], s["entrant"], f"{bound}{s['steps_to_target']:.0f}", words.number(s["step_ms"], 3), bound + words.number(s["seconds"], 3) + span(s["seconds_low"], s["seconds_high"]),
                         race.bound_of_sooner(s) + words.number(s["sooner"], 3) + ("" if s["entrant"] == race.baseline else span(s["sooner_low"], s["sooner_high"])), words.number(s["link_bytes"] / 1e6, 3), s["remark"]])  # fmt: skip
        parts.append(page.table(f"{names[link]} ({link}): seconds = steps to the target × time of a step", header, rows, numeric=(0, 2, 3, 6)))
    return "".join(parts)


def does_it_pay(found, collected):
    """Methods of low error: how many pay on each link, and the fastest of them."""
    if not found:
        return f'<p class="gap">{page.text("No verdict: " + data.why_none(collected.cells, "compressed transfers with a valid timing"))}</p>\n'
    intro = (
        f"One compressed transfer against its uncompressed baseline, of methods whose result keeps a relative L2 error of at most {data.LOW_ERROR:g}. A method pays where the median"
        f" speed-up over its cells exceeds {data.PAYS:g}. Such an error is no promise about training, nor is a larger one with error feedback always a loss: that is the race's question."
    )
    intro += " " + legend(collected)
    rows = []
    for v in found:
        pay, low = [name for name in v.good if name in v.pays], v.low_error
        answer = "–" if not low else "no" if not pay else f"yes, {len(pay)} of {len(v.good)}"
        rows.append([v.link, v.traffic, answer, low[0] if low else f"none of {v.methods} methods", words.times(low[1]) if low else "n/a", words.number(low[3]) if low else "n/a"])
    header = ["link", "traffic", "does it pay?", f"fastest with error ≤ {data.LOW_ERROR:g}", "speed-up", "error"]
    return f"<p>{page.text(intro)}</p>" + page.sentences(_headline(found)) + page.table("", header, rows, numeric=(4, 5), verdicts=(2,))


def legend(collected):
    """What the study's short names mean, where they occur."""
    families = {"A": "auto-encoders", "T": "top-k", "R": "random-k", "Q": "quantised to 2, 4 and 8 bits"}
    labels = set(collected.cells["label"])
    groups = {key: [m for m in data.STUDY_METHODS if m in labels and m[:1] == key] for key in families}
    said = [f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''}: {families[key]}" for key, names in groups.items() if names]
    return f"Methods: {'; '.join(said)}." if said else ""


def at_any_error(found):
    """The fastest methods whatever their error, folded."""
    if not found:
        return ""
    intro = (
        "The time of a transfer alone, whatever it does to the tensor: at an error near 1 almost nothing of it arrives. 'none' is the uncompressed method measured like any other: its"
        f" distance from 1 is the noise of a cell. A method that never pays exceeds {data.PAYS:g} in no cell."
    )
    rows = [
        [v.link, v.traffic, f"{len(v.pays)} of {v.methods}", _spread(v.noise), words.times(v.median_speedup), v.best[0], words.times(v.best[1]), words.number(v.best[3]), words.listing(v.never, 4) or "–"]
        for v in found
    ]
    header = ["link", "traffic", "pay", "none", "median", "fastest", "speed-up", "error", "never pay"]
    return f"<details><summary>The table</summary><p>{page.text(intro)}</p>" + page.table("", header, rows, numeric=(3, 4, 6, 7)) + "</details>\n"


def _headline(found):
    """One sentence per link over the activation classes."""
    result = []
    for link in dict.fromkeys(v.link for v in found):
        parts = []
        for v in (v for v in found if v.link == link and v.traffic in traffic_classes.ACTIVATIONS):
            pay, low = [name for name in v.good if name in v.pays], v.low_error
            if not low:
                parts.append(f"{v.traffic}: no method has so small an error")
            elif not pay:
                parts.append(f"{v.traffic}: none of {len(v.good)} pays (nearest: {low[0]}, {words.times(low[1])})")
            else:
                parts.append(f"{v.traffic}: {len(pay)} of {len(v.good)} pay, {low[0]} most ({words.times(low[1])}, error {words.number(low[3])})")
        if parts:
            result.append(f"On {link}, {'; '.join(parts)}.")
    return result


def _spread(noise):
    low, high = noise
    if not np.isfinite(low):
        return "n/a"
    return words.times(high) if low == high else f"{words.number(low)} to {words.times(high)}"
