#!/usr/bin/env bash
# labels: gpu, mpi
# timeout: 120
# devices: cuda, emulated
# needs: train_gpt
# train_gpt --device cuda from the outside: the same losses as on the host, rows and record that name the device, refusals.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/train_gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
for i in $(seq 400); do echo "line $i of a text: $((i * 7919 % 1000)) tokens, $((i * 104729 % 997)) more"; done >text.txt
small=(--hidden 16 --layers 2 --heads 2 --seq 16 --global-batch 2 --eval-sequences 2 --steps 3 --text text.txt --comm-dtype f32)
losses() { /usr/bin/python3 -c 'import sys, h5py
print(*["%.5f" % x for x in h5py.File(sys.argv[1])["training_curve"]["loss"]])' "$1"/cells/*.h5; }

property "without a usable device the reason is told, once, before anything starts"
run env THINWIRE_CUDA_MODULE="$work/none.so" "$program" "${small[@]}" --device cuda
expect_status 3
expect_output "no CUDA module"

property "what no device does is refused with the remedy"
run "$program" "${small[@]}" --device cuda --dtype f64
expect_status 2
expect_output "--device host"
run "$program" "${small[@]}" --device cuda --compute timed
expect_status 2
expect_output "--compute real"

property "a setting of the file, like any other"
run "$program" "${small[@]}" --device cuda --print-config
expect_status 0
expect_output 'device = "cuda"'

run "$program" "${small[@]}" --device cuda
[ $status = 3 ] && skip "${output##*error }"

property "two ranks share a device; losses are the host's, and rows and record name the device"
run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$program" "${small[@]}" --tp 2 --device cuda --out device --json device.json --trace trace.json
expect_status 0
expect_output "2 ranks per device"
run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$program" "${small[@]}" --tp 2 --out host
expect_status 0
expect_equal "$(losses device)" "$(losses host)" "losses"
name=$(sed -n '1s/.*"compute":"\([^"]*\)".*/\1/p' device.json)
[[ $name == NVIDIA* || $name == "emulated on the host (no GPU)" ]] || fail "the rows name no device: $name"
expect_equal "$(/usr/bin/python3 -c 'import glob, h5py; print(h5py.File(glob.glob("device/cells/*.h5")[0])["provenance"]["gpu"][0].decode())')" "$name" "device of the record"
grep -q '"cat":"compute"' trace.json || fail "no sections in the trace"
if [[ $name == emulated* ]]; then
  expect_equal "$(grep -c '"status":"MISTRUSTED"' device.json)" "$(wc -l <device.json)" "rows of an emulated device that nobody trusts"
fi

finish
