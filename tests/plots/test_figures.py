# labels: unit
# timeout: 600
"""Every figure: what the CSV says is what is drawn, nothing overlaps, nothing crashes when data are missing."""
import os
import unittest

from support import FIGURES, SEED, close, draw, read_csv, visible_texts, scratch_folder
import make_collected as made
import numpy as np
from matplotlib.colors import to_rgba

from plots import data, drawing as drawings, plans, style

NAN = float("nan")


def load(cells, **tables):
    path = os.path.join(scratch_folder(), "collected.h5")
    made.write(path, cells, **tables)
    return data.load(path)


def offsets(axes):
    """Points of all scatters of a panel, rounded so that they compare."""
    points = [
        tuple(p)
        for c in axes.collections
        if type(c).__name__ == "PathCollection"
        for p in np.asarray(c.get_offsets())
    ]
    return sorted((f"{x:.9g}", f"{y:.9g}") for x, y in points)


class CompleteRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = os.path.join(scratch_folder(), "collected.h5")
        made.everything(path, seed=SEED)
        cls.collected = data.load(path)
        cls.drawings = {name: draw(name, cls.collected) for name in FIGURES}

    @classmethod
    def tearDownClass(cls):
        for drawing in cls.drawings.values():
            close(drawing)

    def csv(self, name):
        return read_csv(drawings.to_csv(self.drawings[name], "0" * 64))[1]

    def test_every_figure_draws_and_says_what_is_seen(self):
        for name, drawing in self.drawings.items():
            self.assertTrue(drawing.rows, name)
            self.assertTrue(drawing.seen, name)
            self.assertFalse(
                any("nan" in sentence.lower().split() for sentence in drawing.seen), drawing.seen
            )

    def test_no_two_texts_overlap_and_none_leaves_the_page(self):
        for name, drawing in self.drawings.items():
            page = drawing.figure.bbox
            texts = visible_texts(drawing.figure)
            for text, box in texts:
                self.assertTrue(
                    page.x0 - 1 <= box.x0
                    and box.x1 <= page.x1 + 1
                    and page.y0 - 1 <= box.y0
                    and box.y1 <= page.y1 + 1,
                    f"{name}: '{text}' leaves the page",
                )
            boxes = np.array([box.extents for _, box in texts])
            for i, (text, _) in enumerate(texts):
                a, b = boxes[i], boxes[i + 1 :]
                wide = np.minimum(a[2], b[:, 2]) - np.maximum(a[0], b[:, 0])
                high = np.minimum(a[3], b[:, 3]) - np.maximum(a[1], b[:, 1])
                clash = np.flatnonzero((wide > 1.0) & (high > 1.5))
                self.assertFalse(
                    len(clash),
                    f"{name}: '{text}' runs into '{texts[i + 1 + clash[0]][0] if len(clash) else ''}'",
                )

    def test_map_numbers_and_colours_are_those_of_the_csv(self):
        rows = self.csv("speedup_map")
        axes = [a for a in self.drawings["speedup_map"].figure.axes if a.patches and a.get_title(loc="left")]
        drawn = [
            (text.get_text(), to_rgba(patch.get_facecolor()))
            for a in axes
            for patch, text in zip(a.patches, [t for t in a.texts if not t.get_text().startswith("layout")])
        ]
        self.assertEqual(len(rows), 4 * 14 * 24)
        self.assertEqual([text for text, _ in drawn], [row["text"] for row in rows])
        for (text, face), row in zip(drawn, rows):
            speedup = float(row["speedup"])
            if row["status"] not in ("OK", "MISTRUSTED"):
                self.assertIn(text, style.STATUS_MARKS.values())
                self.assertTrue(np.isnan(speedup))
            else:
                self.assertEqual(text.endswith("*"), row["status"] == "MISTRUSTED")
                self.assertAlmostEqual(
                    float(text.rstrip("*")), speedup, delta=0.5 if speedup >= 9.9 else 0.051
                )
                if speedup > 1.3:
                    self.assertGreater(face[2], face[0], "paying cells are blue")
                if speedup < 0.75:
                    self.assertGreater(face[0], face[2], "costly cells are orange")

    def test_grids_are_drawn_once_with_their_front(self):
        rows = self.csv("tensor_parallel_error")
        self.assertEqual(len(rows), 5 * 3 * 3)  # grids on 4 and 8 ranks, codecs, results
        for p in ("4", "8"):
            own = [(int(r["received_bytes"]), float(r["relative_l2"]), r["on_front"]) for r in rows if r["ranks"] == p and r["what"] == "output"]
            for count, error, front in own:
                beaten = any(b <= count and e <= error and (b, e) != (count, error) for b, e, _ in own)
                self.assertEqual(front, str(int(not beaten)))
        cells = list(made.grid_rows(np.random.default_rng(SEED), codecs=("none", "topk:fraction=0.1")))
        drawing = draw("tensor_parallel_error", load(cells))
        self.assertIn("the codec keeps state", " ".join(drawing.gaps))
        self.assertEqual({r["scheme"] for r in drawing.rows if r["codec"] != "none"}, {"1-D"})
        close(drawing)

    def test_grids_stand_in_no_figure_of_single_operations(self):
        self.assertFalse(np.any(self.collected.cells["program"] == "bench_tensor_parallel"))
        self.assertEqual(len(self.collected.grid_cells), 5 * 3 * 4)

    def test_map_values_are_those_of_the_collected_file(self):
        cells = self.collected.cells
        for row in self.csv("speedup_map")[::37]:
            tp, pp = map(int, row["layout"].strip("()").split(","))
            batch, seq = map(int, row["shape"].split("×"))
            (found,) = cells.where(
                link=row["link"],
                traffic=row["traffic"],
                label=row["label"],
                tp=tp,
                pp=pp,
                batch=batch,
                seq=seq,
            ).rows()
            self.assertEqual(
                (row["status"], float(row["speedup"])) if row["speedup"] != "nan" else row["status"],
                (found["status"], found["speedup"]) if row["speedup"] != "nan" else found["status"],
            )

    def test_points_of_error_against_ratio_are_those_of_the_csv(self):
        rows = self.csv("error_vs_ratio")
        for axes, traffic in zip(
            self.drawings["error_vs_ratio"].figure.axes,
            ("tp_forward", "pp_forward", "dp_gradient", "embedding", "pp_backward"),
        ):
            here = [r for r in rows if r["traffic"] == traffic]
            wanted = sorted(
                (f"{float(r['ratio']):.9g}", f"{float(r['relative_l2']):.9g}")
                for r in here
                if float(r["relative_l2"]) > 0
            )
            drawn = offsets(axes)
            floor = min(float(y) for _, y in drawn)
            self.assertEqual(
                wanted,
                [p for p in drawn if float(p[1]) > floor or all(float(r["relative_l2"]) > 0 for r in here)],
            )
            self.assertEqual(len(drawn), len(here))

    def test_pareto_front_is_what_brute_force_finds(self):
        rows = [r for r in self.csv("error_vs_ratio") if r["what"] == "median"]
        for r in rows:
            dominated = any(
                o["traffic"] == r["traffic"]
                and float(o["ratio"]) >= float(r["ratio"])
                and float(o["relative_l2"]) <= float(r["relative_l2"])
                and (o["ratio"], o["relative_l2"]) != (r["ratio"], r["relative_l2"])
                for o in rows
            )
            self.assertEqual(r["on_front"], "0" if dominated else "1", r)

    def test_bars_of_the_stage_split_are_those_of_the_csv(self):
        rows = self.csv("stage_split")
        panels = [a for a in self.drawings["stage_split"].figure.axes if a.patches]
        i = 0
        for axes in panels:
            scale = 1e3 if "(ms)" in axes.get_xlabel() else 1.0
            for k in range(0, len(axes.patches), 3):
                widths = [p.get_width() * scale for p in axes.patches[k : k + 3]]
                np.testing.assert_allclose(
                    widths, [float(rows[i][f"{s}_us"]) for s in ("encode", "transfer", "decode")], rtol=1e-9
                )
                i += 1
        self.assertEqual(i, len(rows))

    def test_points_and_agreement_of_break_even_are_those_of_the_csv(self):
        rows = [r for r in self.csv("break_even") if r["what"] == "cell"]
        links = list(dict.fromkeys(r["link"] for r in rows))
        self.assertEqual(links, ["netns:100mbit", "netns:1gbit", "netns:4gbit"])
        for axes, link in zip(self.drawings["break_even"].figure.axes, links):
            here = [r for r in rows if r["link"] == link]
            wanted = sorted(
                (f"{float(r['quotient']):.9g}", f"{float(r['speedup']):.9g}")
                for r in here
                if float(r["quotient"]) > 0
            )
            drawn = offsets(axes)
            edge = min(float(x) for x, _ in drawn)  # where w* <= 0 is drawn
            self.assertEqual(wanted, [p for p in drawn if float(p[0]) > edge or len(wanted) == len(here)])
            self.assertEqual(len(drawn), len(here))
            agree = sum(
                (float(r["predicted_gbps"]) > float(r["link_gbps"])) == (float(r["speedup"]) > 1)
                for r in here
            )
            self.assertIn(f"agree: {agree} of {len(here)}", [t.get_text() for t in axes.texts])

    def test_dots_of_codecs_links_and_gradients_are_those_of_the_csv(self):
        rows = self.csv("codec_throughput")
        left, right = self.drawings["codec_throughput"].figure.axes
        self.assertEqual(sorted(x for x, _ in offsets(left)), sorted(f"{float(r['gbps']):.9g}" for r in rows))
        self.assertEqual(
            sorted(x for x, _ in offsets(right)), sorted(f"{float(r['bound_fraction']):.9g}" for r in rows)
        )
        self.assertEqual({r["tensor"] for r in rows}, {"generated 32 MiB"}, "the largest tensor is drawn")
        rows = self.csv("links")
        drawn = offsets(self.drawings["links"].figure.axes[0])
        crosses = [r for r in rows if r["trusted"] == "0"]
        self.assertEqual(len(drawn), len(rows) + len(crosses))
        self.assertEqual(
            set(drawn), {(f"{float(r['bytes']):.9g}", f"{float(r['measured_gbps']):.9g}") for r in rows}
        )
        rows = self.csv("gradient_protocols")
        for axes, (panel, link) in zip(
            self.drawings["gradient_protocols"].figure.axes,
            dict.fromkeys((r["panel"], r["link"]) for r in rows),
        ):
            self.assertEqual(
                sorted(x for x, _ in offsets(axes)),
                sorted(f"{float(r['value']):.9g}" for r in rows if (r["panel"], r["link"]) == (panel, link)),
            )

    def test_bars_of_the_embedding_are_those_of_the_csv(self):
        rows = self.csv("embedding_sync")
        axes = self.drawings["embedding_sync"].figure.axes
        widths = sorted(p.get_width() for p in axes[0].patches)
        np.testing.assert_allclose(
            widths, sorted(float(r["value"]) / 2**20 for r in rows if r["panel"] == "link_bytes")
        )
        self.assertEqual({r["scheme"] for r in rows}, {"two-step", "fused"})

    def test_curves_of_training_and_spectra_are_those_of_the_csv(self):
        rows = self.csv("training")
        line = self.drawings["training"].figure.axes[0].lines[0]
        np.testing.assert_array_equal(
            line.get_ydata(), [float(r["value"]) for r in rows if r["what"] == "loss"]
        )
        self.assertEqual(
            {r["what"]: float(r["value"]) for r in rows if r["what"].endswith("entropy")},
            {"unigram_entropy": 3.3, "bigram_entropy": 2.45},
        )
        rows = self.csv("spectra")
        drawn = np.concatenate([line.get_ydata() for line in self.drawings["spectra"].figure.axes[0].lines])
        wanted = [
            float(r["value"])
            for r in rows
            if r["kind"] == "weight_gradient" and r["what"] in ("curve", "median")
        ]
        np.testing.assert_allclose(np.sort(drawn), np.sort(wanted))

    def test_loss_curves_are_those_of_the_csv_and_the_difference_is_one(self):
        rows = self.csv("loss_curves")
        panels = self.drawings["loss_curves"].figure.axes
        for axes, what in zip(panels, ("training", "validation", "difference")):
            for line in axes.lines:
                if len(line.get_xdata()) < 3:
                    continue  # entropy, zero
                mine = {r["plan"] for r in rows if r["what"] == what}
                drawn = [f"{v:.12g}" for v in line.get_ydata()]
                found = [
                    plan
                    for plan in mine
                    if drawn
                    == [f"{float(r['value']):.12g}" for r in rows if r["what"] == what and r["plan"] == plan]
                ]
                self.assertEqual(len(found), 1, what)
        self.assertEqual(
            [sum(len(line.get_xdata()) > 2 for line in axes.lines) for axes in panels],
            [len(made.PLANS), len(made.PLANS), len(made.PLANS) - 1],
        )
        value = {(r["what"], r["plan"], r["step"]): float(r["value"]) for r in rows}
        for (what, plan, step), v in value.items():
            if what == "difference":
                self.assertAlmostEqual(
                    v, value["validation", plan, step] - value["validation", "dense", step]
                )
        raw = self.collected.training_curve
        kept = raw.where(np.isfinite(raw["validation_loss"]), plan="all")
        self.assertEqual(
            [value["validation", "all", str(s)] for s in kept["step"]], list(kept["validation_loss"])
        )

    def test_loss_against_bytes_and_time_is_that_of_the_csv(self):
        rows = [r for r in self.csv("loss_vs_bytes") if r["what"] == "curve"]
        left, right = self.drawings["loss_vs_bytes"].figure.axes
        lines = [line for line in left.lines if len(line.get_xdata()) > 2]
        scale = 1e9 if "(GB)" in left.get_xlabel() else 1e6
        np.testing.assert_allclose(
            np.concatenate([line.get_xdata() for line in lines]) * scale,
            [float(r["link_bytes"]) for r in rows],
        )
        np.testing.assert_allclose(
            np.concatenate([line.get_ydata() for line in lines]), [float(r["validation_loss"]) for r in rows]
        )
        until = [float(r["link_bytes"]) for r in self.csv("loss_vs_bytes") if r["what"] == "until_target"]
        scale = 1e9 if "(GB)" in right.get_xlabel() else 1e6
        np.testing.assert_allclose(
            [p.get_width() * scale for p in right.patches], [u for u in until if np.isfinite(u)]
        )
        self.assertEqual(
            sum(t.get_text() == "not reached in this run" for t in right.texts),
            sum(not np.isfinite(u) for u in until),
        )
        rows = self.csv("loss_vs_time")
        links = list(dict.fromkeys(r["link"] for r in rows))
        self.assertEqual(
            links, ["netns:100mbit", "netns:1gbit", "netns:4gbit"], "no shared memory: it was not timed"
        )
        for axes, link in zip(self.drawings["loss_vs_time"].figure.axes, links):
            here = [r for r in rows if r["link"] == link]
            self.assertTrue(
                all(
                    abs(float(r["seconds"]) - (int(r["step"]) + 1) * float(r["step_ms"]) / 1e3) < 1e-9
                    for r in here
                )
            )
            drawn = np.concatenate([line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 2])
            scale = 60 if "(min)" in axes.get_xlabel() else 1
            np.testing.assert_allclose(drawn * scale, [float(r["seconds"]) for r in here])

    def test_bars_of_a_training_step_are_those_of_the_csv(self):
        rows = self.csv("training_stage_split")
        self.assertEqual(len(rows), 3 * len(made.PLANS))
        for axes, link in zip(
            self.drawings["training_stage_split"].figure.axes, dict.fromkeys(r["link"] for r in rows)
        ):
            here = [r for r in rows if r["link"] == link]
            self.assertEqual(here[0]["plan"], "dense", "the uncompressed plan comes first")
            wanted = [
                float(r[f"{s}_ms"])
                for r in here
                for s in ("compute", "encode", "transfer", "decode", "wait")
                if float(r[f"{s}_ms"]) > 0
            ]
            np.testing.assert_allclose([p.get_width() for p in axes.patches], wanted)
            for r in here:
                self.assertAlmostEqual(float(r["speedup"]), float(here[0]["step_ms"]) / float(r["step_ms"]))

    def test_bars_of_the_timeline_are_those_of_the_csv(self):
        rows = self.csv("timeline")
        self.assertEqual(list(dict.fromkeys(r["plan"] for r in rows)), ["dense", "all"])
        for axes, plan in zip(self.drawings["timeline"].figure.axes, ("dense", "all")):
            drawn = sorted(
                f"{path.get_extents().x0 * 1e3:.6g} {path.get_extents().x1 * 1e3:.6g}"
                for c in axes.collections
                for path in c.get_paths()
            )
            wanted = sorted(
                f"{float(r['start_us']):.6g} {float(r['end_us']):.6g}" for r in rows if r["plan"] == plan
            )
            self.assertEqual(drawn, wanted)

    def test_csv_starts_with_the_hash_of_its_input(self):
        comments, _ = read_csv(drawings.to_csv(self.drawings["links"], self.collected.sha256))
        self.assertEqual(comments[0], f"# input-sha256: {self.collected.sha256}")


