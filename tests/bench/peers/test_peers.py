# labels: unit
"""The PyTorch peers without PyTorch: rows say SKIPPED and why, their columns are those of /cells, and their arithmetic is that of core/formulas.h."""
import json
import os
import subprocess
import sys
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PEERS = os.path.join(ROOT, "bench", "peers")
sys.path.insert(0, PEERS)
sys.dont_write_bytecode = True

import cpu_codecs  # noqa: E402
import gpu_codecs  # noqa: E402
import gpu_training  # noqa: E402
import rows  # noqa: E402
import torch_codecs  # noqa: E402


def columns_of_cells():
    """Names in the table of /cells in docs/results-schema.md, which another test holds against the code."""
    names, inside = set(), False
    with open(os.path.join(ROOT, "docs", "results-schema.md"), encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("## "):
                inside = line.strip() == "## Table `/cells`"
            elif inside and line.startswith("| "):
                names.add(line.split("|")[1].strip())
    return names


class FakeTensor:
    """Sizes only."""

    def __init__(self, count, size):
        self.count, self.size = count, size

    def numel(self):
        return self.count

    def element_size(self):
        return self.size


class Peers(unittest.TestCase):
    def test_without_pytorch_each_script_gives_one_row_with_the_reason(self):
        try:
            import torch

            self.skipTest(f"PyTorch {torch.__version__} is here")
        except ImportError:
            pass
        for script, operation in (("gpu_codecs.py", "encode_decode"), ("cpu_codecs.py", "encode_decode"), ("gpu_training.py", "train_step")):
            done = subprocess.run([sys.executable, os.path.join(PEERS, script)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 77, done.stderr)
            made = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(made), 1)
            self.assertEqual((made[0]["status"], made[0]["operation"]), ("SKIPPED", operation))
            self.assertIn("no PyTorch: ", made[0]["reason"])

    def test_without_pytorch_the_peers_of_training_are_skipped(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for program in ("capture_traffic", "train_gpt", "bench_codec", "doctor"):
                open(os.path.join(folder, program), "w").close()
                os.chmod(os.path.join(folder, program), 0o755)
            models = [["run_peer.sh", "--model", *model] for model in (["gpt"], ["bert"], ["gpt_wide", "--products", "bf16"])]
            for script, *options in (*models, ["run_codec_peers.sh"], ["run_product_peers.sh"]):
                command = [os.path.join(PEERS, script), *options, "--bin", folder, "--venv", os.path.join(folder, "none")]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout[:8]), (77, "SKIPPED:"), done.stderr)
            for wrong in (["--model", "vit"], ["--products", "f16"], ["--model", "gpt", "--products", "bf16"], ["--speed", "1"]):
                done = subprocess.run([os.path.join(PEERS, "run_peer.sh"), *wrong], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)

    def test_rounds_in_which_a_peer_failed_pair_with_nothing(self):
        """Ours runs at 100, 200 and 400 tokens/s, the compiled peer at a tenth of that, but fails in the first round."""
        import tempfile

        ours = 'n=$(cat "$0.runs" 2>/dev/null || echo 100); echo $((n * 2)) >"$0.runs"; echo a 1 c 0.5 1 $n'
        peer = """case $* in
*--mode\\ compile*) n=$(cat "$0.runs" 2>/dev/null || echo 10); echo $((n * 2)) >"$0.runs"; [ $n != 10 ] && echo '{"program": "pytorch", "mode": "compile", "tokens_per_second": '$n'}' ;;
*--mode*) echo '{"program": "pytorch", "mode": "eager", "tokens_per_second": 1}' ;;
esac"""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "bin"))
            for name, script in (("capture_traffic", ours), ("bin/python", peer)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(os.path.join(folder, name), 0o755)
            kept = os.path.join(folder, "rows.jsonl")
            command = [os.path.join(PEERS, "run_peer.sh"), "--bin", folder, "--venv", folder, "--rounds", "3", "--out", kept]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("round 1: PyTorch in mode compile failed; it does not count", done.stderr)
            self.assertIn("thinwire / PyTorch in f32 (compile, the faster): 10.00 (median over rounds; 10.00 to 10.00)", done.stdout)
            with open(kept, encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 3 + 3 + 2)

    def test_rows_of_the_fine_tuning_peer_fill_their_sequences(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(PEERS, "make_rows.py"), folder, "--seq", "16", "--vocab", "50"], check=True)
            with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
                pieces = file.read().split()
            self.assertEqual((len(pieces), len(set(pieces)), pieces[2:4]), (50, 50, ["[CLS]", "[SEP]"]))
            with open(os.path.join(folder, "pol", "train.tsv"), encoding="utf-8") as file:
                header, *lines = file.read().splitlines()
            self.assertEqual(header, "label\tsentence")
            for line in lines:
                label, text = line.split("\t")
                self.assertIn(label, "01")
                self.assertEqual(len(text.split()), 14)
                self.assertTrue(set(text.split()) <= set(pieces))

    def test_a_file_takes_the_rows_and_the_log_their_reasons(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            script = f"import rows; rows.write([rows.skipped('encode_decode', 'no GPU'), rows.row('p', 'o', method='m', total_us=2.0)], {path!r})"
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PEERS)
            self.assertEqual(done.stdout, "SKIPPED: no GPU\nOK: m  2.0 us\n", done.stderr)
            with open(path, encoding="utf-8") as stream:
                self.assertEqual([json.loads(line)["status"] for line in stream], ["SKIPPED", "OK"])

    def test_rows_have_columns_of_cells_only(self):
        known = columns_of_cells()
        self.assertIn("bound_fraction", known)
        options = gpu_training.parse([])
        made = rows.row("pytorch 9", "train_step", method="torch eager", **gpu_training.columns_of(options, [2e5, 2.1e5, 2.2e5], 124439808, 786432, 1e6))
        for row in (made, rows.skipped("encode_decode", "why", traffic="codec"), rows.failed("p", "o", RuntimeError("out of memory\nmore"), device="d")):
            self.assertEqual(set(row) - known, set())
        self.assertEqual(rows.failed("p", "o", RuntimeError("out of memory\nmore"))["reason"], "RuntimeError: out of memory")

    def test_measured_columns_are_columns_of_cells(self):
        """With a clock that always says so many microseconds, and tensors that are numbers."""

        class Scalar(float):
            def numel(self):
                return 1 << 20

            def norm(self):
                return self

            def __sub__(self, other):
                return Scalar(float(self) - float(other))

        torch = types.SimpleNamespace(empty_like=lambda x: None)
        method = torch_codecs.Method("half", lambda x: (FakeTensor(1 << 20, 2),), lambda payload, x: Scalar(x * (1 + 2**-11)), exact=2**-10)
        clock = types.SimpleNamespace(take_turns=lambda bodies, seconds: {"copy": [8.0] * 5, "encode": [10.0, 10.0, 11.0, 12.0, 13.0], "decode": [5.0] * 5})
        made = torch_codecs.measure(torch, method, Scalar(3.0), clock, 0.1)
        wrong = torch_codecs.Method("lossy", method.encode, lambda payload, x: Scalar(x * 1.5), exact=2**-10)
        with self.assertRaisesRegex(AssertionError, "lossy decodes with a relative error of 0.5"):
            torch_codecs.measure(torch, wrong, Scalar(3.0), clock, 0.1)
        self.assertEqual(set(made) - columns_of_cells(), set())
        self.assertEqual((made["encode_us"], made["decode_us"], made["total_us"], made["repetitions"]), (11.0, 5.0, 16.0, 5))
        self.assertEqual((made["payload_bytes"], made["dense_bytes"], made["ratio"]), (2 << 20, 2 << 20, 1.0))
        self.assertEqual(made["break_even_gbps"], 0.0)  # f16 saves nothing over bf16
        # 6 MiB moved; the copy of 4 MiB reads and writes 8 MiB in 8 microseconds.
        self.assertAlmostEqual(made["bound_fraction_encode"], 6.0 / 11.0)

    def test_arithmetic_is_that_of_the_benches(self):
        self.assertAlmostEqual(rows.break_even_gbps(1e6, 1e5, 100.0), 72.0)
        self.assertEqual(rows.break_even_gbps(1e5, 1e6, 100.0), 0.0)
        self.assertAlmostEqual(rows.bound_fraction(2e9, 1000.0, 2000.0), 0.5)
        self.assertAlmostEqual(rows.interquartile_range([4, 1, 3, 2]), 1.5)
        self.assertEqual(rows.interquartile_range([7]), 0)
        self.assertEqual(rows.model_flops_per_token(124439808, 786432, 12, 768, 1024), 6 * 123653376 + 12 * 12 * 768 * 1024)
        self.assertEqual([torch_codecs.kept(n, 0.01) for n in (1, 149, 150, 1000)], [1, 1, 2, 10])
        self.assertEqual(torch_codecs.payload_bytes((FakeTensor(10, 4), FakeTensor(10, 8))), 120)

    def test_codecs_are_named_as_ours(self):
        options = gpu_codecs.parse([])
        self.assertEqual([codec for _, codec, _ in gpu_codecs.methods(None, options)], ["cast", "topk", "powersgd:rank=16"] + 3 * ["quantize"])
        self.assertEqual(torch_codecs.expression("topk", 0.1, 0.01), "topk:fraction=0.1")

    def test_codecs_on_the_host_have_peers_of_ours(self):
        named = [codec for _, codec, _ in cpu_codecs.methods(None, cpu_codecs.parse([]))]
        self.assertEqual(named, ["cast", "fp8:scale=tensor", "quantize", "group:bits=8", "topk"])

    def test_a_clock_of_the_host_takes_turns(self):
        calls = []
        samples = rows.HostClock().take_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=0, least=4, warm_up=2)
        self.assertEqual({name: len(values) for name, values in samples.items()}, {"a": 4, "b": 4})
        self.assertEqual("".join(calls), "ab" * 6)

    def test_fills_before_timed_work_grow_until_they_hide_its_launches(self):
        fills = []  # before each run of the body

        class Event:
            def __init__(self, enable_timing):
                pass

            def record(self):
                pass

            def query(self):  # the device is done with up to three fills before the host has queued the rest
                return fills[-1] < 4

            def synchronize(self):
                pass

            def elapsed_time(self, other):
                return 0.25

        class Lead:
            def __init__(self, count, **kind):
                assert count >= 3 * 60_000_000, "no more than the caches hold"
                self.zeroed = 0

            def zero_(self):
                self.zeroed += 1

        clock = rows.Clock(types.SimpleNamespace(empty=Lead, uint8=None, cuda=types.SimpleNamespace(Event=Event)))
        before = [0]

        def body():
            fills.append(clock.lead.zeroed - before[0])
            before[0] = clock.lead.zeroed

        self.assertEqual(clock.microseconds(body), 250)
        self.assertEqual(clock.microseconds(body), 250)
        self.assertEqual(fills, [1, 2, 4, 4])
        Event.query = lambda self: True  # whatever waits inside cannot be hidden
        clock.microseconds(body)
        self.assertEqual(fills[-1], rows.MOST_FILLS)

    def test_numbers_that_are_not_finite_become_null(self):
        self.assertEqual(json.loads(rows.to_json({"a": float("nan"), "b": float("inf"), "c": 1.5})), {"a": None, "b": None, "c": 1.5})

    def test_rows_of_one_configuration_have_one_identity(self):
        one, again, other = (rows.row("p", "o", method=m, hidden=4) for m in ("a", "a", "b"))
        self.assertEqual(one["cell_id"], again["cell_id"])
        self.assertNotEqual(one["cell_id"], other["cell_id"])
        self.assertEqual(len(one["cell_id"]), 64)


if __name__ == "__main__":
    unittest.main()
