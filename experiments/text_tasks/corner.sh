#!/usr/bin/env bash
# Makes what the claim activation_compression.M1 trains on: one task of sentences (polarity) from Debian's wordnet-base, and a vocabulary learnt from its training rows. Seconds; what is there stays.
#
# usage: corner.sh --out DIR [--wordnet FOLDER]
#   --out DIR         gets tasks/pol/{train,dev}.tsv and vocab.txt
#   --wordnet FOLDER  data.noun, index.noun, ... (/usr/share/wordnet, where scripts/setup.sh --study puts them)
# THINWIRE_BIN_DIR names a folder of programs to use in place of build/bin. Exit: 0, 2 usage, 3 something is missing.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
self=${0##*/}
usage() { sed -n '4,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
die() { echo "$self: $2" >&2; exit "$1"; }

out='' wordnet=/usr/share/wordnet
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --out | --wordnet)
      [ $# -gt 1 ] || die 2 "$1 needs a value"
      case $1 in --out) out=$2 ;; --wordnet) wordnet=$2 ;; esac
      shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ -n "$out" ] || { usage >&2; exit 2; }
[ ! -e "$out/vocab.txt" ] || exit 0
[ -r "$wordnet/data.noun" ] || die 3 "$wordnet/data.noun is not there; scripts/setup.sh --study installs WordNet. Without it the fine-tuning corner is SKIPPED"
bin=${THINWIRE_BIN_DIR:-}
for folder in "$here/../../build/bin" "$here/../../../../bin"; do [ -n "$bin" ] || [ ! -x "$folder/wordpiece" ] || bin=$folder; done
[ -x "$bin/wordpiece" ] || die 3 "${bin:-build/bin}/wordpiece is not built; run: cmake --build --preset default --target wordpiece"

mkdir -p "$out" || exit 3
/usr/bin/python3 "$here/make_tasks.py" --tasks pol --seed 1 --wordnet "$wordnet" --out "$out/tasks"
tail -n +2 "$out/tasks/pol/train.tsv" | cut -f 2 >"$out/sentences.txt"
"$bin/wordpiece" learn --text "$out/sentences.txt" --size 4000 --out "$out/vocab.txt.partial"
mv "$out/vocab.txt.partial" "$out/vocab.txt"
