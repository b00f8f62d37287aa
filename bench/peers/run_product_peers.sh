#!/usr/bin/env bash
# Matrix products on one machine against PyTorch on CPU: the classes of doctor --tune, the same threads, in turn, in one run.
#   bench/peers/run_product_peers.sh [--bin DIR] [--venv DIR] [--rounds N] [--threads N]
# --bin    where doctor lies (default: build/bin)
# --venv   virtual environment with PyTorch, outside of the project (default: ~/.cache/thinwire-peers/pytorch; run_peer.sh --install makes it)
# Prints 1e9 operations per second, medians over rounds, and the best of ours over PyTorch's. Ours in bf16 round both operands first, PyTorch's are bf16.
# Exit 77 (skipped) with a reason when PyTorch is not there.
set -euo pipefail
rounds=3
. "$(dirname "$0")/peer_script.sh"
while [ $# -gt 0 ]; do
  peer_option "$@"
  shift 2
done
needs doctor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for _ in $(seq "$rounds"); do
  OMP_NUM_THREADS=$threads "$bin/doctor" --tune "$work/machine.toml" >>"$work/ours"
  OMP_NUM_THREADS=$threads "$venv/bin/python" "$here/pytorch_products.py" --threads "$threads" >>"$work/theirs"
done
/usr/bin/env python3 - "$work/ours" "$work/theirs" <<'PY'
import json
import re
import statistics
import sys

rates = {}
for line in open(sys.argv[1]):
    found = re.match(r"((?:OpenBLAS|oneDNN)[^-]*?)((?:\s+[0-9.]+){9})$", line.rstrip())
    if found:
        rates.setdefault(found[1].strip(), []).append([float(value) for value in found[2].split()])
for line in open(sys.argv[2]):
    row = json.loads(line)
    rates.setdefault(f"PyTorch {row['products']}", []).append(list(row["gflops"].values()))
    classes = list(row["gflops"])
medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rates.items()}


def show(name, values, digits):
    print(f"{name:24}" + "".join(f" {value:9.{digits}f}" for value in values))


print(f"{'':24}" + "".join(f" {name:>9}" for name in classes))
for name, values in medians.items():
    show(name, values, 0)
for kind, own in (("f32", [v for n, v in medians.items() if n != "oneDNN bf16" and not n.startswith("PyTorch")]), ("bf16", [v for n, v in medians.items() if n == "oneDNN bf16"])):
    if own:
        show(f"best of ours / PyTorch {kind}", [max(column) / theirs for column, theirs in zip(zip(*own), medians[f"PyTorch {kind}"])], 2)
    else:
        print(f"{kind}: SKIPPED: this processor multiplies no bf16 itself")
PY
