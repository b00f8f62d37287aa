"""Finds tasks and collections: every file ROOM/NAME.py is one and declares itself (lib/task.py, lib/collection.py). There is no list beside it."""
import importlib
import os

BASE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def declared(room, kind):
    """{name: what the file declares} of a room's files, by name; each declares exactly one value of this kind."""
    names = sorted(name[: -len(".py")] for name in os.listdir(os.path.join(BASE, room)) if name.endswith(".py") and name != "__init__.py")
    return {name: _declared(room, name, kind) for name in names}


def _declared(room, name, kind):
    module = importlib.import_module(f"experiments.text_tasks.{room}.{name}")
    found = [value for value in vars(module).values() if isinstance(value, kind)]
    if len(found) != 1:
        raise RuntimeError(f"experiments/text_tasks/{room}/{name}.py declares {len(found)} of {kind.__name__} where one is expected")
    return found[0]
