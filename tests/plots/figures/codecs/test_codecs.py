# labels: unit
# timeout: 300
"""Figures of codecs alone: what the CSV says is what is drawn."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import ROOT, close, draw, misplaced_texts, offsets
from complete import OnCompleteData
import make_collected as made
from make_collected import load
import numpy as np

from plots.lib import data, pareto
from plots.lib.schema import LATER


class CompleteRun(OnCompleteData):
    def test_dots_of_codecs_are_those_of_the_csv(self):
        rows = self.csv("codec_throughput")
        left, right = self.drawings["codec_throughput"].figure.axes
        self.assertEqual(sorted(x for x, _ in offsets(left)), sorted(f"{float(r['gbps']):.9g}" for r in rows))
        self.assertEqual(
            sorted(x for x, _ in offsets(right)), sorted(f"{float(r['bound_fraction']):.9g}" for r in rows)
        )
        self.assertEqual({r["tensor"] for r in rows}, {"generated 32 MiB"}, "the largest tensor is drawn")

    def test_goals_are_marked_where_a_codec_has_some(self):
        right = self.drawings["codec_throughput"].figure.axes[1]
        rows = [r for r in self.csv("codec_throughput") if r["target"] not in ("", "nan")]
        self.assertEqual({(r["label"].split()[0], r["direction"], float(r["target"])) for r in rows}, {("topk", "encode", 0.3), ("topk", "decode", 0.5)})
        self.assertEqual(sorted(set(line.get_xdata()[0] for line in right.lines)), [0.3, 0.5])

    def test_curves_of_spectra_are_those_of_the_csv(self):
        rows = self.csv("spectra")
        drawn = np.concatenate([line.get_ydata() for line in self.drawings["spectra"].figure.axes[0].lines])
        wanted = [
            float(r["value"])
            for r in rows
            if r["kind"] == "weight_gradient" and r["what"] in ("curve", "median")
        ]
        np.testing.assert_allclose(np.sort(drawn), np.sort(wanted))


    def test_magnitudes_are_shares_and_tell_a_log_normal_from_another(self):
        drawing = self.drawings["gradient_magnitudes"]
        rows = self.csv("gradient_magnitudes", what="measured", step="400")
        share = lambda kind: sum(float(r["share"]) for r in rows if r["kind"] == kind)
        self.assertAlmostEqual(share("attention.qkv.weight"), 1.0)
        self.assertLess(share("token.weight"), 0.9, "zeros have no octave")
        titles = [axes.get_title(loc="left") for axes in drawing.figure.axes if axes.get_visible()]
        self.assertTrue(any("zeros" in title for title in titles), titles)
        self.assertIn("Farthest from a log-normal is token.weight", drawing.seen[0])

    def test_points_of_the_pareto_figure_are_those_of_the_csv_and_the_front_is_named(self):
        panels = {"generated 32 MiB", "tensor-parallel forward sum (tp_forward)"}
        drawing = self.drawings["codec_pareto"]
        self.assertEqual({axes.get_title(loc="left") for axes in drawing.figure.axes}, panels)
        for axes in drawing.figure.axes:
            rows = self.csv("codec_pareto", panel=axes.get_title(loc="left"))
            drawn = {x for x, _ in offsets(axes)}
            self.assertEqual(drawn, {f"{float(r['ratio']):.9g}" for r in rows})
            # No other has more ratio and no more error than these: by hand from the made-up numbers.
            best = {r["label"] for r in rows if r["on_front"] == "1"}
            self.assertEqual(best, {"none", "cast bf16", "quantize 8", "autoencoder 50", "powersgd 4", "randomk 0.01"})
            texts = {text.get_text() for text in axes.texts}
            self.assertEqual(texts - best, {"exact (0)", "tolerable: 0.01"})
            self.assertEqual(best - texts, set(), "every codec of the front has its label")
        self.assertEqual(drawing.gaps, [])
        (caption, header, table), *_ = drawing.tables
        self.assertEqual([line[0] for line in table][:4], ["autoencoder 50", "quantize 8", "cast bf16", "none"], caption)
        self.assertEqual({len(line) for line in table}, {len(header)})


class OldFiles(unittest.TestCase):
    """Files from before a column are read, and drawn from what they have."""

    def test_vnmse_and_ratio_follow_from_older_columns(self):
        rows = [made.row(program="bench_codec", traffic="codec", codec="cast", method="cast", tensor="/data/g.npy", dense_bytes=4000, payload_bytes=2000, relative_l2=0.5)]
        rows = [{name: value for name, value in r.items() if name not in LATER["cells"]} for r in rows]
        collected = load(rows)
        self.assertTrue(np.isnan(collected.cells["vnmse"]).all() and list(collected.cells["tensor_class"]) == [""])
        throughput = draw("codec_throughput", load([dict(r, encode_gbps=1.0, decode_gbps=1.0, bound_fraction_encode=0.1, bound_fraction_decode=0.1) for r in rows]))
        close(throughput)
        self.assertTrue(all(np.isnan(r["target"]) for r in throughput.rows) and len(throughput.rows) == 2)
        drawing = draw("codec_pareto", collected)
        close(drawing)
        (point,) = drawing.rows
        self.assertEqual((point["panel"], point["ratio"], point["vnmse"], point["on_front"]), ("g.npy", 2.0, 0.25, 1))
        self.assertTrue(np.isnan(point["cosine"]) and np.isnan(point["slope_bias"]))

    def test_the_committed_reference_is_drawn(self):
        drawing = draw("codec_pareto", data.load(os.path.join(ROOT, "results", "reference", "cpu-2-cores", "quick.h5")))
        self.assertEqual(misplaced_texts(drawing.figure), [])
        close(drawing)
        self.assertGreater(len(drawing.rows), 5)
        self.assertTrue(any(r["on_front"] for r in drawing.rows))


class ClosedForms(unittest.TestCase):
    def test_the_front_of_equal_worse_and_better_points(self):
        points = [dict(ratio=r, vnmse=e) for r, e in ((1, 0.0), (2, 0.1), (2, 0.1), (2, 0.2), (1.5, 0.1), (4, 0.1000001))]
        pareto.mark_front(points, "vnmse")
        self.assertEqual([p["on_front"] for p in points], [1, 1, 1, 0, 0, 1])

    def test_many_codecs_of_one_tensor_have_no_labels_that_overlap(self):
        rows = [
            made.row(
                program="bench_codec", traffic="codec", codec=f"group:bits={1 + i % 8},group={32 * (1 + i // 8)}", method="group", tensor="w.npy", dense_bytes=1 << 20,
                payload_bytes=int((1 << 20) / (1.13**i)), ratio=1.13**i, vnmse=1e-7 * 1.5**i * (1 + 0.3 * (i % 3)), relative_l2=0.1,
            )  # fmt: skip
            for i in range(40)
        ]
        drawing = draw("codec_pareto", load(rows))
        self.assertEqual(misplaced_texts(drawing.figure), [])
        close(drawing)

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


if __name__ == "__main__":
    unittest.main()
