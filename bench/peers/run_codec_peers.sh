#!/usr/bin/env bash
# Codecs on one machine against PyTorch on CPU: tensors of one size, the same threads, in turn, in one run.
#   bench/peers/run_codec_peers.sh [--bin DIR] [--venv DIR] [--rounds N] [--threads N] [--rows N] [--hidden N]
# --bin    where bench_codec lies (default: build/bin)
# --venv   virtual environment with PyTorch, outside of the project (default: ~/.cache/thinwire-peers/pytorch; run_peer.sh --install makes it)
# Prints GB/s of input for each codec, medians over rounds, and ours over PyTorch's.
# Exit 77 (skipped) with a reason when PyTorch is not there.
set -euo pipefail
rounds=3 rows=16384 hidden=512
. "$(dirname "$0")/peer_script.sh"
while [ $# -gt 0 ]; do
  case $1 in
    --rows) rows=$2 ;;
    --hidden) hidden=$2 ;;
    *) peer_option "$@" ;;
  esac
  shift 2
done
needs bench_codec
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for _ in $(seq "$rounds"); do
  "$bin/bench_codec" --threads "$threads" --batch 1 --seq "$rows" --hidden "$hidden" --max-time 1 --json - \
    --codec "cast fp8:scale=tensor quantize group:bits=8 topk" 2>/dev/null >> "$lines"
  OMP_NUM_THREADS=$threads "$venv/bin/python" "$here/cpu_codecs.py" --threads "$threads" --rows "$rows" --hidden "$hidden" --json - >> "$lines"
done
/usr/bin/env python3 - "$lines" <<'PY'
import json
import statistics
import sys

speeds, failures = {}, {}
for line in open(sys.argv[1]):
    row = json.loads(line)
    side = "ours" if row["program"] == "bench_codec" else row["program"]
    if row["status"] != "OK":
        failures[side, row["codec"]] = row["reason"]
        continue
    for what in ("encode_gbps", "decode_gbps"):
        speeds.setdefault((row["codec"], side), {}).setdefault(what, []).append(row[what])
theirs = next((side for _, side in speeds if side != "ours"), "pytorch")
print(f"{'codec':18} {'encode: ours':>13} {theirs:>16} {'ratio':>6} {'decode: ours':>13} {theirs:>16} {'ratio':>6}   (GB/s, medians)")
for codec in [c for c, side in speeds if side == "ours"]:
    ours, peer = speeds[codec, "ours"], speeds.get((codec, theirs))
    if peer is None:
        print(f"{codec:18} {failures.get((theirs, codec), 'no row')}")
        continue
    cells = []
    for what in ("encode_gbps", "decode_gbps"):
        a, b = statistics.median(ours[what]), statistics.median(peer[what])
        cells.append(f"{a:13.1f} {b:16.1f} {a / b:6.1f}")
    print(f"{codec:18} " + " ".join(cells))
PY
