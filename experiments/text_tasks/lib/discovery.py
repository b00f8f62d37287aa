"""Finds the tasks: every file tasks/NAME.py is one and declares itself (lib/task.py). There is no list beside it."""
import importlib
import os

from experiments.text_tasks.lib.task import Task

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tasks")


def tasks():
    """{name: Task}, by name."""
    names = sorted(name[: -len(".py")] for name in os.listdir(FOLDER) if name.endswith(".py") and name != "__init__.py")
    return {name: _task_of(name) for name in names}


def _task_of(name):
    """The one Task that the file declares."""
    module = importlib.import_module("experiments.text_tasks.tasks." + name)
    declared = [value for value in vars(module).values() if isinstance(value, Task)]
    if len(declared) != 1:
        raise RuntimeError(f"experiments/text_tasks/tasks/{name}.py declares {len(declared)} tasks where one is expected")
    return declared[0]
