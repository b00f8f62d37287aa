"""Rates of PyTorch's matrix products on CPU for the shapes that `doctor --tune` stands classes by: the peer of bench/peers/run_product_peers.sh.

Operands have the type of the product already; results are bf16 where they are (PyTorch has no f32 result of bf16 operands on CPU). tn adds to what is
there, as a weight's gradient does. One JSON line of 1e9 operations per second by class; exit code 77: PyTorch is not installed here.
"""

import argparse
import json
import sys
import time

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

SIZES = {"small": (256, 128, 384), "medium": (512, 320, 1280), "large": (1024, 512, 2048)}  # rows, in, out: bench/doctor/tune_products.cpp


def best(product, least_seconds=0.06):
    product()
    fastest, begin, count = 1e9, time.perf_counter(), 0
    while count < 3 or time.perf_counter() - begin < least_seconds:
        one = time.perf_counter()
        product()
        fastest, count = min(fastest, time.perf_counter() - one), count + 1
    return fastest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        gflops = {}
        for size, (rows, wide_in, out) in SIZES.items():
            x, w, dy = (torch.randn(shape).to(dtype) for shape in ((rows, wide_in), (wide_in, out), (rows, out)))
            gradient = torch.zeros((wide_in, out), dtype=dtype)
            products = {"nn": lambda: x @ w, "nt": lambda: dy @ w.t(), "tn": lambda: gradient.addmm_(x.t(), dy)}
            for transposes, product in products.items():
                gflops[f"{size}_{transposes}"] = 2e-9 * rows * wide_in * out / best(product)
        print(json.dumps({"program": "pytorch", "version": torch.__version__, "products": name, "threads": a.threads, "gflops": gflops}))


if __name__ == "__main__":
    main()
