"""What a figure hands to the report: the picture, the rows that it drew, and what is seen in it."""
import csv
import io
import math
import os
from dataclasses import dataclass, field

import matplotlib.pyplot as plt

from plots.lib import style


@dataclass
class Drawing:
    """One figure. `rows` holds exactly what was drawn (dictionaries with the keys `columns`); `seen` are sentences
    computed from the data; `gaps` say what could not be drawn and why; `tables` are (caption, header, rows of text).
    """

    name: str
    title: str
    how_to_read: str
    columns: tuple
    rows: list = field(default_factory=list)
    figure: object = None
    seen: list = field(default_factory=list)
    gaps: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    svg: str = ""
    width_px: int = 1056
    under: object = None  # the figure's Heading
    sha256: str = ""  # of the input, where it is not the collected file

    def skipped(self, reason):
        """Leaves this figure out, saying why: no picture and no file, a line in the report."""
        self.figure, self.rows, self.gaps = None, [], [reason]
        return self

    def without_data(self, reason):
        """Makes this an explicit empty figure."""
        self.figure, axes = style.canvas(1, 1, height=1.5)
        style.empty_panel(axes[0, 0], reason)
        self.gaps = [reason]
        return self


def save(drawing, folder, sha256):
    """Writes NAME.pdf, NAME.png, NAME.csv and fills `drawing.svg`. The CSV's first line is the input's SHA-256."""
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, drawing.name)
    write_file(stem + ".csv", to_csv(drawing, sha256).encode())
    if drawing.figure.get_layout_engine() is not None:  # laid out once, not once per format
        style.freeze_layout(drawing.figure)
    for ending, options in (
        ("pdf", {"metadata": {"CreationDate": None}}),
        ("png", {"dpi": 144}),
        ("svg", {"metadata": {"Date": None}}),
    ):
        stream = io.BytesIO()
        drawing.figure.savefig(stream, format=ending, **options)
        if ending == "svg":
            drawing.svg = stream.getvalue().decode()
        else:
            write_file(f"{stem}.{ending}", stream.getvalue())
    drawing.width_px = round(96 * drawing.figure.get_figwidth())
    plt.close(drawing.figure)


def to_csv(drawing, sha256):
    out = io.StringIO()
    out.write(f"# input-sha256: {sha256}\n# figure: {drawing.name}: {drawing.title}\n")
    for gap in drawing.gaps:
        out.write(f"# gap: {gap}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(drawing.columns)
    for row in drawing.rows:
        writer.writerow([_cell(row[column]) for column in drawing.columns])
    return out.getvalue()


def _cell(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(float(value))
    return value


def write_file(path, content):
    """Complete or not at all: an interrupted report never leaves half a file under its name."""
    with open(path + ".tmp", "wb") as stream:
        stream.write(content)
    os.replace(path + ".tmp", path)
