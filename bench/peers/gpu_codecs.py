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

BLOCK = 4096  # elements that share a scale
FLOAT = 4  # bytes


class Method:
    """A codec as a user would write it: encode(x) -> payload tensors, decode(payload) -> tensor like x."""

    def __init__(self, name, encode, decode, traffic=1, exact=1.0):
        self.name, self.encode, self.decode = name, encode, decode
        self.traffic = traffic  # passes over the tensor that encoding cannot avoid
        self.exact = exact  # the largest relative error of what is decoded; 1: less than decoding zeros would have


def kept(elements, fraction):
    """As our Top-K counts: to the nearest, and at least one."""
    return max(1, int(elements * fraction + 0.5))


def expression(name, value, default):
    """The codec that a method is the peer of, as bench_device writes it: what is the default is left out."""
    return name if value == default else f"{name}:{'rank' if name == 'powersgd' else 'fraction'}={value:g}"


def cast(torch):
    return Method("torch cast", lambda x: (x.to(torch.float16),), lambda p, x: p[0].to(torch.float32), exact=2**-10)


def top_k(torch, fraction):
    def encode(x):
        flat = x.view(-1)
        index = torch.topk(flat.abs(), kept(flat.numel(), fraction), sorted=False).indices
        return flat[index], index

    def decode(payload, x):
        out = torch.zeros_like(x)
        out.view(-1)[payload[1]] = payload[0]
        return out

    return Method("torch.topk", encode, decode)


def power_sgd(torch, rank):
    """One message as torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook computes it with warm start, its all-reduces left out:
    orthogonalise Q, P = M Q, orthogonalise P, Q = M^T P; decode: P Q^T. Its own orthogonalisation where it can be imported."""
    try:
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _orthogonalize

        def orthogonalise(matrix):
            batch = matrix.unsqueeze(0)
            _orthogonalize(batch)
            return batch.squeeze(0)

    except ImportError:

        def orthogonalise(matrix):
            return torch.linalg.qr(matrix).Q

    state = {}

    def encode(x):
        if "q" not in state:
            state["q"] = torch.randn(x.shape[1], min(rank, *x.shape), device=x.device)
        q = orthogonalise(state["q"])
        p = orthogonalise(x @ q)
        state["q"] = x.t() @ p
        return p, state["q"].clone()

    return Method("torch PowerSGD hook", encode, lambda payload, x: payload[0] @ payload[1].t(), traffic=2)


def blockwise(torch, name, compile=False):
    """8-bit codes and a scale per BLOCK elements, as bitsandbytes' blockwise quantisation, with equal steps instead of its table of codes."""

    def encode_blocks(blocks):
        largest = blocks.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        return (blocks * (127.0 / largest)).round().to(torch.int8), largest * (1.0 / 127.0)

    def decode_blocks(codes, scale):
        return codes.to(torch.float32) * scale

    if compile:
        encode_blocks, decode_blocks = torch.compile(encode_blocks), torch.compile(decode_blocks)
    return Method(
        name,
        lambda x: encode_blocks(x.view(-1, BLOCK)),
        lambda payload, x: decode_blocks(*payload).view_as(x),
        exact=0.02,
    )


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


def payload_bytes(payload):
    return sum(t.numel() * t.element_size() for t in payload)


def measure(torch, method, x, seconds):
    """Columns of one row. AssertionError when what is decoded is not what the method promises."""
    payload = method.encode(x)
    decoded = method.decode(payload, x)
    error = float((decoded - x).norm() / x.norm())
    if not error <= method.exact:
        raise AssertionError(f"{method.name} decodes with a relative error of {error:.3g}, more than {method.exact:g}")
    out = torch.empty_like(x)
    # Encoding again may change state (a warm start): what is decoded stays the first payload.
    times = rows.Clock(torch, x.numel() * FLOAT).take_turns(
        {"copy": lambda: out.copy_(x), "encode": lambda: method.encode(x), "decode": lambda: method.decode(payload, x)}, seconds
    )
    encode, decode = rows.median(times["encode"]), rows.median(times["decode"])
    tensor, sent, dense = x.numel() * FLOAT, payload_bytes(payload), x.numel() * 2
    copy_gbps = tensor / (rows.median(times["copy"]) * 1e3)
    return {
        "encode_us": encode,
        "decode_us": decode,
        "total_us": rows.median([e + d for e, d in zip(times["encode"], times["decode"])]),
        "total_iqr_us": rows.interquartile_range([e + d for e, d in zip(times["encode"], times["decode"])]),
        "repetitions": len(times["encode"]),
        "memcpy_gbps": copy_gbps,
        "encode_gbps": tensor / (encode * 1e3),
        "decode_gbps": tensor / (decode * 1e3),
        "bound_fraction_encode": rows.bound_fraction(method.traffic * tensor + sent, copy_gbps, encode),
        "bound_fraction_decode": rows.bound_fraction(tensor + sent, copy_gbps, decode),
        "dense_bytes": dense,
        "payload_bytes": sent,
        "ratio": dense / sent,
        "break_even_gbps": rows.break_even_gbps(dense, sent, encode + decode),
        "relative_l2": error,
        "vnmse": error**2,
    }


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
                made.append(rows.row(program, "encode_decode", **columns, **measure(torch, maker(), x, options.seconds)))
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
