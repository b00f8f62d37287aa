"""What the tests of the figures share: paths, the figures there are, a scratch folder, running the programs, texts in a picture."""
import atexit
import multiprocessing
import os
import runpy
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

from plots.report import discovery  # noqa: E402

FIGURES = discovery.figures()
SEED = int(os.environ.get("THINWIRE_TEST_SEED", "20260101"))
print(f"seed {SEED} (set THINWIRE_TEST_SEED to change it)")


def scratch_folder():
    """A folder that goes when the test program ends."""
    folder = tempfile.mkdtemp(prefix="thinwire-plots-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def names(*sources):
    """Names of the figures that read one of these sources."""
    return [name for name, figure in FIGURES.items() if figure.reads in sources]


def draw(name, source, laid_out=True):
    """One Drawing, rendered, and laid out as it would be saved; without `laid_out`, which takes a third of the time, texts may lie anywhere."""
    drawing = FIGURES[name].draw(source)
    if drawing.figure is not None:
        if not laid_out:
            drawing.figure.set_layout_engine("none")
        drawing.figure.canvas.draw()
    return drawing


def close(drawing):
    import matplotlib.pyplot as plt

    plt.close(drawing.figure)


def run(program, *arguments, root=ROOT, fresh=True):
    """Runs plots/report/PROGRAM of a tree as a user would; returns the finished process with its text output. The report shows no
    reference claims unless a test names some: what is committed there changes. CTest bounds the time: a busy machine must fail no test.
    Not `fresh`, it runs in a fork of this process, which has imported numpy, h5py and matplotlib: their import is most of a short run. A test
    program runs each program fresh once."""
    if program == "report.py" and "--reference" not in arguments:
        arguments = (*arguments, "--reference", "")
    command = [os.path.join(root, "plots", "report", program), *map(str, arguments)]
    if fresh:
        return subprocess.run(["/usr/bin/python3", *command], capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = multiprocessing.get_context("fork").Process(target=_as_program, args=(command, out.fileno(), err.fileno()))
        process.start()
        process.join()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
    return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _as_program(command, out, err):
    """What a new interpreter does with a command: its own arguments, folder, output and path, and no module of plots/ yet."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "plots"]:
        del sys.modules[name]
    sys.path[:] = [os.path.dirname(command[0]), *(path for path in sys.path if not path.startswith(ROOT))]
    sys.argv[:] = command
    os.chdir(tempfile.gettempdir())
    os.dup2(out, 1)
    os.dup2(err, 2)
    runpy.run_path(command[0], run_name="__main__")


def read_csv(text):
    """(comment lines, rows as dictionaries) of a figure's CSV."""
    import csv

    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("# ")))


def visible_texts(figure):
    """(text, box in pixels) of everything written in a figure, axes labels and ticks included."""
    return [(artist.get_text(), box) for artist, box in _visible(figure)]


def misplaced_texts(figure):
    """What is wrong with the places of a figure's texts: one that leaves the page, or two that overlap. Of slanted texts the boxes may
    cross where the texts do not: these are not compared."""
    page, found, complaints = figure.bbox, _visible(figure), []
    for artist, box in found:
        if not (page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1):
            complaints.append(f"'{artist.get_text()}' leaves the page")
    upright = [(artist.get_text(), box) for artist, box in found if artist.get_rotation() % 90 == 0]
    boxes = np.array([box.extents for _, box in upright])
    for i, (text, _) in enumerate(upright):
        a, b = boxes[i], boxes[i + 1 :]
        wide = np.minimum(a[2], b[:, 2]) - np.maximum(a[0], b[:, 0])
        high = np.minimum(a[3], b[:, 3]) - np.maximum(a[1], b[:, 1])
        complaints += [f"'{text}' runs into '{upright[i + 1 + k][0]}'" for k in np.flatnonzero((wide > 1.0) & (high > 1.0))]
    return complaints


def _visible(figure):
    """(text artist, box in pixels) of what matplotlib draws."""
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
            found.append((artist, box))
    return found


def offsets(axes):
    """Points of all scatters of a panel, rounded so that they compare."""
    points = [
        tuple(p)
        for c in axes.collections
        if type(c).__name__ == "PathCollection"
        for p in np.asarray(c.get_offsets())
    ]
    return sorted((f"{x:.9g}", f"{y:.9g}") for x, y in points)
