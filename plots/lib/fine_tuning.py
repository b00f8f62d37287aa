"""Metrics of fine-tuned models as the claims on them keep them (experiments/claims/fine_tuning)."""
import math
import re
from dataclasses import dataclass, field

from plots.lib import words

# Claims with such a table that are drawn (they name a figure) are those: none is listed here.
_GAINS = ("gain of pre-training", "gain over the commonest label")
SCRATCH = "from scratch"
_OF_TASK = re.compile(r"^(\w+) of (\w+), (.*)$")


@dataclass
class TaskResult:
    """One task. `arms`: {arm: metric by seed}, the dense arm first, the one from scratch apart."""

    metric: str
    name: str  # of the comparison
    origin: str
    arms: dict = field(default_factory=dict)
    scratch: list = field(default_factory=list)
    chance: float = 0.0
    gain: float = 0.0  # of pre-training; of a corner from scratch: over the commonest label
    counts: bool = False


def _tables(claims, name):
    return [table for table in claims.tables("", name=name) if table.claim.figure and any(other.name.startswith(_GAINS) for other in table.claim.tables)]


def results(claims):
    """({task: TaskResult}, the tables that they are from). Claims of one comparison share their cells: the one with the most arms is taken."""
    found, tables = {}, {}
    for table in _tables(claims, " of "):
        match = _OF_TASK.match(table.name)
        if not match or match[1] in ("gain", "link") or (match[2] in tables and len(table.rows) <= len(tables[match[2]].rows)):
            continue
        tables[match[2]] = table
        result = found[match[2]] = TaskResult(match[1], match[3], table.claim.origin)
        for arm, values in table.rows:
            numbers = [v for v in values.values() if v == v]
            if arm == SCRATCH:
                result.scratch = numbers
            elif numbers:
                result.arms[arm] = numbers
    for task, of in tables.items():
        for table in of.claim.tables:
            values = table.row(task)
            if values and table.name.startswith(_GAINS):
                found[task].chance, found[task].gain = table.number(values, "chance"), table.number(values, "gain")
                found[task].counts = table.number(values, "counts") == 1
    return found, list(tables.values())


def ratios(claims):
    """{arm: bytes of the dense arm over its own}, of those whose bytes are known."""
    found = {}
    for table in _tables(claims, "link bytes of a step's activations"):
        for arm, values in table.rows:
            ratio = table.number(values, "dense over sent")
            if math.isfinite(ratio):
                found.setdefault(arm, ratio)
    return found


def title(of):
    seeds = {result.name: len(next(iter(result.arms.values()))) for result in of.values()}
    if len(set(seeds.values())) == 1:
        return f"{' and '.join(seeds)}, {words.count(next(iter(seeds.values())), 'seed')}"
    return " and ".join(f"{name}, {words.count(count, 'seed')}" for name, count in seeds.items())
