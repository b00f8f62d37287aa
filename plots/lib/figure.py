"""How a figure module declares itself: one `@Figure(...)` above the function that draws. The file is the figure's name, its folder the area.

    @Figure(title="Links: what they carried", order=100, reads=Source.BENCHES, how_to_read="...", columns=("link", "gbps"))
    def draw(drawing, collected):
        ...
        return drawing
"""
import enum
import os

from plots.lib.drawing import Drawing
from plots.lib.errors import BrokenFigure


class Source(enum.Enum):
    """What a figure reads, and what its builder is given: the collected file (plots/lib/data.py), judged claims (plots/lib/claims.py) or a race
    (plots/lib/race.py)."""

    BENCHES = "rows of the benches and of the captured run in the collected file"
    TRAINING_RUNS = "training runs in the collected file"
    DEVICE = "rows of a GPU in the collected file"
    CLAIMS = "judged claims"
    RACE = "a race"

    @property
    def of_collected(self):
        """Whether it is the collected file."""
        return self not in (Source.CLAIMS, Source.RACE)


class Heading(enum.Enum):
    """The headings of the report; each figure stands under one."""

    ANSWER = "answer"
    TIME = "time"
    ERROR = "error"
    MODELS = "models"
    CLAIMS = "claims"


_USUAL = {Source.RACE: Heading.ANSWER, Source.CLAIMS: Heading.CLAIMS}


class Figure:
    """One figure. `title` begins with a short name, then a colon; `order` is its place in the report (neighbours stand 10 apart, equal
    ones go by name); `under` is its heading (else that of the race or of claims where it reads these, and time); `columns` are those of its CSV.
    `area`, `name` and `about`, the docstring's first line, come from the file."""

    def __init__(self, title, order, reads, how_to_read, columns, under=None):
        self.title, self.order, self.reads = title, order, reads
        self.under = under or _USUAL.get(reads, Heading.TIME)
        self.how_to_read, self.columns = how_to_read, columns
        self.area = self.name = self.about = ""
        self._build = None

    def __call__(self, build):
        """As a decorator: takes the function (drawing, source) -> drawing, and stands in its place."""
        path = build.__code__.co_filename
        self.area = os.path.basename(os.path.dirname(path))
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.about = (build.__globals__.get("__doc__") or "").strip().partition("\n")[0]
        self._build = build
        return self

    def draw(self, source):
        """The Drawing of this source: drawn, explicitly empty (`without_data`) or left out (`skipped`)."""
        drawing = self._build(Drawing(self.name, self.title, self.how_to_read, self.columns), source)
        if not isinstance(drawing, Drawing):
            raise BrokenFigure(f"the figure {self.name} returned {type(drawing).__name__} where its drawing is expected")
        drawing.under = self.under
        return drawing
