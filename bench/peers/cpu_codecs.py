#!/usr/bin/env python3
"""What a user of PyTorch has today for compressing a tensor on a CPU, timed as bench_codec times ours: f16 cast, fp8 cast with a scale, 8 bits per channel
and per group, torch.topk. run_codec_peers.sh sets both sides beside each other.

    cpu_codecs.py [--rows 16384] [--hidden 512] [--threads 2] [--seconds 1] [--json FILE]

One JSON line per method, in the columns of /cells. Without PyTorch: one row SKIPPED with the reason, and exit code 77.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from torch_codecs import Method, cast, measure, top_k  # noqa: E402

GROUP = 128  # neighbours that share a scale, as our `group` has by default
FP8_LARGEST = 448.0


def fp8(torch):
    def encode(x):
        scale = x.abs().max() / FP8_LARGEST
        return (x / scale).to(torch.float8_e4m3fn), scale.view(1)

    return Method("torch fp8 cast", encode, lambda payload, x: payload[0].to(torch.float32) * payload[1], exact=0.05)


def per_channel(torch):
    """The library's own quantiser: its code, symmetric, a scale for each column."""

    def encode(x):
        scales = x.abs().amax(dim=0).clamp_min(1e-30).double() / 127.0
        return (torch.quantize_per_channel(x, scales, torch.zeros(x.shape[1], dtype=torch.long), 1, torch.qint8),)

    return Method("torch quantize_per_channel", encode, lambda payload, x: payload[0].dequantize(), exact=0.02)


def grouped(torch):
    def encode(x):
        groups = x.view(-1, GROUP)
        step = groups.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / 127.0
        return (groups / step).round().to(torch.int8), step

    return Method("torch groups of 128", encode, lambda payload, x: (payload[0].to(torch.float32) * payload[1]).view_as(x), exact=0.02)


def methods(torch, options):
    """(name, codec of ours, maker): a maker may raise, which becomes a row with the reason."""
    return [
        ("torch cast", "cast", lambda: cast(torch)),
        ("torch fp8 cast", "fp8:scale=tensor", lambda: fp8(torch)),
        ("torch quantize_per_channel", "quantize", lambda: per_channel(torch)),
        ("torch groups of 128", "group:bits=8", lambda: grouped(torch)),
        ("torch.topk", "topk", lambda: top_k(torch, 0.01)),
    ]


def run(options):
    """All rows: one SKIPPED without PyTorch."""
    common = {"traffic": "codec", "protocol": "point_to_point", "dtype": "f32", "source": "generated", "tensor": "gaussian", "threads": options.threads}
    reason = rows.why_no_torch(device=False)
    if reason:
        return [rows.skipped("encode_decode", reason, **common)]
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    x = torch.randn(options.rows, options.hidden)
    program, made = rows.program_name(torch), []
    for name, codec, maker in methods(torch, options):
        columns = {**common, "method": name, "codec": codec, "hidden": options.hidden, "batch": 1, "seq": options.rows}
        try:
            with torch.no_grad():
                made.append(rows.row(program, "encode_decode", **columns, **measure(torch, maker(), x, rows.HostClock(), options.seconds, wire=4)))
        except Exception as error:  # one method that fails (no such type in this PyTorch) leaves the others
            made.append(rows.failed(program, "encode_decode", error, **columns))
    return made


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--hidden", type=int, default=512, help="columns; 16384 rows of 512 f32 are 32 MiB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each method")
    parser.add_argument("--json", default="-", help="file for the rows; -: stdout")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    made = run(options)
    rows.write(made, options.json)
    sys.exit(77 if all(r["status"] == "SKIPPED" for r in made) else 0)
