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

nodes="--dp-nodes 2 --link emulated:1gbit,latency=50us,node=2,inside=100gbit"
for operation in reduce_scatter all_gather; do
  property "$operation in two steps: dense integers come out exactly, bytes inside nodes and across are counted apart and are those of the rows"
  run bench --operation $operation $nodes --generator integers --json two.json --out out
  expect_status 0
  expect_output "what leaves a node needs"
  /usr/bin/python3 - two.json $operation <<'CHECK' || fail "$(cat two.json)"
import json, sys
whole, inside, across = map(json.loads, open(sys.argv[1]))
assert whole["relative_l2"] == 0, whole["relative_l2"]
assert [r["traffic"] for r in (inside, across)] == [whole["traffic"] + ".inside", whole["traffic"] + ".across"]
# Of 66 rows of 96 numbers a node's ranks have 33 each, of which 17 and 16 are owned in the two nodes.
assert inside["link_bytes"] == 33 * 96 * 4 and across["link_bytes"] == 33 * 96 * 4 // 2, (inside["link_bytes"], across["link_bytes"])
assert whole["link_bytes"] == inside["link_bytes"] + across["link_bytes"]
assert 0 < whole["bound_fraction"] <= 1 and whole["target_fraction"] == 0.9, whole["bound_fraction"]
CHECK
done

property "in two steps each has a codec of its own, and two matrices at once send twice the bytes"
run bench --operation reduce_scatter $nodes --generator gaussian --codec group:bits=4 --codec-inside group:bits=8 --json one.json --out out
expect_status 0
run bench --operation reduce_scatter $nodes --generator gaussian --codec group:bits=4 --codec-inside group:bits=8 --under-way 2 --json both.json --out out
expect_status 0
/usr/bin/python3 - one.json both.json <<'CHECK' || fail "$(cat one.json both.json)"
import json, sys
one, both = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
whole, inside, across = one
assert 1e-2 < whole["relative_l2"] < 0.2, whole["relative_l2"]
assert 3.5 < inside["ratio"] < 4.1 and 6.5 < across["ratio"] < 8.1, (inside["ratio"], across["ratio"])
assert all(b["link_bytes"] == 2 * a["link_bytes"] for a, b in zip(one, both)), [(a["link_bytes"], b["link_bytes"]) for a, b in zip(one, both)]
assert 0 < both[0]["bound_fraction"] <= 1
CHECK

property "nodes and what goes with them are refused where they cannot be, with what to give"
run bench --dp-nodes 2 --out out
expect_status 2
expect_output "give --operation reduce_scatter"
run bench --operation reduce_scatter --codec-inside group:bits=8 --out out
expect_output "give --dp-nodes"
run bench --operation reduce_scatter --under-way 2 --out out
expect_status 2
expect_output "--under-way 2"

property "another operation is refused with those that there are"
run bench --operation broadcast --out out
expect_status 2
expect_output "all_reduce, reduce_scatter or all_gather"
finish
