#!/usr/bin/env bash
# Runs the fuzz targets (tests/fuzz) for minutes each, with sanitizers.
set -euo pipefail
self=${0##*/}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

usage() {
  cat <<USAGE
usage: $self [--seconds N] [--jobs N] [--out FOLDER] [--no-engine] [--list] [--help] [TARGET...]

Builds tests/fuzz with the address and undefined-behaviour sanitizers (build-fuzz, or build-asan without libFuzzer) and runs each target, or
those named, for N seconds. Inputs that go wrong lie in FOLDER/findings; one that is mended belongs into tests/fuzz/corpus/TARGET.

  --seconds N    of each target (default 600)
  --jobs N       targets at the same time (default: cores)
  --out FOLDER   corpora as they grow, logs, findings (default out/fuzz)
  --no-engine    mutations by this project's own numbers, not by libFuzzer, which looks at coverage; the default where
                 libFuzzer is missing (scripts/setup.sh --fuzz installs it)
  --list         the targets
  --help         this text

Exit status: 0 nothing found; 1 findings; 2 wrong usage; else that of the build.
USAGE
}
seconds=600 jobs=$(nproc) out=out/fuzz engine=yes list=no chosen=()
number() { [[ ${2-} =~ ^[1-9][0-9]{0,6}$ ]] || { echo "$self: $1 needs a whole number above 0" >&2; exit 2; }; }
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) number "$@"; seconds=$2; shift 2 ;;
    --jobs) number "$@"; jobs=$2; shift 2 ;;
    --out) [ -n "${2-}" ] || { usage >&2; exit 2; }; out=$2; shift 2 ;;
    --no-engine) engine=no; shift ;;
    --list) list=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "$self: unknown option '$1'" >&2; usage >&2; exit 2 ;;
    *) chosen+=("$1"); shift ;;
  esac
done
all=$(cat tests/fuzz/targets/*.cpp | tr '\n' ' ' | grep -o 'register_target( *{"[a-z0-9_]*"' | cut -d'"' -f2 | sort)
[ $list = no ] || { echo "$all"; exit 0; }
[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen <<<"$all"
for name in "${chosen[@]}"; do grep -qx "$name" <<<"$all" || { echo "$self: no target '$name'; there is" $all >&2; exit 2; }; done

compgen -G "/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-$(uname -m).a" >/dev/null || engine=no

if [ $engine = yes ]; then preset=fuzz target=fuzz program=build-fuzz/tests/fuzz; else preset=asan-ubsan target=fuzz.test_every_reader program=build-asan/tests/fuzz.test_every_reader; fi
mkdir -p "$out/logs" "$out/findings"
{ cmake --preset $preset && cmake --build --preset $preset -j "$jobs" --target $target; } >"$out/logs/build" 2>&1 || { status=$?; tail -n 30 "$out/logs/build" >&2; exit $status; }

# Leaks of libraries that live as long as the program are no findings. One thread: an input is read the same way each time.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export HDF5_USE_FILE_LOCKING=FALSE THINWIRE_SOURCE_DIR=$root
[ -d /dev/shm ] && [ -w /dev/shm ] && export TMPDIR=/dev/shm
[ $engine = no ] || "$program" --write-seeds "$out/seeds" >"$out/logs/seeds" 2>&1 || { tail -n 30 "$out/logs/seeds" >&2; exit 1; }

one() {
  local name=$1 status=0 committed=()
  if [ $engine = no ]; then
    THINWIRE_FUZZ_TARGET=$name THINWIRE_FUZZ_SECONDS=$seconds THINWIRE_FUZZ_KEEP=$out/findings "$program" >"$out/logs/$name" 2>&1 </dev/null || status=$?
  else
    mkdir -p "$out/corpus/$name"
    [ ! -d "tests/fuzz/corpus/$name" ] || committed=("tests/fuzz/corpus/$name")
    THINWIRE_FUZZ_TARGET=$name "$program" -max_total_time="$seconds" -timeout=30 -malloc_limit_mb=2048 -rss_limit_mb=6144 -print_final_stats=1 \
      -artifact_prefix="$out/findings/$name-" "$out/corpus/$name" "$out/seeds/$name" "${committed[@]}" >"$out/logs/$name" 2>&1 </dev/null || status=$?
  fi
  echo $status >"$out/logs/$name.status"
}
running=0
for name in "${chosen[@]}"; do
  [ $running -lt "$jobs" ] || { wait -n; running=$((running - 1)); }
  one "$name" &
  running=$((running + 1))
done
wait

printf '%-18s %10s %12s %10s  %s\n' target seconds inputs places outcome
found=0
for name in "${chosen[@]}"; do
  log=$out/logs/$name
  if [ $engine = yes ]; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
    places=$(grep -o ' ft: [0-9]*' "$log" | tail -n 1 | tr -dc 0-9) || true
    took=$(sed -n 's/^Done .* in \([0-9]*\) second.*$/\1/p' "$log" | tail -n 1)
  else
    inputs=$(sed -n "s/^$name *seed [0-9]*: *\([0-9]*\) read, *\([0-9]*\) refused.*/\1 \2/p" "$log" | awk '{ print $1 + $2 }')
    places= took=$seconds
  fi
  outcome='nothing found'
  # libFuzzer keeps what took more than ten seconds and goes on, with exit status 0.
  slow=$(sed -n 's/^artifact_prefix=.*; Test unit written to \(.*-slow-unit-[0-9a-f]*\)$/\1/p' "$log" | tail -n 1)
  [ -z "$slow" ] || { outcome="FOUND: more than ten seconds for $slow"; found=1; }
  [ "$(cat "$log.status")" = 0 ] || { outcome="FOUND: $(grep -m 1 -E 'ERROR: |runtime error|FAILED|: input is|^'"$name"': ' "$log" || echo "see $log")"; found=1; }
  printf '%-18s %10s %12s %10s  %s\n' "$name" "${took:--}" "${inputs:--}" "${places:--}" "$outcome"
done
exit $found
