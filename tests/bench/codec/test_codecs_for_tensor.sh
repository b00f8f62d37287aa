#!/bin/bash
# labels: unit
# timeout: 300
# needs: bench_codec, sweep
# A tensor of the user goes through every codec by one command, and comes out as tables and a figure.
set -u
bench="$THINWIRE_BIN_DIR/bench_codec"
script="$THINWIRE_SOURCE_DIR/scripts/codecs_for_tensor.sh"
[ -x "$bench" ] && [ -x "$THINWIRE_BIN_DIR/sweep" ] || { echo "SKIPPED: bench_codec or sweep is not built"; exit 77; }
export THINWIRE_BUILD_DIR=${THINWIRE_BIN_DIR%/bin}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
quick="--max-time 0.01 --min-time 0 --threads 1"
failures=0
failed() { echo "FAILED: $1"; [ -z "${2-}" ] || tail -20 "$2"; failures=$((failures + 1)); }
/usr/bin/python3 - "$out" <<'PY' || { echo "SKIPPED: numpy is missing"; exit 77; }
import sys
import numpy as np
rng = np.random.default_rng(7)
np.save(sys.argv[1] + "/weights.npy", (rng.standard_normal((96, 64)) * rng.gamma(1, 1, (96, 1))).astype("f4"))
np.save(sys.argv[1] + "/vector.npy", rng.standard_normal(1000).astype("f2"))
bad = rng.standard_normal((8, 8)).astype("f4")
bad[3, 5] = np.nan
np.save(sys.argv[1] + "/nan.npy", bad)
np.save(sys.argv[1] + "/none.npy", np.zeros((0, 8), "f4"))
PY

# Every codec with its defaults is there, and each row has all columns that users ask for.
"$bench" --input "$out/weights.npy" --all $quick --json "$out/rows" >"$out/table" 2>&1 || failed "--all" "$out/table"
"$bench" --list | sed -n '/^Wrappers:/q; s/^  \([a-z0-9_]*\)[ :].*/\1/p' | grep . >"$out/names"
/usr/bin/python3 - "$out" <<'PY' || failed "rows of --all" "$out/table"
import json, sys
out = sys.argv[1]
rows = {row["codec"]: row for row in map(json.loads, open(out + "/rows"))}
names = open(out + "/names").read().split()
assert len(names) > 5 and not set(names) - set(rows), set(names) - set(rows)
assert {"quantize:bits=2", "quantize:bits=4", "topk:fraction=0.1", "powersgd:rank=16"} <= set(rows), sorted(rows)
for codec, row in rows.items():
    if row["status"] == "SKIPPED":
        assert row["reason"], codec
        continue
    assert row["status"] == "OK", row
    assert abs(row["vnmse"] - row["relative_l2"] ** 2) <= 1e-12 + 1e-9 * row["vnmse"], codec
    assert abs(row["ratio"] - row["dense_bytes"] / row["payload_bytes"]) < 1e-9 * row["ratio"], codec
    saved = max(0, row["dense_bytes"] - row["payload_bytes"])
    assert abs(row["break_even_gbps"] - 8e-3 * saved / (row["encode_us"] + row["decode_us"])) < 1e-6 * (1 + row["break_even_gbps"]), codec
    assert row["encode_gbps"] > 0 and row["decode_gbps"] > 0 and row["bound_fraction_encode"] > 0 and row["cosine"] is not None and row["slope_bias"] is not None
    assert row["dense_bytes"] in (96 * 64 * 4, 96 * 64 * 2), codec
# A codec that is fitted saw the first half of the rows and is measured on the second; the others on all.
assert (rows["autoencoder"]["dense_bytes"], rows["quantize"]["dense_bytes"]) == (96 * 64 * 2, 96 * 64 * 4)
top = rows["topk:fraction=0.1"]  # keeps values as they are to f16, so what it loses is what it shrinks
assert abs(top["slope_bias"] + top["vnmse"]) < 1e-3 * top["vnmse"] and abs(top["cosine"] - (1 - top["vnmse"]) ** 0.5) < 1e-3, top
none = rows["none"]
assert (none["ratio"], none["vnmse"], none["cosine"], none["slope_bias"], none["break_even_gbps"]) == (1, 0, 1, 0, 0), none
PY
grep -q "Which codec for which link" "$out/table" || failed "no closing table" "$out/table"
for link in 0.1 1 10 25 100 400; do grep -qE "^ +$link +[a-z]" "$out/table" || failed "no line for $link Gbit/s" "$out/table"; done

# One axis: codecs that cannot take it are SKIPPED with a reason, and the command goes well. Only the verification with --check.
"$bench" --input "$out/vector.npy" --all --check >"$out/table" 2>&1 || failed "--all of a vector" "$out/table"
grep -q "SKIPPED.*autoencoder\|autoencoder.*SKIPPED" "$out/table" || failed "a vector has no rows to fit on" "$out/table"
grep -q "Which codec for which link" "$out/table" && failed "--check times nothing, and chooses no link" "$out/table"

expect() { # expect STATUS TEXT COMMAND...
  local status=$1 text=$2; shift 2
  "$@" >"$out/said" 2>&1; local got=$?
  [ $got -eq "$status" ] && grep -qF -- "$text" "$out/said" || failed "$* -> exit $got (expected $status), expected text: $text" "$out/said"
}
expect 2 "--all stands beside" "$bench" --all --codec cast
expect 2 "--links" "$bench" --all --links fast
expect 2 "--max-vnmse" "$bench" --all --max-vnmse 0
expect 2 "no element" "$bench" --input "$out/none.npy" --all
expect 6 "NaN" "$bench" --input "$out/nan.npy" --all --check
head -c 300 "$out/weights.npy" >"$out/cut.npy"
expect 6 "cut.npy" "$bench" --input "$out/cut.npy" --all
expect 3 "missing.npy" "$bench" --input "$out/missing.npy" --all
expect 0 "# Codecs by ratio" "$bench" --input "$out/weights.npy" --codec "cast quantize" --max-vnmse 1e-3 $quick
expect 2 "codecs_for_tensor.sh FILE" "$script"

# The script: tables on stdout, a figure and its numbers on disk.
/usr/bin/python3 -c 'import h5py, matplotlib' 2>/dev/null || { [ $failures -eq 0 ] && echo "all passed but the figure, which needs h5py and matplotlib"; exit $((failures > 0)); }
for tensor in weights vector; do "$script" "$out/$tensor.npy" --out "$out/result" $quick >"$out/said" 2>&1 || failed "the script on $tensor" "$out/said"; done
[ -s "$out/result/figures/codec_pareto.png" ] && [ -s "$out/result/report.html" ] || failed "no figure" "$out/said"
/usr/bin/python3 - "$out/result/figures/codec_pareto.csv" <<'PY' || failed "the figure's numbers"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith("#")))
assert {r["panel"] for r in rows} == {"weights.npy", "vector.npy"}, {r["panel"] for r in rows}
assert any(r["on_front"] == "1" for r in rows) and all(float(r["vnmse"]) >= 0 for r in rows)
PY
[ $failures -eq 0 ] && echo "all passed"
exit $((failures > 0))
