#!/usr/bin/env bash
# labels: mpi
# timeout: 240
# needs: bench_gradient
# What sharded data parallelism exchanges, as bench_gradient measures it: each row's sum at its owner, and whole weights from the owners of their rows.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/bench_gradient
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_NUM_THREADS=1
# 66 rows on 4 ranks: two of them own a row more.
bench() { timeout 100 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4 "$program" --dp 4 --rows 66 --hidden 96 --repetitions 2 --serial 1 --comm-dtype f32 "$@"; }
# field NAME FILE: of the one row in FILE.
field() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "$2"; }

for operation in reduce_scatter all_gather; do
  traffic=grad_reduce_scatter
  [ $operation = reduce_scatter ] || traffic=param_all_gather

  property "$operation: dense integers come out exactly"
  run bench --operation $operation --generator integers --json dense.json --out out
  expect_status 0
  expect_equal "$(field traffic dense.json)" $traffic "class"
  expect_equal "$(field operation dense.json)" $operation "operation"
  expect_equal "$(field relative_l2 dense.json)" 0.0 "error"

  property "$operation: 8 bits per element make the error of 8 bits and about a quarter of the bytes"
  run bench --operation $operation --generator gaussian --codec group:bits=8 --json coded.json --out out
  expect_status 0
  /usr/bin/python3 - coded.json <<'CHECK' || fail "$(cat coded.json)"
import json, sys
row = json.load(open(sys.argv[1]))
assert 1e-3 < row["relative_l2"] < 2e-2, row["relative_l2"]
assert 3.5 < row["ratio"] < 4.1, row["ratio"]
CHECK
done

property "all_gather: a codec with a memory has gathered the weights of the steps before"
run bench --operation all_gather --generator gaussian --codec group:bits=4+ef21 --json difference.json --out out
expect_status 0

property "another operation is refused with those that there are"
run bench --operation broadcast --out out
expect_status 2
expect_output "all_reduce, reduce_scatter or all_gather"
finish
