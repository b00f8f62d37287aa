#!/usr/bin/env bash
# labels: mpi
# timeout: 120
# needs: check_tensor_parallel
# check_tensor_parallel from the outside: layers equal the serial ones, what travels is counted, and it would tell if they did not.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/check_tensor_parallel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 100 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }

property "every operator of a cube equals the serial one, and messages of a linear are those of the formula"
for what in linears layers; do
  run ranks 8 --what $what --mode 3d --json "$work/$what"
  expect_status 0
done
run /usr/bin/python3 - "$work/linears" "$work/layers" <<'PY'
import json, sys
rows = [json.loads(line) for path in sys.argv[1:] for line in open(path)]
errors = [r["relative_l2"] for r in rows if r["relative_l2"] is not None]
assert len(errors) > 40 and max(errors) < 1e-10, max(errors)
number = {(r["method"], r["tensor"], r["operation"]): r for r in rows}
m, k, n, q, word = 4 * 4, 16, 32, 2, 8
for policy, gathers in {"keep": (1, 1, 1), "again": (2, 2, 1), "again-literally": (2, 2, 2)}.items():
    method = f"3d 2x2x2, gather {policy}"
    for operation, (x, w, y) in {"forward": (1, 1, 1), "backward": gathers}.items():
        elements = (q - 1) / q**3 * (x * m * k + w * k * n + y * m * n)
        row = lambda what: number[method, "linear", operation + what]["received_bytes"]
        assert row(", least") == row(", most") == elements * word and row("") == 8 * elements * word, (policy, operation, row(""))
    stored = [number[method, "linear", "stored " + t]["dense_bytes"] for t in "XWY"]
    assert stored == [m * k * word, k * n * word, m * n * word], "shards together are the tensors"
    kept = number[method, "linear", "kept gathered, most"]["dense_bytes"]
    assert kept == (word * (m * k + k * n) // q**2 if policy == "keep" else 0), (policy, kept)
PY
expect_status 0

property "the weight gradient of 2.5-D is wrong without the sum over the depth, and right with it"
run ranks 8 --what depth --json "$work/depth"
expect_status 0
run /usr/bin/python3 - "$work/depth" <<'PY'
import json, sys
error = {r["operation"]: r["relative_l2"] for r in map(json.loads, open(sys.argv[1]))}
assert error["weight gradient with the sum over the depth"] < 1e-10 and error["weight gradient without it"] > 0.1, error
PY
expect_status 0

property "a ring that encodes partial sums encodes a contribution n - 1 times, pieces are encoded once"
run ranks 3 --what scatter --json "$work/scatter"
expect_status 0
run /usr/bin/python3 - "$work/scatter" <<'PY'
import json, sys
rows = {(r["tensor"], r["operation"]): r for r in map(json.loads, open(sys.argv[1]))}
for data in ("independent", "alike"):
    assert rows[data, "ring, encodings of a contribution, most"]["dense_bytes"] == 2
    assert rows[data, "all-to-all, encodings of a contribution, most"]["dense_bytes"] == 1
    for way in ("ring", "all-to-all"):
        assert 1e-3 < rows[data, way]["relative_l2"] < 2e-2, rows[data, way]["relative_l2"]
PY
expect_status 0

property "what ranks cannot show is refused"
run ranks 4 --what depth
expect_status 2
expect_output "2.5-D"
run ranks 4 --what tensors
expect_output "linears, layers, chains, depth or scatter"
finish
