"""Finds what declares itself: every file tasks/NAME.py is a task (lib/task.py), every corpus/NAME.py a collection (lib/collection.py). There is no list beside them."""
import importlib
import os

from experiments.text_tasks.lib.collection import Collection
from experiments.text_tasks.lib.task import Task

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tasks():
    """{name: Task}, by name."""
    return _declared("tasks", Task)


def collections():
    """{name: Collection}, by name."""
    return _declared("corpus", Collection)


def _declared(folder, kind):
    """The one object of this kind that each file of the folder declares."""
    found = {}
    for name in sorted(os.listdir(os.path.join(ROOT, folder))):
        stem, ending = os.path.splitext(name)
        if ending != ".py" or stem == "__init__":
            continue
        module = importlib.import_module(f"experiments.text_tasks.{folder}.{stem}")
        declared = [value for value in vars(module).values() if isinstance(value, kind)]
        if len(declared) != 1:
            raise RuntimeError(f"experiments/text_tasks/{folder}/{name} declares {len(declared)} of {kind.__name__} where one is expected")
        found[stem] = declared[0]
    return found
