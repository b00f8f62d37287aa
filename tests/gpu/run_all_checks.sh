#!/usr/bin/env bash
# Everything that needs a GPU, in one call and under eight minutes: checks of memory, streams and kernels against the host, and benches.
# Runs from an unpacked bundle (packaging/make_bundle.sh) or from a build. Usage:
#   tests/gpu/run_all_checks.sh [--out DIR] [--build DIR]
# Leaves in DIR (default: gpu-results) summary.json, one JSON per part, the records of the benches as HDF5 in cells/, and logs.
# Exit: 0 all passed, 1 something failed, 77 SKIPPED: no usable device, or a machine that cannot run the programs; summary.json says why.
set -uo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
out=gpu-results build=$here/build
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
  esac
done
if [ -x "$here/run" ]; then run=("$here/run") bin=$here/bin tests=$here/bin; else run=() bin=$build/bin tests=$build/tests; fi
mkdir -p "$out/logs" && out=$(cd "$out" && pwd) || exit 1
started=$SECONDS budget=470 results=() failed=no

quote() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n\t' '  '; }
summary() { # summary STATUS REASON
  { printf '{"status":"%s","reason":"%s","seconds":%d,"commit":"%s","device":"%s","parts":[' "$1" "$(quote "$2")" $((SECONDS - started)) "$(cat "$here/commit" 2>/dev/null)" "$(quote "${device:-}")"
    local separator=
    for part in ${results[@]+"${results[@]}"}; do printf '%s%s' "$separator" "$part"; separator=,; done
    printf ']}\n'; } > "$out/summary.json"
}
skip() { echo "SKIPPED: $1"; summary SKIPPED "$1"; exit 77; }
# part NAME LIMIT COMMAND...: runs it within its limit and what is left of the budget; its output goes to logs/NAME.log.
part() {
  local name=$1 limit=$2 left=$((budget - SECONDS + started)) from=$SECONDS status=0 word=PASSED
  shift 2
  if [ $left -lt 10 ]; then
    word=SKIPPED
  else
    [ "$limit" -le $left ] || limit=$left
    timeout -k 5 "$limit" ${run[@]+"${run[@]}"} "$@" > "$out/logs/$name.log" 2>&1 </dev/null || status=$?
    case $status in 0) ;; 77) word=SKIPPED ;; 124 | 137) word=TIMEOUT failed=yes ;; *) word=FAILED failed=yes ;; esac
  fi
  printf '%-8s %-28s %4d s\n' $word "$name" $((SECONDS - from))
  [ $word != FAILED ] || tail -15 "$out/logs/$name.log" | sed 's/^/    /'
  results+=("{\"name\":\"$name\",\"status\":\"$word\",\"exit\":$status,\"seconds\":$((SECONDS - from))}")
}

if [ -e "$here/requires-glibc" ]; then
  have=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }') need=$(cat "$here/requires-glibc")
  [ "$(printf '%s\n%s\n' "$need" "${have:-0}" | sort -V | head -1)" = "$need" ] || skip "the bundle's programs need glibc $need, this machine has ${have:-another C library}; build from source here"
fi
[ -x "$tests/gpu.test_device" ] && [ -x "$bin/bench_device" ] || skip "gpu.test_device and bench_device are not built ($tests, $bin)"

# doctor looks at much that a GPU does not need; here only its word on CUDA counts.
${run[@]+"${run[@]}"} timeout 60 "$bin/doctor" --quick --out "$out" --json "$out/doctor.json" > "$out/logs/doctor.log" 2>&1 </dev/null
seen=$(grep -E '^[a-z]+ +cuda ' "$out/logs/doctor.log")
case $seen in
  *emulated*) skip "the device is emulated on the host: nothing here would be a GPU's number" ;;
  *'a CUDA device can be used'*) device=${seen#*can be used: } ;;
  '') skip "doctor did not run: $(tail -1 "$out/logs/doctor.log")" ;;
  *) skip "$(printf '%s' "$seen" | sed 's/^.*no CUDA: //')" ;;
esac
nvidia-smi -q > "$out/logs/device.log" 2>&1

export GTEST_OUTPUT=json:$out/test_device.json
part test_device 200 "$tests/gpu.test_device"
unset GTEST_OUTPUT
if command -v compute-sanitizer >/dev/null; then
  part memcheck 90 compute-sanitizer --error-exitcode 1 "$tests/gpu.test_device" --gtest_filter='*MaskGradients*:*ReportDamaged*:*Residuals*'
  part racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 1 "$tests/gpu.test_device" --gtest_filter='*MaskGradients*'
fi
for hidden in 1024 4096 16384; do  # 64 MiB, 256 MiB, 1 GiB of f32
  part bench_device_$((hidden / 16))MiB 100 "$bin/bench_device" --generator gaussian --hidden $hidden --max-time 0.5 --out "$out" --json "$out/bench_device_$((hidden / 16))MiB.json"
done

if [ $failed = yes ]; then summary FAILED "see logs/"; else summary PASSED ""; fi
echo "$out/summary.json, $((SECONDS - started)) s"
[ $failed = no ]
