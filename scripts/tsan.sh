#!/usr/bin/env bash
# Tests of what runs while something else does, under ThreadSanitizer: channels, overlap, parameter stores, the watchdog.
set -euo pipefail
self=${0##*/}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
tests=(core.process.test_failure collectives.process.test_watchdog collectives.channel.test_channel collectives.channel.test_issue_order collectives.protocol.test_overlapped
  models.store.test_flat_layout models.store.test_sharded_training)

usage() {
  cat <<USAGE
usage: $self [--jobs N] [--ranks N] [--help] [TEST...]

Builds the tests named, by default
  ${tests[*]}
with -fsanitize=thread in build-tsan, and runs each, those that name ranks on N (default 4). MPI, OpenMP and BLAS are not built with the sanitizer: what it says
of them alone is left out (tests/support/tsan_suppressions.txt).

Exit status: 0 nothing found; 1 a test failed, or a race; 2 wrong usage; else that of the build.
USAGE
}
jobs=$(nproc) ranks=4 chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs | --ranks)
      [[ ${2-} =~ ^[1-9][0-9]{0,2}$ ]] || { echo "$self: $1 needs a whole number above 0" >&2; usage >&2; exit 2; }
      [ "$1" = --jobs ] && jobs=$2 || ranks=$2
      shift 2 ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "$self: unknown option '$1'" >&2; usage >&2; exit 2 ;;
    *) chosen+=("$1"); shift ;;
  esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${tests[@]}")

logs=out/tsan
mkdir -p $logs
{ cmake --preset tsan && cmake --build --preset tsan -j "$jobs" --target "${chosen[@]}"; } >$logs/build 2>&1 || { status=$?; tail -n 30 $logs/build >&2; exit $status; }

# One OpenMP thread: libgomp's own barriers are invisible here. The races looked for are between operations in flight, callbacks and the watchdog's thread.
export GTEST_COLOR=no OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HDF5_USE_FILE_LOCKING=FALSE
export THINWIRE_SOURCE_DIR=$root THINWIRE_BUILD_DIR=$root/build-tsan THINWIRE_BIN_DIR=$root/build-tsan/bin
export TSAN_OPTIONS="suppressions=$root/tests/support/tsan_suppressions.txt ignore_noninstrumented_modules=1 exitcode=66 history_size=4"
failed=0
for test in "${chosen[@]}"; do
  status=0 launcher=()
  ! grep -q '^// ranks:' "tests/${test//.//}.cpp" || launcher=(mpirun --oversubscribe --bind-to none -n "$ranks")
  "${launcher[@]}" "build-tsan/tests/$test" >$logs/"$test" 2>&1 </dev/null || status=$?
  races=$(grep -c 'WARNING: ThreadSanitizer' $logs/"$test") || true
  passed=$(grep -o '\[  PASSED  \] [0-9]* test' $logs/"$test" | tail -n 1 | tr -dc 0-9) || true
  printf '%-48s status %3d  %4s tests passed  %3d warnings\n' "$test" $status "${passed:-0}" "$races"
  [ $status = 0 ] && [ "$races" = 0 ] || { failed=1; echo "  see $logs/$test"; }
done
exit $failed
