"""Spans of a step's timeline: those of one run, what kind of work they are, and those that lie closer than can be seen as one."""
import numpy as np


def of_one_run(table):
    """Rows of the first run in the table, with a finite and positive duration."""
    first = table.where(cell_id=table["cell_id"][0])
    return first.where(
        np.isfinite(first["start_us"]) & np.isfinite(first["end_us"]) & (first["end_us"] > first["start_us"])
    )


def kind_of(category, name):
    """Computing is told apart by the names that the trainer gives it: what is not backward or optimiser is forward."""
    if category != "compute":
        return category
    late = ("backward", "gradient", "optimizer")
    return "backward" if any(word in name for word in late) else "forward"


def merged(table, gap):
    """[[start, end], ...] of its rows in microseconds; spans that lie at most `gap` apart are one."""
    order = np.argsort(table["start_us"], kind="stable")
    found = []
    for start, end in zip(table["start_us"][order], table["end_us"][order]):
        if found and start - found[-1][1] <= gap:
            found[-1][1] = max(found[-1][1], float(end))
        else:
            found.append([float(start), float(end)])
    return found