class ClosedForms(unittest.TestCase):
    def test_rho90_of_flat_and_of_single_spectra(self):
        spectra = [
            dict(tensor="flat", step=1, kind="activation", centred=0, index=i, singular_value=1.0)
            for i in range(10)
        ]
        spectra += [
            dict(
                tensor="one",
                step=1,
                kind="weight_gradient",
                centred=0,
                index=i,
                singular_value=1.0 if i == 0 else 0.0,
            )
            for i in range(10)
        ]
        drawing = draw("spectra", load([made.row(traffic="codec")], spectra=spectra))
        rho = {r["tensor"]: r["value"] for r in drawing.rows if r["what"] == "rho90"}
        close(drawing)
        self.assertEqual(rho, {"flat": 0.9, "one": 0.1})

    def test_crossing_is_bracketed_by_the_measured_rates(self):
        def rows(method, speedups, predicted):
            for (link, rate), speedup in zip(
                (("netns:100mbit", 0.1), ("netns:1gbit", 1.0), ("netns:4gbit", 4.0)), speedups
            ):
                yield made.row(
                    traffic="tp_forward",
                    method=method,
                    codec="topk:k=9",
                    protocol="gather",
                    link=link,
                    link_gbps=rate,
                    tp=4,
                    batch=8,
                    seq=128,
                    speedup=speedup,
                    break_even_gbps=predicted,
                    ratio=2.0,
                    relative_l2=0.5,
                )

        cells = [
            *rows("T1", (3, 1.5, 0.8), 2.0),
            *rows("T2", (0.9, 0.8, 0.7), 0.05),
            *rows("T3", (3, 2, 1.5), 9.0),
            *rows("T4", (0.8, 2, 0.5), 1.0),
        ]
        drawing = draw("break_even", load(cells))
        brackets = {
            r["label"]: (r["bracket_low_gbps"], r["bracket_high_gbps"], r["agrees"])
            for r in drawing.rows
            if r["what"] == "bracket"
        }
        close(drawing)
        self.assertEqual(brackets, {"T1": (1.0, 4.0, 1), "T2": (0.0, 0.1, 1), "T3": (4.0, float("inf"), 1)})


