#!/usr/bin/env python3
"""Trains GPT-2 124M with PyTorch in bf16 on a GPU and says tokens/s and model FLOP utilisation: the peer of train_gpt --device cuda, at its batch.

    gpu_training.py [--batch 8] [--seq 1024] [--steps 20] [--modes eager compile] [--peak-tflops X] [--json FILE]

The same model, weights in f32 with bf16 autocast, fused AdamW, clipped gradients, made-up tokens. One JSON line per mode, in the columns of /cells
(bound_fraction is the utilisation). The peak is that of a large bf16 product in the same run unless it is stated. Without PyTorch or a device: one row
SKIPPED with the reason, and exit code 77.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402


def peak_gflops(torch, size, seconds=0.5):
    """1e9 operations per second of the median bf16 product of size x size x size."""
    a, b = (torch.randn(size, size, device=rows.DEVICE, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    times = rows.Clock(torch).take_turns({"product": lambda: torch.matmul(a, b, out=out)}, seconds)
    return 2 * size**3 / (rows.median(times["product"]) * 1e3)


def step_times(torch, options, mode):
    """(microseconds of each measured step, parameters, of which positions, last loss)."""
    import gpt_model

    torch.manual_seed(1)
    model = gpt_model.make(options.vocab, options.hidden, options.layers, options.heads, options.seq, rows.DEVICE)
    optimizer = gpt_model.adamw(model)
    forward = torch.compile(model) if mode == "compile" else model
    tokens = torch.randint(0, options.vocab, (options.batch, options.seq + 1), device=rows.DEVICE)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    loss = None

    def step():
        nonlocal loss
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(rows.DEVICE, dtype=torch.bfloat16):
            loss = forward(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    for _ in range(options.warm_up):
        step()
    # One event between every two steps and no waiting: the host runs ahead, as in training.
    events = [torch.cuda.Event(enable_timing=True) for _ in range(options.steps + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    last = float(loss.detach())
    if not last == last:
        raise AssertionError("the loss is not a number")
    times = [a.elapsed_time(b) * 1e3 for a, b in zip(events, events[1:])]
    return times, sum(p.numel() for p in model.parameters()), model.position.weight.numel()


def columns_of(options, times, parameters, positions, peak):
    step_us = rows.median(times)
    tokens = options.batch * options.seq
    gflops = rows.model_flops_per_token(parameters, positions, options.layers, options.hidden, options.seq) * tokens / (step_us * 1e3)
    return {
        "total_us": step_us,
        "total_iqr_us": rows.interquartile_range(times),
        "repetitions": len(times),
        "gflops": gflops,
        "peak_gflops": peak,
        "bound_fraction": gflops / peak,
    }


def run(options):
    common = {"traffic": "training", "dtype": "bf16", "source": "generated", "batch": options.batch, "seq": options.seq, "hidden": options.hidden, "layers": options.layers}
    reason = rows.why_no_torch()
    if reason:
        return [rows.skipped("train_step", reason, **common)]
    import torch

    program, made = rows.program_name(torch), []
    common["device"] = torch.cuda.get_device_name()
    torch.backends.cuda.matmul.allow_tf32 = False
    peak = options.peak_tflops * 1e3 if options.peak_tflops else peak_gflops(torch, options.peak_size)
    for mode in options.modes:
        columns = {**common, "method": f"torch {mode}"}
        try:
            made.append(rows.row(program, "train_step", **columns, **columns_of(options, *step_times(torch, options, mode), peak)))
        except Exception as error:  # torch.compile needs a C compiler; eager does not
            made.append(rows.failed(program, "train_step", error, **columns))
        torch.cuda.empty_cache()
    return made


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("batch", 8), ("seq", 1024), ("hidden", 768), ("layers", 12), ("heads", 12), ("vocab", 50304), ("steps", 20), ("warm-up", 5), ("peak-size", 8192)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--modes", nargs="+", choices=("eager", "compile"), default=["eager", "compile"])
    parser.add_argument("--peak-tflops", type=float, default=0, help="of the device in bf16, 1e12 per second; 0: measured")
    parser.add_argument("--json", default="-", help="file for the rows; -: stdout")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    made = run(options)
    rows.write(made, options.json)
    sys.exit(77 if all(r["status"] == "SKIPPED" for r in made) else 0)
