#!/usr/bin/env bash
# Training speed on one machine against PyTorch on CPU: the same model, the same threads, in turn, in one run.
#   bench/peers/run_peer.sh [--model gpt|gpt_wide|bert] [--products f32|bf16] [--bin DIR] [--venv DIR] [--rounds N] [--threads N] [--out FILE.jsonl] [--install]
# --model  gpt: pre-training, hidden 512, 8 layers, 4 x 256 tokens (the default); gpt_wide: hidden 1024, 4 layers, 4 x 256 tokens;
#          bert: fine-tuning a classifier, hidden 256, 4 layers, 32 x 128 tokens
# --products bf16: ours with --products bf16 and, beside it, in f32; PyTorch under autocast in bf16 (default: f32, both sides)
# --bin    where capture_traffic and train_gpt lie (default: build/bin)
# --venv   virtual environment with PyTorch, outside of the project (default: ~/.cache/thinwire-peers/pytorch)
# --install makes it from PyPI when it is missing (about 5 GB: PyPI's wheel brings its CUDA libraries)
# Prints tokens/s of each round and the ratio of medians, ours over the faster of eager and compiled PyTorch.
# Exit 77 (skipped) with a reason when PyTorch is not there.
set -euo pipefail
rounds=5 out= install=false model=gpt products=f32
. "$(dirname "$0")/peer_script.sh"
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=$2 ;;
    --products) products=$2 ;;
    --out) out=$2 ;;
    --install) install=true; shift; continue ;;
    *) peer_option "$@" ;;
  esac
  shift 2
done
case $model in gpt) ours=capture_traffic ;; gpt_wide | bert) ours=train_gpt ;; *) echo "run_peer.sh: --model $model: gpt, gpt_wide or bert" >&2; exit 2 ;; esac
case $products in f32) own_modes=f32 ;; bf16) own_modes="f32 bf16" ;; *) echo "run_peer.sh: --products $products: f32 or bf16" >&2; exit 2 ;; esac
[ "$model-$products" != gpt-bf16 ] || { echo "run_peer.sh: gpt is timed by capture_traffic, in f32 only; --model gpt_wide is in bf16, too" >&2; exit 2; }
if $install && ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  /usr/bin/env python3 -m venv "$venv" && "$venv/bin/pip" install --quiet torch numpy
fi
needs $ours
# Above its neighbours where that is allowed: both sides alike.
# Each library chooses its own kernels: a pinned OpenBLAS would slow one side only.
prefix=(env -u OPENBLAS_CORETYPE "OMP_NUM_THREADS=$threads" "OPENBLAS_NUM_THREADS=$threads")
nice -n -15 true 2>/dev/null && prefix=(nice -n -15 "${prefix[@]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $model in
  gpt) shape=(--hidden 512 --layers 8 --heads 8) sizes=(--seq 256 --batch 4) ;;
  gpt_wide) shape=(--hidden 1024 --layers 4 --heads 16) sizes=(--seq 256 --batch 4) ;;
  bert)
    shape=(--hidden 256 --layers 4 --heads 4 --vocab 16000) sizes=(--seq 128 --batch 32)
    /usr/bin/env python3 "$here/make_rows.py" "$work/rows" --seq 128 --vocab 16000
    ;;
esac
# A round of ours: one JSON line.
ours_gpt() {
  "${prefix[@]}" "$bin/capture_traffic" --profile-step --repetitions 5 "${shape[@]}" --dropout 0 --shapes 4x256 |
    awk -v threads="$threads" 'END { printf "{\"program\": \"thinwire\", \"mode\": \"f32\", \"threads\": %d, \"tokens_per_second\": %s, \"step_ms\": %s, \"products_share\": %s, \"products_gflops\": %s}\n", threads, $6, $2, $4, $5 }'
}
# steps_of_train_gpt PRODUCTS OPTION...: tokens per second of the median step, as its table says them.
steps_of_train_gpt() {
  local type=$1
  shift
  rm -rf "$work/run"
  "${prefix[@]}" "$bin/train_gpt" "$@" "${shape[@]}" --products "$type" --steps 12 --out "$work/run" >/dev/null
  /usr/bin/python3 - "$work/run" "$threads" "$type" <<'PY'
import glob
import json
import sys

import h5py

(record,) = glob.glob(sys.argv[1] + "/cells/*.h5")
with h5py.File(record) as file:
    row = file["training_time"][0]
    print(json.dumps({"program": "thinwire", "mode": sys.argv[3], "threads": int(sys.argv[2]), "tokens_per_second": float(row["tokens_per_second"]), "step_ms": float(row["step_ms"])}))
PY
}
ours_gpt_wide() { steps_of_train_gpt "$1" --seq 256 --global-batch 4 --micro-batch 4; }
ours_bert() {
  steps_of_train_gpt "$1" --model bert:task=classification --data task:name=pol --text "$work/rows" --vocabulary "$work/rows/vocab.txt" --seq 128 --global-batch 32 --micro-batch 32 --dropout 0.1
}
for round in $(seq -w "$rounds"); do
  lines=$work/lines.$round
  for type in $own_modes; do "ours_$model" "$type" | tee -a "$lines"; done
  for mode in eager compile; do
    "${prefix[@]}" "$venv/bin/python" "$here/pytorch_steps.py" --model "${model%_wide}" "${shape[@]}" "${sizes[@]}" --threads "$threads" --steps 5 --mode "$mode" --products "$products" |
      tee -a "$lines" || echo "round $round: PyTorch in mode $mode failed; it does not count" >&2
  done
done
[ -z "$out" ] || cat "$work"/lines.* >"$out"
/usr/bin/env python3 - "$products" "$work"/lines.* <<'PY'
import json
import statistics
import sys

products, rounds = sys.argv[1], sys.argv[2:]
speeds = {}  # of (program, mode): tokens/s by round, of the rounds in which it ran
for number, lines in enumerate(rounds):
    for line in open(lines):
        row = json.loads(line)
        speeds.setdefault((row["program"], row["mode"]), {})[number] = row["tokens_per_second"]
for (program, mode), by_round in speeds.items():
    values = by_round.values()
    print(f"{program:9} {mode:8} median {statistics.median(values):7.0f} tokens/s, from {min(values):.0f} to {max(values):.0f} in {len(values)} rounds")


def compare(a, b, what):
    ratios = [speeds[a][n] / speeds[b][n] for n in speeds[a] if n in speeds[b]]
    print(f"{what}: {statistics.median(ratios):.2f} (median over rounds; {min(ratios):.2f} to {max(ratios):.2f})")


best = max((key for key in speeds if key[0] == "pytorch"), key=lambda key: statistics.median(speeds[key].values()))
compare(("thinwire", products), best, f"thinwire / PyTorch in {products} ({best[1]}, the faster)")
if products == "bf16":
    compare(("thinwire", "bf16"), ("thinwire", "f32"), "thinwire, bf16 / f32")
PY
