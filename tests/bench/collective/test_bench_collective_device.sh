#!/usr/bin/env bash
# labels: mpi
# timeout: 120
# devices: cuda, emulated
# needs: bench_collective
# bench_collective --device cuda from the outside: every operation is right, rows name device and transport, an emulated one is not believed.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/bench_collective
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
two() { timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$@"; }

property "without a usable device the row is SKIPPED and says why"
run env THINWIRE_CUDA_MODULE="$work/none.so" "$program" --device cuda --json none.json --out none
expect_status 0
grep -q '"status":"SKIPPED".*no CUDA module\|no CUDA module.*"status":"SKIPPED"' none.json || fail "$(cat none.json)"
run "$program" --device tpu --json tpu.json --out tpu
grep -q 'host or cuda' tpu.json || fail "$(cat tpu.json)"

property "our ring is refused where there is none"
run "$program" --operation broadcast --algorithm ring --repetitions 1 --json ring.json --out ring
expect_status 2
grep -q '"status":"FAILED".*broadcast is the library' ring.json || grep -q 'broadcast is the library.*"status":"FAILED"' ring.json || fail "$(cat ring.json)"

property "messages in both directions end"
run two "$program" --operation send_recv --bytes 4096 --repetitions 2 --out sends
expect_status 0

run "$program" --device cuda --bytes 64 --repetitions 1 --json here.json --out here
if grep -q '"status":"SKIPPED"' here.json; then
  finish
  exit
fi

property "on a device every operation gives the exact sums, and the row says where and how"
for operation in all_reduce reduce_scatter all_gather broadcast reduce send_recv; do
  run two "$program" --operation $operation --bytes 8192 --dtype bf16 --device cuda --repetitions 2 --json $operation.json --out rows
  expect_status 0
  grep -qE '"compute":"(NVIDIA|emulated on the host)' $operation.json || fail "$operation: $(cat $operation.json)"
  grep -qE '"method":"library, (NCCL|MPI, staged|MPI, CUDA-aware)' $operation.json || fail "$operation: $(cat $operation.json)"
  if grep -q '"compute":"emulated' $operation.json; then
    grep -q '"status":"MISTRUSTED"' $operation.json || fail "an emulated device is believed: $(cat $operation.json)"
  else
    grep -q '"status":"OK"' $operation.json || fail "$operation: $(cat $operation.json)"
  fi
done
finish
