"""Finds the figures: every file plots/figures/AREA/NAME.py is one and declares itself (plots/lib/figure.py). There is no list beside it."""
import importlib
import os
import traceback

from plots.lib.errors import BrokenFigure
from plots.lib.figure import Figure

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "figures")


def figures():
    """{name: Figure} in the order of the report. A file that is no figure, or cannot be imported, raises BrokenFigure with its path."""
    found = {}
    for path in _files():
        figure = _figure_of(path)
        if figure.name in found:
            areas = f"{found[figure.name].area} and {figure.area}"
            raise BrokenFigure(f"two figures are called {figure.name} (in {areas}): the name is also that of the CSV, rename one")
        found[figure.name] = figure
    return {f.name: f for f in sorted(found.values(), key=lambda f: (f.order, f.name))}


def listing(found):
    """The figures area by area, as lines: what `--list` prints."""
    areas = dict.fromkeys(f.area for f in found.values())
    width = max(map(len, found), default=0)
    for area in areas:
        about = importlib.import_module(f"plots.figures.{area}").__doc__ or ""
        yield f"{area}: {about.strip()}".rstrip(": ")
        yield from (f"  {f.name:{width}}  {f.about}" for f in found.values() if f.area == area)


def _files():
    """Paths AREA/NAME.py below the folder; Python files elsewhere below it are refused, not passed over."""
    paths = []
    for folder, subfolders, names in os.walk(FOLDER):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), FOLDER)
            if not name.endswith(".py") or name.startswith(".") or name == "__init__.py":
                continue
            if path.count(os.sep) != 1:
                raise BrokenFigure(f"plots/figures/{path} lies outside the folder of an area: a figure is plots/figures/AREA/NAME.py")
            paths.append(path)
    return paths


def _figure_of(path):
    """The one Figure that the module declares."""
    try:
        module = importlib.import_module("plots.figures." + path[: -len(".py")].replace(os.sep, "."))
    except Exception as error:  # whatever a module may raise: the report must not go on without the figure
        raise BrokenFigure(f"plots/figures/{path}{_line_of(error, path)} cannot be imported: {type(error).__name__}: {error}") from error
    declared = [value for value in vars(module).values() if isinstance(value, Figure)]
    if len(declared) != 1:
        raise BrokenFigure(f"plots/figures/{path} declares {len(declared)} figures where one is expected (@Figure above its draw function)")
    return declared[0]


def _line_of(error, path):
    """Where in the figure's file the import went wrong."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f", line {line}," if line else ""
