#!/usr/bin/env python3
"""What a user of PyTorch has today for compressing a tensor on a GPU, timed as bench_device times ours: in turns, by events, as a share of the device's
copy rate in the same run. Cast, torch.topk, the steps of PyTorch's PowerSGD hook, blockwise 8-bit quantisation (eager, compiled, Triton).

    gpu_codecs.py [--hidden 1024 4096 16384] [--rows 16384] [--fraction 0.01] [--rank 16] [--seconds 0.5] [--json FILE]

One JSON line per method and size, in the columns of /cells. Without PyTorch or a device: one row SKIPPED with the reason, and exit code 77.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from torch_codecs import BLOCK, Method, blockwise, cast, expression, measure, power_sgd, top_k  # noqa: E402

def triton_blockwise(torch):
    import triton_quantize  # imports triton: an ImportError is this method's reason

    return Method(
        "Triton blockwise 8-bit",
        lambda x: triton_quantize.encode(torch, x, BLOCK),
        lambda payload, x: triton_quantize.decode(torch, payload, BLOCK).view_as(x),
        exact=0.02,
    )


def methods(torch, options):
    """(name, codec, maker): a maker may raise, which becomes a row with the reason."""
    return [
        ("torch cast", "cast", lambda: cast(torch)),
        ("torch.topk", expression("topk", options.fraction, 0.01), lambda: top_k(torch, options.fraction)),
        ("torch PowerSGD hook", expression("powersgd", options.rank, 4), lambda: power_sgd(torch, options.rank)),
        ("torch blockwise 8-bit", "quantize", lambda: blockwise(torch, "torch blockwise 8-bit")),
        ("torch.compile blockwise 8-bit", "quantize", lambda: blockwise(torch, "torch.compile blockwise 8-bit", compile=True)),
        ("Triton blockwise 8-bit", "quantize", lambda: triton_blockwise(torch)),
    ]


def run(options):
    """All rows: one SKIPPED without PyTorch."""
    common = {"traffic": "codec", "protocol": "point_to_point", "dtype": "bf16", "source": "generated", "tensor": "gaussian"}
    reason = rows.why_no_torch()
    if reason:
        return [rows.skipped("encode_decode", reason, **common)]
    import torch

    program, device, made = rows.program_name(torch), torch.cuda.get_device_name(), []
    for hidden in options.hidden:
        torch.manual_seed(1)
        x = torch.randn(options.rows, hidden, device=rows.DEVICE)
        for name, codec, maker in methods(torch, options):
            columns = {**common, "method": name, "codec": codec, "hidden": hidden, "batch": 1, "seq": options.rows, "device": device}
            try:
                made.append(rows.row(program, "encode_decode", **columns, **measure(torch, maker(), x, rows.Clock(torch), options.seconds)))
            except ImportError as error:
                made.append(rows.row(program, "encode_decode", **columns, status="SKIPPED", reason=str(error)))
            except Exception as error:  # one method that fails (memory, compiler) leaves the others
                made.append(rows.failed(program, "encode_decode", error, **columns))
            torch.cuda.empty_cache()
    return made


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, nargs="+", default=[1024, 4096, 16384], help="columns; 16384 rows of f32 are 64 MiB, 256 MiB, 1 GiB")
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--fraction", type=float, default=0.01)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each method and size")
    parser.add_argument("--json", default="-", help="file for the rows; -: stdout")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    made = run(options)
    rows.write(made, options.json)
    sys.exit(77 if all(r["status"] == "SKIPPED" for r in made) else 0)
