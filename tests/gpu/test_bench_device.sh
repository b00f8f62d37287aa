#!/usr/bin/env bash
# labels: gpu
# timeout: 120
# devices: cuda, emulated
# needs: bench_device
# bench_device from the outside: on a device its codecs are OK, without one the row says SKIPPED and why; HDF5 and JSON either way.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
bench="$THINWIRE_BIN_DIR/bench_device"
[ -x "$bench" ] || skip "$bench is not built"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

property "a run leaves a record and rows, whether there is a device or not"
run "$bench" --generator gaussian --batch 2 --seq 64 --hidden 256 --max-time 0.1 --out out --json rows.json
expect_status 0
[ "$(ls out/cells/*.h5 | wc -l)" = 1 ] || fail "no record in out/cells"
if grep -q '"status":"SKIPPED"' rows.json; then
  expect_equal "$(wc -l <rows.json)" 1 "rows"
  grep -qE '"reason":"(no CUDA module|the CUDA module)' rows.json || fail "no reason: $(cat rows.json)"
else
  expect_equal "$(grep -c '"status":"OK"' rows.json)" 9 "rows that are OK"

  property "every row and the record say what the device is, and an emulated one that it is none"
  expect_equal "$(grep -cE '"compute":"(NVIDIA|emulated on the host \(no GPU\))' rows.json)" 9 "rows with the device's name"
  expect_equal "$(/usr/bin/python3 -c 'import glob, h5py; print(h5py.File(glob.glob("out/cells/*.h5")[0])["provenance"]["gpu"][0].decode())')" \
    "$(sed -n '1s/.*"compute":"\([^"]*\)".*/\1/p' rows.json)" "device of the record"
fi

property "what cannot be measured is refused"
run "$bench" --generator nonsense
[ "$status" != 0 ] || expect_output SKIPPED
run "$bench" --codek cast
expect_status 2
finish
