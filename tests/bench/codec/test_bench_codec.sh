#!/bin/bash
# labels: unit
# timeout: 120
# bench_codec from the outside: exit codes, --list, --check, JSON rows, records, launch files.
set -u
bench="$THINWIRE_BIN_DIR/bench_codec"
[ -x "$bench" ] || { echo "SKIPPED: $bench is not built"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
small="--batch 2 --seq 64 --hidden 32 --max-time 0.05 --min-time 0 --threads 1 --generator gaussian"
failures=0
expect() { # expect STATUS TEXT COMMAND...: exit status, and a text in what it prints
  local status=$1 text=$2; shift 2
  local printed; printed=$("$@" 2>&1); local got=$?
  if [ $got -ne "$status" ] || ! grep -qF -- "$text" <<<"$printed"; then
    echo "FAILED: $* -> exit $got (expected $status), expected text: $text"; echo "$printed" | head -20; failures=$((failures + 1))
  fi
}

expect 0 "--repetitions" "$bench" --help
expect 0 "powersgd [fair, released] [cuda]" "$bench" --list
expect 0 "error feedback" "$bench" --list
expect 2 "did you mean --codec" "$bench" --codek cast
expect 2 "did you mean 'topk'" "$bench" $small --codec topkk
expect 2 "FAILED" "$bench" $small --codec autoencoder:width=33
expect 2 "--batch" "$bench" $small --batch 2.5
expect 2 "" "$bench" $small --generator nonsense --codec cast
expect 3 "cannot be read" "$bench" --cells "$out/missing.json"
# What is missing ends a command of its own; in a launch file it is the cell's to say (below).
expect 3 "missing.npy" "$bench" $small --codec cast --input "$out/missing.npy"
expect 3 "missing.h5" "$bench" $small --codec cast --capture "$out/missing.h5"
# A short time alone takes the least time down with it.
expect 0 "OK" "$bench" --batch 2 --seq 64 --hidden 32 --threads 1 --generator gaussian --max-time 0.02 --codec cast
expect 2 "contradict" "$bench" --batch 2 --seq 64 --hidden 32 --threads 1 --generator gaussian --max-time 0.02 --min-time 0.03 --codec cast
expect 2 "malformed" "$bench" --cells <(echo '{"schema":1')
expect 0 "OK" "$bench" $small --check --codec "none cast quantize:bits=4 topk:fraction=0.05 randomk:fraction=0.05 autoencoder:width=4 powersgd:rank=2"
# Goals stand beside what was reached, of a codec that has some.
expect 0 "0.30 0.50" "$bench" $small --codec "topk:fraction=0.05 randomk:fraction=0.05"
expect 0 "- - " "$bench" $small --codec "randomk:fraction=0.05"
# What remembers samples is given some.
expect 0 "OK" "$bench" $small --codec "group+delta"

# Rows as JSON on stdout: one line per codec, nothing else; the fractions and times are numbers.
"$bench" $small --json - --out "$out/single" --codec "cast powersgd:rank=2+ef" >"$out/rows" 2>"$out/table" || { echo "FAILED: --json -"; failures=$((failures + 1)); }
/usr/bin/python3 - "$out" <<'PY' || failures=$((failures + 1))
import json, sys, os, glob
out = sys.argv[1]
rows = [json.loads(line) for line in open(out + "/rows")]
assert [r["codec"] for r in rows] == ["cast", "powersgd:rank=2+ef"], rows
for r in rows:
    assert r["status"] == "OK" and r["traffic"] == "codec" and r["operation"] == "encode_decode"
    assert r["encode_us"] > 0 and r["decode_us"] > 0 and 0 < r["bound_fraction_encode"] and r["memcpy_gbps"] > 0
    assert r["dense_bytes"] == 2 * 64 * 32 * 4 and r["threads"] == 1
assert rows[0]["payload_bytes"] == 2 * 64 * 32 * 2 and rows[0]["blas_fraction_encode"] is None
assert rows[1]["payload_bytes"] == 4 * 2 * (128 + 32) and rows[1]["blas_fraction_encode"] > 0
assert [r["target_fraction_encode"] for r in rows] == [0.5, 0.7] and [r["target_fraction_decode"] for r in rows] == [0.5, 0.7], rows
import h5py
files = glob.glob(out + "/single/cells/*.h5")
assert len(files) == 1 and os.path.basename(files[0])[:-3] == rows[0]["cell_id"], files
with h5py.File(files[0]) as f:
    assert len(f["cells"]) == 2 and len(f["samples"]) >= 2
PY

# A launch file: a cell that fails does not stop the next; identities are those of the file.
cat >"$out/launch.json" <<JSON
{"schema":1,"launch":"L1","out":"$out/launch","link":"none","cells":[
 {"cell_id":"aa01","parameters":{"codec":"autoencoder:width=999","batch":2,"seq":64,"hidden":32,"generator":"gaussian"}},
 {"cell_id":"aa02","parameters":{"codec":"cast","batch":2,"seq":64,"hidden":32,"max-time":0.05,"min-time":0,"generator":"gaussian"}}]}
JSON
expect 0 "wider than" "$bench" --cells "$out/launch.json"
[ -f "$out/launch/cells/aa01.h5" ] && [ -f "$out/launch/cells/aa02.h5" ] || { echo "FAILED: records of the launch"; failures=$((failures + 1)); }
grep -q '"cell_finished".*aa02\|aa02.*"cell_finished"' "$out/launch/journal/L1.jsonl" || { echo "FAILED: journal"; cat "$out/launch/journal/L1.jsonl"; failures=$((failures + 1)); }
sed -i 's/"batch":2/"bacth":2/' "$out/launch.json"
expect 2 "did you mean \`batch\`" "$bench" --cells "$out/launch.json"

[ $failures -eq 0 ] && echo "all passed"
exit $((failures > 0))
