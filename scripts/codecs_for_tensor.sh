#!/usr/bin/env bash
# Every codec on a tensor of yours: a table by ratio, which codec for which link, and a figure of error against ratio.
#   scripts/codecs_for_tensor.sh FILE.{npy,safetensors,h5}[:NAME] [--out DIR] [options of bench_codec, e.g. --max-vnmse 0.1 --links 1,100]
# DIR (default out/codecs) gets figures/codec_pareto.{png,pdf,csv}, report.html and collected.h5; another tensor in the same DIR adds a panel.
# THINWIRE_BUILD_DIR names a build folder to use in place of build/. Exit: 0, 2 usage, 3 something is missing, else as bench_codec.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
bin=${THINWIRE_BUILD_DIR:-$root/build}/bin
usage() { sed -n '2,5s/^# \{0,1\}//p' "$0"; }
case ${1-} in --help | -h) usage; exit 0 ;; '' | -*) usage >&2; exit 2 ;; esac
tensor=$1 out=$root/out/codecs options=()
shift
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --out=*) out=${1#--out=}; shift ;;
    *) options+=("$1"); shift ;;
  esac
done
for program in bench_codec sweep; do
  [ -x "$bin/$program" ] || { echo "codecs_for_tensor.sh: $bin/$program is not built; run: cmake --build --preset default --target bench_codec sweep" >&2; exit 3; }
done

"$bin/bench_codec" --input "$tensor" --all --out "$out" "${options[@]}"
"$bin/sweep" collect --out "$out" >/dev/null
/usr/bin/python3 "$root/plots/report/report.py" --collected "$out/collected.h5" --out "$out" --reference '' --only codec_pareto >/dev/null
echo
echo "Figure: $out/figures/codec_pareto.png   numbers: $out/figures/codec_pareto.csv   page: $out/report.html"
