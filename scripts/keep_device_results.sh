#!/usr/bin/env bash
# What tests/gpu/run_all_checks.sh left on a machine with a GPU becomes results/reference/<device>/: one collected file, the figures drawn from it,
# and where it is from. Usage, on any machine with a build:
#   scripts/keep_device_results.sh RESULTS [--build DIR] [--into DIR]     default: build, results/reference
# Exit: 0, 2 usage, 3 RESULTS is not of a GPU (emulated, --smoke, SKIPPED, no rows), or something is not built.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build into=$root/results/reference from=
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --into) into=${2:?--into needs a folder}; shift 2 ;;
    -*) sed -n '2,6s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
    *) from=$1; shift ;;
  esac
done
[ -n "$from" ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
refuse() { echo "keep_device_results.sh: $1" >&2; exit 3; }
[ -e "$from/summary.json" ] || refuse "$from/summary.json is not there: is that what run_all_checks.sh left?"
[ -x "$build/bin/sweep" ] || refuse "$build/bin/sweep is not built; run: ninja -C $build sweep"
field() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2], ""))' "$from/summary.json" "$1"; }
device=$(field device) status=$(field status)
case $device in '') refuse "$from has no device: $(field reason)" ;; emulated*) refuse "$from is of an emulated device, whose times are no GPU's" ;; esac
[ "$(field smoke)" = no ] || refuse "$from is of --smoke, whose sizes say nothing about speed"
[ "$status" != SKIPPED ] || refuse "$from was skipped: $(field reason)"

"$build/bin/sweep" collect --out "$from"
/usr/bin/python3 - "$from/collected.h5" <<'PY' || refuse "$from holds no row of a GPU"
import sys
import h5py
names = {name.decode() for name in h5py.File(sys.argv[1])["cells"]["device"]}
sys.exit(not any(name and not name.startswith("emulated") for name in names))
PY
/usr/bin/python3 "$root/plots/report/report.py" --collected "$from/collected.h5" --out "$from" --reference '' --only device_break_even device_throughput

slug=$(printf '%s' "${device%%,*}" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' '-' | sed 's/^-*//; s/-*$//')
to=$into/$slug
mkdir -p "$to/figures"
cp "$from/collected.h5" "$from/summary.json" "$to/"
find "$from/figures" -name 'device_*' \( -name '*.png' -o -name '*.csv' \) -exec cp {} "$to/figures/" \;
{
  echo "# $device"
  echo
  echo "Measured by \`tests/gpu/run_all_checks.sh\` of commit $(field commit) (verdict: $status, $(field seconds) s), collected and drawn by"
  echo "\`scripts/keep_device_results.sh\`. Driver: $(sed -n 's/^Driver Version *: *//p' "$from/logs/device.log" 2>/dev/null | head -1)."
  echo "SHA-256 of \`collected.h5\`: \`$(sha256sum "$to/collected.h5" | cut -d' ' -f1)\`."
  echo
  echo '| part | verdict | seconds | remark |'
  echo '|---|---|---|---|'
  /usr/bin/python3 -c 'import json, sys
for p in json.load(open(sys.argv[1]))["parts"]: print("| %s | %s | %s | %s |" % (p["name"], p["status"], p["seconds"], p.get("reason", "")))' "$from/summary.json"
} > "$to/README.md"
echo "$to: look at it, then commit it"