class TrainingRuns(unittest.TestCase):
    LINKS = ["netns:100mbit", "netns:1gbit"]

    def runs(self, **arguments):
        return made.training_runs(np.random.default_rng(SEED), self.LINKS, **arguments)

    def test_a_target_is_reached_where_the_straight_line_crosses_it(self):
        x, losses = [10.0, 20.0, 30.0], [3.0, 2.0, 1.0]
        self.assertEqual(plans.reaches(x, losses, 2.5), 15.0)
        self.assertEqual(plans.reaches(x, losses, 1.0), 30.0)
        self.assertEqual(plans.reaches(x, losses, 4.0), 10.0)
        self.assertTrue(np.isnan(plans.reaches(x, losses, 0.9)))
        self.assertEqual(plans.reaches([1.0, 2.0, 3.0], [3.0, 1.0, 3.0], 2.0), 1.5, "the first time counts")

    def test_bench_figures_do_not_see_training_runs(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, self.LINKS, layouts=((2, 2),), shapes=((8, 128),))) + list(
            made.gradient_rows(rng, self.LINKS)
        )
        alone, beside = load(cells), load(cells, runs=self.runs())
        for name in FIGURES[:10]:
            both = [draw(name, collected) for collected in (alone, beside)]
            self.assertEqual(*(drawings.to_csv(d, "") for d in both), name)
            for drawing in both:
                close(drawing)

    def test_times_come_from_timed_compute_only(self):
        runs = plans.load(load([], runs=self.runs()))
        self.assertEqual(runs.links, self.LINKS, "shared memory was real compute on too many ranks")
        tables = self.runs(plans=("dense",))
        for row in tables["training_time"]:
            if row["compute"] == "real":
                row["communication_share"] = 0.2  # as on enough cores
        self.assertEqual(plans.load(load([], runs=tables)).links, [*self.LINKS, "shm"])

    def test_several_seeds_become_their_median(self):
        tables = self.runs(plans=("dense",))
        for i, shift in enumerate((0.5, 0.1)):
            tables["training_curve"] += [
                dict(
                    row,
                    cell_id=f"seed {i}",
                    validation_loss=row["validation_loss"] + shift,
                    loss=row["loss"] + shift,
                )
                for row in tables["training_curve"]
                if not row["cell_id"].startswith("seed")
            ]
        curve = plans.load(load([], runs=tables)).curves["dense"]
        one = [r["validation_loss"] for r in self.runs(plans=("dense",))["training_curve"]]
        self.assertEqual(curve.runs, 3)
        np.testing.assert_allclose(curve.validated()[1], [v + 0.1 for v in one if np.isfinite(v)])

    def test_runs_of_another_model_are_left_out_and_counted(self):
        tables, other = self.runs(), self.runs(plans=("dense",), steps=50)
        for row in other["cells"]:
            row["hidden"] = 256
        merged = {name: tables[name] + other[name] for name in tables}
        collected = load([], runs=merged)
        self.assertEqual(len(plans.load(collected).curves["dense"].step), 300)
        for name in FIGURES[-5:-1]:
            drawing = draw(name, collected)
            self.assertIn("3 training runs of another model", " ".join(drawing.gaps), name)
            close(drawing)

    def test_a_link_off_its_calibration_is_marked(self):
        tables = self.runs(plans=("dense", "all"))
        for row in tables["cells"]:
            if row["link"] == "netns:1gbit" and row["method"] == "all" and row["traffic"] == "dp_gradient":
                row.update(status="MISTRUSTED", reason="off")
        drawing = draw("training_stage_split", load([], runs=tables))
        marked = {(r["plan"], r["link"]) for r in drawing.rows if not r["trusted"]}
        stars = [t.get_text() for a in drawing.figure.axes for t in a.texts if t.get_text().endswith(" *")]
        close(drawing)
        self.assertIn(
            "Not counted on netns:1gbit, which was off its calibration: 'all'", " ".join(drawing.seen)
        )
        self.assertIn("On netns:100mbit a step of the uncompressed plan takes", " ".join(drawing.seen))
        self.assertEqual(marked, {("all", "netns:1gbit")})
        self.assertEqual(len(stars), 1)

    def test_plans_are_told_apart_and_ordered_from_dense_to_all(self):
        found = plans.load(load([], runs=self.runs())).plans
        self.assertEqual([p.name for p in found], list(made.PLANS))
        looks = {(p.look["color"], p.look["linestyle"], p.look["marker"]) for p in found}
        self.assertEqual(len(looks), len(found))
        self.assertEqual(
            found[-1].described(),
            (
                "tp_forward, embedding by quantize 8; pp_backward by powersgd 16 +lep; dp_gradient by"
                " powersgd 8 +ef"
            ),
        )

    def test_the_timeline_shows_the_link_where_half_of_the_step_is_communication(self):
        for link, shares in (("netns:1gbit", (0.9, 0.45)), ("netns:100mbit", (0.6, 0.1))):
            tables = self.runs()
            for row in tables["training_time"]:
                if row["compute"] == "timed":
                    row["communication_share"] = shares[self.LINKS.index(row["link"])]
            drawing = draw("timeline", load([], runs=tables))
            close(drawing)
            self.assertEqual({r["link"] for r in drawing.rows}, {link})
            self.assertEqual({r["plan"] for r in drawing.rows}, {"dense", "all"})

    def test_spans_that_nearly_touch_are_one_and_others_are_not(self):
        spans = [(0, 10), (10.5, 20), (40, 50), (45, 60), (1000, 2000)]
        tables = {
            "timeline": [
                dict(
                    cell_id="c",
                    plan="dense",
                    link="shm",
                    rank=0,
                    category="compute",
                    name="mlp",
                    micro=0,
                    start_us=float(a),
                    end_us=float(b),
                )
                for a, b in spans
            ]
        }
        drawing = draw("timeline", load([], runs=tables))
        close(drawing)
        self.assertEqual(
            [(r["start_us"], r["end_us"]) for r in drawing.rows],
            [(0.0, 20.0), (40.0, 60.0), (1000.0, 2000.0)],
        )

    def test_what_is_seen_follows_the_numbers(self):
        def seen(name, penalty):
            tables = self.runs(plans=("dense", "all"))
            for row in tables["training_curve"]:
                if row["plan"] == "all":
                    row["validation_loss"] += penalty
            drawing = draw(name, load([], runs=tables))
            close(drawing)
            return " ".join(drawing.seen)

        self.assertIn("'all' (+1.", seen("loss_curves", 1.0))
        self.assertIn("Visibly worse", seen("loss_curves", 1.0))
        self.assertIn("lower than the uncompressed plan", seen("loss_curves", -0.5))
        self.assertIn("never within this run: 'all'", seen("loss_vs_time", 1.0))
        self.assertIn("sooner there: 'all'", seen("loss_vs_time", -0.3))
        self.assertIn("never gets", seen("loss_vs_bytes", 1.0))
        self.assertIn("fewer bytes get there 'all'", seen("loss_vs_bytes", -0.3))


