#!/usr/bin/env bash
# labels: gpu
# timeout: 480
# needs: doctor bench_device train_gpt sweep
# devices: cuda, emulated
# The script that runs everything on a GPU: over the emulated device it goes through all parts in little, and nothing of that passes for a GPU's; without
# a device it says why. What it leaves becomes a reference only when a GPU measured it.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build}
for part in bin/doctor bin/bench_device bin/train_gpt bin/sweep tests/gpu.test_device; do [ -x "$build/$part" ] || skip "$build/$part is not built"; done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
field() { /usr/bin/python3 -c 'import json, sys; print(json.load(open("out/summary.json")).get(sys.argv[1], ""))' "$1"; }

property "all parts run, or the one reason stands in the summary"
run "$root/tests/gpu/run_all_checks.sh" --smoke --build "$build" --out out
if [ "$status" = 77 ] && [ -z "${THINWIRE_CUDA_MODULE:-}" ]; then
  expect_output "SKIPPED: "
  expect_equal "$(field status)" SKIPPED "status"
  [ -n "$(field reason)" ] || fail "no reason in $(cat out/summary.json)"
  run "$root/scripts/keep_device_results.sh" out --build "$build" --into kept
  expect_status 3
  expect_output "has no device"
  finish
  exit 0
fi
if [ -n "${THINWIRE_CUDA_MODULE:-}" ]; then
  smoke_status=$status smoke_output=$output
  run "$root/tests/gpu/run_all_checks.sh" --build "$build" --out full
  expect_status 77
  expect_output "SKIPPED: the device is emulated on the host"
  status=$smoke_status output=$smoke_output
fi
expect_status 0
for part in test_device bench_device_64 bench_device_64_blocks bench_device_kernels train_gpt; do expect_output "PASSED   $part"; done
expect_equal "$(field status)" PASSED "status"
expect_equal "$(ls out/cells/*.h5 | wc -l)" 4 "records"
grep -q '"device":"' out/bench_device_64.json || fail "rows without the device's name"
ls out/rows/gpu_codecs.jsonl out/rows/gpu_training.jsonl >/dev/null || fail "no rows of the peers"

property "a part that runs out of time is PARTIAL, unless it has found something wrong; Python's CUDA libraries are on the loader's path"
mkdir -p late site/nvidia/cublas/lib
cat > late/timeout <<'LATE'
#!/bin/bash
# Parts that run out of time: one that has found nothing wrong, and one that has.
printf '%s\n' "$*" >> started
case "$* $LATE" in
  *" --what kernels "*) exit 124 ;;
  *--gtest_filter*wrong) echo "[  FAILED  ] CudaDevice.Something"; exit 124 ;;
esac
exec /usr/bin/timeout "$@"
LATE
chmod +x late/timeout
run env PATH="$PWD/late:$PATH" PYTHONPATH="$PWD/site" LATE=wrong "$root/tests/gpu/run_all_checks.sh" --smoke --build "$build" --out late_out
expect_status 1
expect_output "PARTIAL  bench_device_kernels"
expect_output "FAILED   test_device "
grep -q "LD_LIBRARY_PATH=.*$PWD/site/nvidia/cublas/lib.*/bench_device " started || fail "programs do not see Python's libraries: $(grep -m 1 bench_device started)"
run env PATH="$PWD/late:$PATH" LATE=late "$root/tests/gpu/run_all_checks.sh" --smoke --build "$build" --out late_out
expect_status 0
grep -q '"status":"PARTIAL","reason":"parts ran out of their time"' late_out/summary.json || fail "summary: $(cat late_out/summary.json)"

property "everything becomes one collected file"
run "$build/bin/sweep" collect --out out
expect_status 0
/usr/bin/python3 - <<'PY' || fail "the collected file"
import h5py
file = h5py.File("out/collected.h5")
programs = {p.decode().split()[0] for p in file["cells"]["program"]}
assert {"bench_device", "train_gpt", "pytorch"} <= programs, programs
(time,) = file["training_time"][:]
assert time["tokens_per_second"] > 0 and (time["mfu"] > 0) != time["device"].startswith(b"emulated"), time
PY

property "results of --smoke and of an emulated device become no reference"
run "$root/scripts/keep_device_results.sh" out --build "$build" --into kept
expect_status 3
[ ! -e kept ] || fail "something was kept"
[ -z "${THINWIRE_CUDA_MODULE:-}" ] || expect_output "emulated device"
sed -i 's/"device":"[^"]*"/"device":"NVIDIA Test 1000, sm_99, 1 GiB"/; s/"smoke":"yes"/"smoke":"no"/' out/summary.json
if [ -n "${THINWIRE_CUDA_MODULE:-}" ]; then
  run "$root/scripts/keep_device_results.sh" out --build "$build" --into kept
  expect_status 3
  expect_output "no row of a GPU"
fi

property "those of a GPU become results/reference/<device>, with where they are from"
/usr/bin/python3 - <<'PY'
import json
rows = [json.loads(line) for line in open("out/bench_device_64.json")]
for row in rows: row.update(device="NVIDIA Test 1000, sm_99, 1 GiB", status="OK", reason="")
open("out/rows/test.jsonl", "w").writelines(json.dumps(row) + "\n" for row in rows)
PY
run "$root/scripts/keep_device_results.sh" out --build "$build" --into kept
expect_status 0
for file in README.md collected.h5 summary.json figures/device_break_even.png figures/device_throughput.csv; do
  [ -s "kept/nvidia-test-1000/$file" ] || fail "kept/nvidia-test-1000/$file is not there: $(find kept)"
done
grep -q 'bench_device_64 | PASSED' kept/nvidia-test-1000/README.md || fail "README: $(cat kept/nvidia-test-1000/README.md)"
finish
