# labels: unit
# timeout: 900
"""Every figure that is found: nothing overlaps, nothing crashes when data are missing."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import FIGURES, SEED, close, draw, misplaced_texts, names, visible_texts
from complete import source
import make_collected as made
from make_collected import load
import numpy as np

from plots.lib import style
from plots.lib.figure import Source
from plots.lib.schema import COLUMNS

NAN = float("nan")
# Explicitly empty where they have no data; others are left out (see their areas).
BENCHES, TRAINING = names(Source.BENCHES), names(Source.TRAINING_RUNS)


class CompleteRun(unittest.TestCase):
    """Drawn from data that hold all it may ask for."""

    @classmethod
    def setUpClass(cls):
        cls.drawings, cls.misplaced = {}, {}
        for name, figure in FIGURES.items():
            drawing = cls.drawings[name] = draw(name, source(figure.reads))
            if drawing.figure is not None:
                cls.misplaced[name] = misplaced_texts(drawing.figure)
                close(drawing)

    def test_every_figure_draws_and_says_what_is_seen(self):
        for name, drawing in self.drawings.items():
            self.assertEqual(drawing.name, name)
            self.assertIsNotNone(drawing.figure, f"{name}: {drawing.gaps}")
            self.assertTrue(drawing.rows, name)
            self.assertTrue(drawing.seen, name)
            self.assertFalse(any("nan" in sentence.lower().split() for sentence in drawing.seen), drawing.seen)
            for row in drawing.rows:
                self.assertEqual(set(row), set(drawing.columns), name)

    def test_no_two_texts_overlap_and_none_leaves_the_page(self):
        self.assertEqual({name: found for name, found in self.misplaced.items() if found}, {})

    def test_texts_that_overlap_or_leave_the_page_are_noticed(self):
        figure, axes = style.canvas(1, 1, height=3)
        panel = axes[0, 0]
        panel.axis("off")
        for x, y, text, turn in ((0.2, 0.5, "one", 0), (0.21, 0.5, "two", 0), (0.6, 0.5, "slanted", 38), (0.61, 0.5, "upright", 0)):
            panel.text(x, y, text, rotation=turn)
        figure.text(1.1, 0.5, "outside")
        figure.canvas.draw()
        found = misplaced_texts(figure)
        style.plt.close(figure)
        self.assertEqual(sorted(found), ["'one' runs into 'two'", "'outside' leaves the page"])


class MissingData(unittest.TestCase):
    """Every figure, on every kind of incomplete file: drawn or explicitly empty, never a crash, never invented points."""

    FEW = {"layouts": ((2, 2), (4, 1)), "shapes": ((8, 128), (32, 512))}

    def check(self, collected, empty=(), figures=BENCHES):
        """Draws these figures; returns what each says that it lacks."""
        gaps = {}
        for name in figures:
            drawing = draw(name, collected, laid_out=False)
            try:
                if not drawing.rows:
                    texts = " ".join(" ".join(t for t, _ in visible_texts(drawing.figure)).split())
                    self.assertIn("no data because", texts, name)
                    self.assertTrue(drawing.gaps, name)
                self.assertEqual(
                    name in empty or not drawing.rows,
                    not drawing.rows,
                    f"{name} should be empty: {drawing.rows[:1]}",
                )
                for row in drawing.rows:
                    self.assertEqual(set(row), set(drawing.columns), name)
                gaps[name] = " ".join(drawing.gaps)
            finally:
                close(drawing)
        return gaps

    def test_training_runs_that_lack_a_part(self):
        links = ["netns:100mbit", "netns:1gbit"]
        whole = lambda: made.training_runs(np.random.default_rng(SEED), links, plans=("dense", "all"))
        for lacking, empty in (
            ("training_curve", ("loss_curves", "loss_vs_bytes", "loss_vs_time")),
            ("training_time", ("loss_vs_time", "training_stage_split")),
            ("training_traffic", ()),
            ("timeline", ("timeline",)),
            ("cells", ()),
        ):
            runs = whole()
            runs[lacking] = []
            self.check(load([], runs=runs), empty, TRAINING)
        runs = made.training_runs(np.random.default_rng(SEED), [])  # never timed
        self.check(load([], runs=runs), ("loss_vs_time", "training_stage_split", "timeline"), TRAINING)
        for row in runs["training_curve"]:
            row["validation_loss"] = NAN
        self.check(load([], runs=runs), ("loss_vs_bytes", "loss_vs_time"), TRAINING)
        for few in ({"plans": ("all",)}, {"plans": ("dense",), "steps": 1}):
            runs = made.training_runs(np.random.default_rng(SEED), links, **few)
            self.check(load([], runs=runs), figures=TRAINING)

    def test_training_runs_with_values_that_are_not_numbers(self):
        rng = np.random.default_rng(SEED)
        runs = made.training_runs(rng, ["netns:100mbit", "netns:1gbit"])
        for name, table in runs.items():
            for row in table:
                floats = [key for key, value in row.items() if isinstance(value, float)]
                for key in rng.choice(floats, size=1):
                    row[key] = rng.choice([NAN, float("inf"), 0.0, -1.0])
        self.check(load([], runs=runs), figures=TRAINING)

    def test_only_shared_memory(self):
        rng = np.random.default_rng(SEED)
        self.check(
            load(
                list(made.activation_rows(rng, ["shm"], **self.FEW)) + list(made.gradient_rows(rng, ["shm"]))
            ),
            empty=("break_even", "embedding_sync", "codec_throughput", "spectra", "training", "links"),
        )

    def test_smoke_data_of_one_layout_two_methods_and_one_shape(self):
        rng = np.random.default_rng(SEED)
        self.check(
            load(
                list(
                    made.activation_rows(
                        rng, ["shm"], layouts=((4, 1),), shapes=((2, 16),), methods=("none", "Q3")
                    )
                )
            )
        )

    def test_a_single_row(self):
        rng = np.random.default_rng(SEED)
        self.check(
            load(
                list(
                    made.activation_rows(
                        rng, ["netns:1gbit"], layouts=((4, 1),), shapes=((8, 128),), methods=("T1",)
                    )
                )
            )
        )

    def test_a_link_that_is_skipped_says_why(self):
        rng = np.random.default_rng(SEED)
        cells = (
            list(made.activation_rows(rng, ["shm", "netns:1gbit"], **self.FEW))
            + list(made.gradient_rows(rng, ["shm", "netns:1gbit"]))
            + list(made.embedding_rows(rng, ["shm", "netns:1gbit"]))
        )
        for row in cells:
            if row["link"] == "netns:1gbit":
                row.update(
                    status="SKIPPED",
                    reason="network namespaces are not permitted here",
                    ratio=NAN,
                    speedup=NAN,
                    relative_l2=NAN,
                    encode_us=NAN,
                    link_bytes=0,
                    transfer_us=NAN,
                    decode_us=NAN,
                    total_us=NAN,
                    baseline_us=NAN,
                    break_even_gbps=NAN,
                    link_gbps=NAN,
                )
        gaps = self.check(load(cells), empty=("break_even",))
        for name in ("stage_split", "gradient_protocols", "embedding_sync", "break_even"):
            self.assertIn("namespaces are not permitted", gaps[name], name)

    def test_everything_failed(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, ["shm"], **self.FEW)) + list(made.codec_rows(rng))
        for row in cells:
            row.update(
                {name: NAN for name, kind in COLUMNS["cells"].items() if kind == "float"},
                status="FAILED",
                reason="rank 2 was lost",
            )
        self.check(load(cells), empty=[name for name in BENCHES if name != "speedup_map"])

    def test_values_that_are_not_numbers(self):
        rng = np.random.default_rng(SEED)
        links = ["netns:100mbit", "netns:1gbit"]
        cells = (
            list(made.activation_rows(rng, links, **self.FEW))
            + list(made.gradient_rows(rng, links))
            + list(made.embedding_rows(rng, links))
            + list(made.codec_rows(rng))
        )
        floats = [name for name, kind in COLUMNS["cells"].items() if kind == "float"]
        for row in cells:
            for name in rng.choice(floats, size=4, replace=False):
                row[name] = rng.choice([NAN, float("inf"), 0.0, -1.0])
        spectra = [
            dict(row, singular_value=NAN) if i % 700 == 3 else row
            for i, row in enumerate(made.spectra_rows(rng))
        ]
        training = [
            dict(row, loss=NAN, tokens_per_second=NAN) if row["step"] % 5 == 0 else row
            for row in made.training_rows(rng, 30)
        ]
        self.check(
            load(
                cells,
                spectra=spectra,
                training=training,
                links=[dict(row, measured_gbps=NAN) for row in made.link_rows(rng, links)],
            ),
            empty=("links",),
        )

    def test_a_file_with_no_row_at_all_but_one_codec(self):
        self.check(
            load(
                [
                    made.row(
                        program="bench_codec", traffic="codec", codec="cast", method="cast", encode_gbps=3.0
                    )
                ]
            ),
            empty=[name for name in (*BENCHES, *TRAINING) if name != "codec_throughput"],
            figures=(*BENCHES, *TRAINING),  # here alone both: without a training run the latter see the same in every file
        )


if __name__ == "__main__":
    unittest.main()
