#!/usr/bin/env bash
# labels: gpu
# timeout: 120
# needs: bench_device
# devices: cuda, emulated
# bench_device from the outside: on a device its rows are OK, on an emulated one MISTRUSTED (right, but no times of a GPU), without one SKIPPED with the
# reason; HDF5 and JSON in all cases.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
bench="$THINWIRE_BIN_DIR/bench_device"
[ -x "$bench" ] || skip "$bench is not built"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
good=OK
[ -z "${THINWIRE_CUDA_MODULE:-}" ] || good=MISTRUSTED

# rows FILE WANTED...: every row is as good as this device allows, and so many are of each operation; or one row says why there are none.
rows() {
  local file=$1 wanted
  shift
  if grep -q '"status":"SKIPPED"' "$file"; then
    expect_equal "$(wc -l <"$file")" 1 "rows"
    grep -qE '"reason":"(no CUDA module|the CUDA module)' "$file" || fail "no reason: $(cat "$file")"
    [ $good = OK ] || fail "the emulated device was not used: $(cat "$file")"
    return
  fi
  grep -v "\"status\":\"$good\"" "$file" && fail "a row that is not $good"
  for wanted; do expect_equal "$(grep -c "\"operation\":\"${wanted%=*}" "$file")" "${wanted#*=}" "rows of ${wanted%=*}"; done
  grep -v '"device":"..*"' "$file" && fail "a row without the device's name"
  [ $good = OK ] || { grep -v '"device":"emulated' "$file" && fail "a row that hides its device is emulated"; }
  return 0
}

property "codecs leave a row each, and one for each protocol of a modelled all-reduce"
run "$bench" --generator gaussian --batch 2 --seq 32 --hidden 64 --codec 'none cast quantize:bits=4 topk powersgd:rank=4' --min-time 0.01 --max-time 0.1 --out out --json rows.json
expect_status 0
[ "$(ls out/cells/*.h5 | wc -l)" = 1 ] || fail "no record in out/cells"
rows rows.json encode_decode=5 all_reduce=10
expect_equal "$(/usr/bin/python3 -c 'import glob, h5py; print(h5py.File(glob.glob("out/cells/*.h5")[0])["provenance"]["gpu"][0].decode())')" \
  "$(sed -n '1s/.*"device":"\([^"]*\)".*/\1/p' rows.json)" "device of the record"

property "kernels of the trainer leave a row for each type"
run "$bench" --what kernels --micro-batch 1 --tokens 16 --model-hidden 32 --heads 2 --model-layers 1 --vocab 101 --peak-size 32 --min-time 0.01 --max-time 0.05 --out out --json kernels.json
expect_status 0
rows kernels.json gemm_=16 attention_=4 layernorm_=4 gelu_=4 cross_entropy=2 adamw=1 sum_of_squares=1

property "what cannot be measured is refused"
run "$bench" --generator nonsense
[ "$status" != 0 ] || expect_output SKIPPED
run "$bench" --codek cast
expect_status 2
run "$bench" --what speed
expect_output "codecs or kernels can be measured"
run "$bench" --what kernels --heads 5
[ "$status" != 0 ] || expect_output SKIPPED
finish
