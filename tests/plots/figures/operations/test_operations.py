# labels: unit
# timeout: 300
"""Figures of single compressed operations: what the CSV says is what is drawn."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import SEED, close, draw, offsets
from complete import OnCompleteData
import make_collected as made
from make_collected import load
import numpy as np
from matplotlib.colors import to_rgba

from plots.lib import style


class CompleteRun(OnCompleteData):
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

    def test_bars_of_the_embedding_are_those_of_the_csv(self):
        rows = self.csv("embedding_sync")
        axes = self.drawings["embedding_sync"].figure.axes
        widths = sorted(p.get_width() for p in axes[0].patches)
        np.testing.assert_allclose(
            widths, sorted(float(r["value"]) / 2**20 for r in rows if r["panel"] == "link_bytes")
        )
        self.assertEqual({r["scheme"] for r in rows}, {"two-step", "fused"})

    def test_dots_of_gradients_are_those_of_the_csv(self):
        rows = self.csv("gradient_protocols")
        for axes, (panel, link) in zip(
            self.drawings["gradient_protocols"].figure.axes,
            dict.fromkeys((r["panel"], r["link"]) for r in rows),
        ):
            self.assertEqual(
                sorted(x for x, _ in offsets(axes)),
                sorted(f"{float(r['value']):.9g}" for r in rows if (r["panel"], r["link"]) == (panel, link)),
            )


    def test_dots_of_sharded_exchanges_are_those_of_the_csv(self):
        rows = self.csv("sharded_exchange")
        panels = list(dict.fromkeys((r["traffic"], r["panel"], r["link"]) for r in rows))
        self.assertEqual({traffic for traffic, *_ in panels}, {"grad_reduce_scatter", "param_all_gather"})
        for axes, panel in zip(self.drawings["sharded_exchange"].figure.axes, panels):
            self.assertEqual(
                sorted(x for x, _ in offsets(axes)),
                sorted(f"{float(r['value']):.9g}" for r in rows if (r["traffic"], r["panel"], r["link"]) == panel),
            )


class ClosedForms(unittest.TestCase):
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
        drawing = draw("break_even", load(cells), laid_out=False)
        brackets = {
            r["label"]: (r["bracket_low_gbps"], r["bracket_high_gbps"], r["agrees"])
            for r in drawing.rows
            if r["what"] == "bracket"
        }
        close(drawing)
        self.assertEqual(brackets, {"T1": (1.0, 4.0, 1), "T2": (0.0, 0.1, 1), "T3": (4.0, float("inf"), 1)})

    def test_other_numbers_of_replicas_are_other_cells(self):
        cells = []
        for dp, speedups in ((2, (3, 0.8)), (4, (4, 2))):
            for (link, rate), speedup in zip((("netns:100mbit", 0.1), ("netns:1gbit", 1.0)), speedups):
                cells.append(
                    made.row(
                        traffic="dp_gradient",
                        method="P1",
                        codec="powersgd:rank=4",
                        protocol="reduce",
                        link=link,
                        link_gbps=rate,
                        dp=dp,
                        batch=8,
                        seq=128,
                        speedup=speedup,
                        break_even_gbps=0.5 if dp == 2 else 3.0,
                        ratio=2.0,
                        relative_l2=0.5,
                    )
                )
        drawing = draw("break_even", load(cells), laid_out=False)
        brackets = {r["group"]: (r["bracket_low_gbps"], r["bracket_high_gbps"]) for r in drawing.rows if r["what"] == "bracket"}
        close(drawing)
        self.assertEqual(brackets, {2: (0.1, 1.0), 4: (1.0, float("inf"))})


class Kinds(unittest.TestCase):
    def test_emulated_points_are_hollow_and_in_the_legend(self):
        rng = np.random.default_rng(SEED)
        cells = list(made.activation_rows(rng, ["shm"], layouts=((4, 1),)))
        for row in cells:
            row.update(link="emulated:eth10")
        drawing = draw("error_vs_ratio", load(cells), laid_out=False)
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
