#!/usr/bin/env bash
# labels: mpi
# timeout: 120
# needs: bench_tensor_parallel
# bench_tensor_parallel from the outside: every grid of the ranks, bytes as the formulas say, refusals.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/bench_tensor_parallel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 100 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }

property "every grid of 8 ranks receives what the formulas of a linear with a bias say"
run ranks 8 --unit linear --batch 8 --seq 4 --hidden 32 --check --json "$work/rows"
expect_status 0
run /usr/bin/python3 - "$work/rows" <<'PY'
import json, sys
rows = {(r["method"], r["operation"]): r for r in map(json.loads, open(sys.argv[1]))}
m, k, n = 8 * 4, 32, 4 * 32
sx, sw, sy, q, d, word = m * k, k * n, m * n, 2, 2, 4
vector_2d = (q - 1) / q * n / q  # the mean over ranks; block on grid row 0
vector_3d = (q - 1) / q * n / q**2 + (q - 1) * n / q**2
grid = (q - 1) / q**2 * (sx / d + sw)
cube = (q - 1) / q**3
expected = {
    ("1d 8", "forward"): 0,
    ("1d 8", "backward"): 2 * 7 / 8 * sx,
    ("2.5d 2x2x2", "forward"): grid + vector_2d,
    # sums over the depth: of the weight, and of the bias on the ranks of row 0
    ("2.5d 2x2x2", "backward"): 2 * grid + 2 * (d - 1) / d * sw / q**2 + vector_2d + 2 * (d - 1) / d * n / q / q,
    ("3d 2x2x2, gather again", "forward"): cube * (sx + sw + sy) + vector_3d,
    ("3d 2x2x2, gather again", "backward"): cube * (2 * sx + 2 * sw + sy) + vector_3d,
}
for key, elements in expected.items():
    assert rows[key]["received_bytes"] == elements * word, (key, rows[key]["received_bytes"], elements * word)
    assert rows[key]["status"] == "OK"
assert {method for method, _ in rows} == {method for method, _ in expected}
assert all(rows[method, "peak memory"]["dense_bytes"] > 0 for method, _ in expected)
PY
expect_status 0

property "codecs make messages smaller and results wrong by a little, class by class; dense results are those of one rank"
for codec in none quantize:bits=8 quantize:bits=4; do
  run ranks 4 --unit mlp --batch 4 --seq 8 --hidden 32 --comm-dtype f32 --codec "$codec" --check --json "$work/$codec"
  expect_status 0
done
run ranks 4 --mode 2d --unit mlp --batch 4 --seq 8 --hidden 32 --compress.tp_weight quantize:bits=8 --check --json "$work/weights"
expect_status 0
run /usr/bin/python3 - "$work" <<'PY'
import json, sys
def rows(name): return {(r["method"], r["operation"]): r for r in map(json.loads, open(f"{sys.argv[1]}/{name}"))}
dense, eight, four = (rows(n) for n in ("none", "quantize:bits=8", "quantize:bits=4"))
for method in ("1d 4", "2d 2x2"):
    step = [table[method, "step"]["received_bytes"] for table in (dense, eight, four)]
    assert step[1] < 0.6 * step[0] and step[2] < 0.7 * step[1], step
    for what in ("output", "input gradient", "weight gradient"):
        e = [table[method, "error of " + what]["relative_l2"] for table in (dense, eight, four)]
        if method == "1d 4" and what == "weight gradient":  # its factors do not travel
            assert max(e) < 1e-5, e
            continue
        assert e[0] < 1e-5 and 5e-4 < e[1] < 0.1 and 3 * e[1] < e[2] < 1, (method, what, e)
for table in (dense, eight, four):
    for method in ("1d 4", "2d 2x2"):
        parts = table[method, "forward"]["received_bytes"] + table[method, "backward"]["received_bytes"]
        assert table[method, "step"]["received_bytes"] == parts
weights = rows("weights")
key = "2d 2x2", "forward: broadcast weight"
assert weights[key]["codec"] == "quantize" and weights[key]["received_bytes"] < dense[key]["received_bytes"] / 2, weights[key]
key = "2d 2x2", "forward: broadcast input"
assert weights[key]["codec"] == "none" and weights[key]["received_bytes"] == dense[key]["received_bytes"], weights[key]
assert 1e-4 < weights["2d 2x2", "error of output"]["relative_l2"] < eight["2d 2x2", "error of output"]["relative_l2"]
PY
expect_status 0

property "under a memory limit each mode takes its largest batch"
run ranks 4 --unit mlp --seq 8 --hidden 32 --comm-dtype f32 --memory-mib 0.5 --check --json "$work/limited"
expect_status 0
for more in "1d:1" "2d:2"; do  # the next batch that the mode divides is too large
  batch=$(/usr/bin/python3 -c "import json; print(next(r['batch'] for r in map(json.loads, open('$work/limited')) if r['method'].startswith('${more%:*} ')))")
  run ranks 4 --mode "${more%:*}" --batch $((batch + ${more#*:})) --unit mlp --seq 8 --hidden 32 --comm-dtype f32 --check --json "$work/more-${more%:*}"
  expect_status 0
done
run /usr/bin/python3 - "$work" <<'PY'
import json, sys
def peaks(name): return {r["method"]: (r["batch"], r["dense_bytes"]) for r in map(json.loads, open(f"{sys.argv[1]}/{name}")) if r["operation"] == "peak memory"}
limit = 0.5 * 2**20
fits, over = peaks("limited"), peaks("more-1d") | peaks("more-2d")
for method in ("1d 4", "2d 2x2"):
    assert fits[method][1] <= limit < over[method][1], (method, fits, over)
PY
expect_status 0
run ranks 4 --unit mlp --seq 8 --hidden 64 --memory-mib 0.01 --check
expect_output "SKIPPED"
expect_output "the smallest that 2d 2x2 divides"

property "a codec that a grid cannot carry is refused, or skipped with the reason among all"
run ranks 4 --mode 2d --unit linear --batch 4 --seq 4 --hidden 32 --codec topk --check
expect_status 2
expect_output "straight-through"
run ranks 4 --unit linear --batch 4 --seq 4 --hidden 32 --codec topk --check
expect_output "SKIPPED"

property "a grid that the ranks do not make is refused, naming those that they make"
run ranks 2 --mode 2d --check
expect_status 2
expect_output "square"
expect_output "4 (2x2)"

property "sizes that a grid cannot split are refused, or skipped with the reason among all"
run ranks 4 --mode 2d --batch 3 --check
expect_status 2
expect_output "micro-batch 3 is no multiple of 2"
run ranks 4 --mode all --unit linear --batch 3 --hidden 32 --seq 4 --check
expect_output "SKIPPED"
finish
