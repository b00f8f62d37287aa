"""Rows of the peers: JSON lines in the columns of /cells (docs/results-schema.md), and how they are timed. Standard library only; what needs
PyTorch takes it as an argument, so that a machine without it can still say why there are no rows."""
import hashlib
import json
import math
import statistics
import sys
import time

# The fills before timed work, as bench_device has them (bench/device/device_under_test.h): larger than a device's caches, and so many that they outlast
# the launches of what is timed.
LEAD_BYTES = 256 << 20
MOST_FILLS = 64
DEVICE = "cuda"


def why_no_torch(device=True):
    """Empty when PyTorch, and with `device` a CUDA device, can be used here, else the reason."""
    try:
        import torch
    except Exception as error:  # a broken installation raises more than ImportError
        return f"no PyTorch: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    if device and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA device"
    return ""


def program_name(torch):
    return f"pytorch {torch.__version__}"


def row(program, operation, **columns):
    """A row with its identity; what is not given keeps the default of the schema when it is read."""
    identity = json.dumps([program, operation, {k: columns.get(k) for k in ("method", "codec", "dtype", "batch", "seq", "hidden")}], sort_keys=True)
    made = {"cell_id": hashlib.sha256(identity.encode()).hexdigest(), "program": program, "operation": operation, "compute": columns.get("device", ""), "status": "OK"}
    made.update(columns)
    return made


def skipped(operation, reason, **columns):
    return row("pytorch", operation, **{**columns, "status": "SKIPPED", "reason": reason})


def failed(program, operation, error, **columns):
    return row(program, operation, **{**columns, "status": "FAILED", "reason": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]})


def to_json(made):
    """One line; what is not a finite number becomes null."""
    return json.dumps({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in made.items()})


def write(rows, path):
    """To a file, or to stdout for "-"."""
    if path == "-":
        for made in rows:
            print(to_json(made))
        sys.stdout.flush()
        return
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(to_json(made) + "\n" for made in rows)
    for made in rows:
        print(made["status"] + ":", made.get("reason") or f"{made.get('method', '')} {made.get('codec', '')} {made.get('total_us', float('nan')):.1f} us")


def interquartile_range(samples):
    """Between linearly interpolated quartiles (core/statistics.h: type 7 of Hyndman and Fan)."""
    ordered = sorted(samples)

    def quantile(p):
        at = p * (len(ordered) - 1)
        low = math.floor(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (at - low) * (ordered[high] - ordered[low])

    return quantile(0.75) - quantile(0.25)


def bound_fraction(moved_bytes, copy_gbps, time_us):
    """core/formulas.h: a copy reads and writes each byte that it counts once."""
    return moved_bytes / (2 * copy_gbps * 1e3) / time_us


def break_even_gbps(dense_bytes, payload_bytes, codec_us):
    """core/formulas.h, Gbit/s."""
    saved = dense_bytes - payload_bytes
    return 8 * saved / (codec_us * 1e3) if saved > 0 else 0.0


def model_flops_per_token(parameters, position_parameters, layers, hidden, seq):
    """bench/training/mfu.h: 6 N + 12 L hidden seq, N without the position embeddings."""
    return 6 * (parameters - position_parameters) + 12 * layers * hidden * seq


class Turns:
    """Times bodies that take turns, by the `microseconds` of a clock."""

    def take_turns(self, bodies, seconds, least=5, most=200, warm_up=3):
        """{name: samples in microseconds} of bodies that take turns, for about so many seconds."""
        samples = {name: [] for name in bodies}
        for i in range(warm_up):
            for body in bodies.values():
                self.microseconds(body)
        until = time.monotonic() + seconds
        while len(next(iter(samples.values()))) < least or (time.monotonic() < until and len(next(iter(samples.values()))) < most):
            for name, body in bodies.items():
                samples[name].append(self.microseconds(body))
        return samples


class HostClock(Turns):
    """Times work on the host."""

    def microseconds(self, body):
        begin = time.perf_counter()
        body()
        return (time.perf_counter() - begin) * 1e6


class Clock(Turns):
    """Times work on the device by events, after fills that hide its launches and empty the caches."""

    def __init__(self, torch):
        self.torch = torch
        self.lead = torch.empty(LEAD_BYTES, dtype=torch.uint8, device=DEVICE)
        self.fills = 1

    def microseconds(self, body):
        while True:
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(self.fills):
                self.lead.zero_()
            begin.record()
            body()
            end.record()
            hidden = not begin.query()
            end.synchronize()
            if hidden or self.fills >= MOST_FILLS:
                return begin.elapsed_time(end) * 1e3
            self.fills *= 2


def median(samples):
    return statistics.median(samples)