class MissingData(unittest.TestCase):
    """Every figure, on every kind of incomplete file: drawn or explicitly empty, never a crash, never invented points."""

    TRAINING = FIGURES[-5:]
    FEW = {"layouts": ((2, 2), (4, 1)), "shapes": ((8, 128), (32, 512))}

    def check(self, collected, empty=(), figures=FIGURES):
        for name in figures:
            drawing = draw(name, collected)
            try:
                texts = " ".join(" ".join(t for t, _ in visible_texts(drawing.figure)).split())
                if not drawing.rows:
                    self.assertIn("no data because", texts, name)
                    self.assertTrue(drawing.gaps, name)
                self.assertEqual(
                    name in empty or not drawing.rows,
                    not drawing.rows,
                    f"{name} should be empty: {drawing.rows[:1]}",
                )
                for row in drawing.rows:
                    self.assertEqual(set(row), set(drawing.columns), name)
            finally:
                close(drawing)

    def test_training_runs_that_lack_a_part(self):
        links = ["netns:100mbit", "netns:1gbit"]
        whole = lambda: made.training_runs(np.random.default_rng(SEED), links)
        for lacking, empty in (
            ("training_curve", ("loss_curves", "loss_vs_bytes", "loss_vs_time")),
            ("training_time", ("loss_vs_time", "training_stage_split")),
            ("training_traffic", ()),
            ("timeline", ("timeline",)),
            ("cells", ()),
        ):
            runs = whole()
            runs[lacking] = []
            self.check(load([], runs=runs), empty, self.TRAINING)
        runs = made.training_runs(np.random.default_rng(SEED), [])  # never timed
        self.check(load([], runs=runs), ("loss_vs_time", "training_stage_split", "timeline"), self.TRAINING)
        for row in runs["training_curve"]:
            row["validation_loss"] = NAN
        self.check(load([], runs=runs), ("loss_vs_bytes", "loss_vs_time"), self.TRAINING)
        for few in ({"plans": ("all",)}, {"plans": ("dense",), "steps": 1}):
            runs = made.training_runs(np.random.default_rng(SEED), links, **few)
            self.check(load([], runs=runs), figures=self.TRAINING)

    def test_training_runs_with_values_that_are_not_numbers(self):
        rng = np.random.default_rng(SEED)
        runs = made.training_runs(rng, ["netns:100mbit", "netns:1gbit"])
        for name, table in runs.items():
            for row in table:
                floats = [key for key, value in row.items() if isinstance(value, float)]
                for key in rng.choice(floats, size=1):
                    row[key] = rng.choice([NAN, float("inf"), 0.0, -1.0])
        self.check(load([], runs=runs), figures=self.TRAINING)

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
        collected = load(cells)
        self.check(collected, empty=("break_even",))
        for name in ("stage_split", "gradient_protocols", "embedding_sync", "break_even"):
            drawing = draw(name, collected)
            self.assertIn("namespaces are not permitted", " ".join(drawing.gaps), name)
            close(drawing)

    def test_everything_failed(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, ["shm"], **self.FEW)) + list(made.codec_rows(rng))
        for row in cells:
            row.update(
                {name: NAN for name, kind in data.COLUMNS["cells"].items() if kind == "float"},
                status="FAILED",
                reason="rank 2 was lost",
            )
        self.check(load(cells), empty=[name for name in FIGURES if name != "speedup_map"])

    def test_values_that_are_not_numbers(self):
        rng = np.random.default_rng(SEED)
        links = ["netns:100mbit", "netns:1gbit"]
        cells = (
            list(made.activation_rows(rng, links, **self.FEW))
            + list(made.gradient_rows(rng, links))
            + list(made.embedding_rows(rng, links))
            + list(made.codec_rows(rng))
        )
        floats = [name for name, kind in data.COLUMNS["cells"].items() if kind == "float"]
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
            empty=[name for name in FIGURES if name != "codec_throughput"],
        )


class Kinds(unittest.TestCase):
    def test_emulated_points_are_hollow_and_in_the_legend(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, ["shm"], layouts=((4, 1),)))
        for row in cells:
            row.update(link="emulated:eth10")
        drawing = draw("error_vs_ratio", load(cells))
        legend = [t.get_text() for t in drawing.figure.legends[0].get_texts()]
        faces = [
            tuple(c.get_facecolor()[0])
            for c in drawing.figure.axes[0].collections
            if type(c).__name__ == "PathCollection" and c.get_sizes()[0] > 10
        ]
        close(drawing)
        self.assertIn("emulated", legend)
        self.assertTrue(faces and all(face == (1, 1, 1, 1) for face in faces))


if __name__ == "__main__":
    unittest.main()
