"""What the tests of the figures share: paths, a scratch folder, drawings of made-up data, running the programs."""
import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.dirname(os.path.abspath(__file__))]
sys.dont_write_bytecode = True
os.environ.setdefault(
    "MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), f"thinwire-matplotlib-{os.getuid()}")
)

import numpy as np  # noqa: E402

FIGURES = (
    "speedup_map",
    "stage_split",
    "break_even",
    "error_vs_ratio",
    "gradient_protocols",
    "embedding_sync",
    "codec_throughput",
    "spectra",
    "training",
    "links",
    "tensor_parallel_error",
    "loss_curves",
    "loss_vs_bytes",
    "loss_vs_time",
    "training_stage_split",
    "timeline",
)
SEED = int(os.environ.get("THINWIRE_TEST_SEED", "20260101"))
print(f"seed {SEED} (set THINWIRE_TEST_SEED to change it)")


def scratch_folder():
    """A folder that goes when the test program ends."""
    folder = tempfile.mkdtemp(prefix="thinwire-plots-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def draw(name, collected):
    """One Drawing, laid out as it would be saved."""
    drawing = importlib.import_module(f"plots.{name}").draw(collected)
    drawing.figure.canvas.draw()
    return drawing


def close(drawing):
    import matplotlib.pyplot as plt

    plt.close(drawing.figure)


def run(program, *arguments):
    """Runs plots/PROGRAM as a user would; returns the finished process with its text output. The report shows no reference claims
    unless a test names some: what is committed there changes."""
    if program == "report.py" and "--reference" not in arguments:
        arguments = (*arguments, "--reference", "")
    return subprocess.run(
        ["/usr/bin/python3", os.path.join(ROOT, "plots", program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tempfile.gettempdir(),
        check=False,
    )


def read_csv(text):
    """(comment lines, rows as dictionaries) of a figure's CSV."""
    import csv

    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("# ")))


def visible_texts(figure):
    """(text, box in pixels) of everything written in a figure, axes labels and ticks included."""
    import matplotlib.text

    renderer = figure.canvas.get_renderer()
    hidden = set()  # labels of ticks outside the view are objects, too, but matplotlib does not draw them
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not low * (1 - 1e-9) <= tick.get_loc() <= high * (1 + 1e-9) or not axes.axison:
                    hidden |= {id(tick.label1), id(tick.label2)}
            if not axes.axison:
                hidden |= {id(axis.label), id(axis.offsetText)}
    found = []
    for artist in figure.findobj(matplotlib.text.Text):
        axes = artist.axes
        if (
            id(artist) in hidden
            or not artist.get_visible()
            or not artist.get_text().strip()
            or (axes is not None and not axes.get_visible())
        ):
            continue
        box = matplotlib.text.Text.get_window_extent(artist, renderer)  # an annotation without its arrow
        if box.width > 0 and box.height > 0 and np.isfinite(box.extents).all():
            found.append((artist.get_text(), box))
    return found
