# What shell tests share. Each property prints one line; `finish` makes the test fail when one did not hold.
# shellcheck shell=bash
failures=0
property=''

# property NAME: starts a property; the checks that follow belong to it.
property() { property=$1; echo "-- $property"; }
fail() { echo "   FAILED: $property: $1" >&2; failures=$((failures + 1)); }
# skip REASON: ends the whole test as skipped (CTest's SKIP_RETURN_CODE).
skip() { echo "SKIPPED: $1"; exit 77; }

# in_namespaces SCRIPT: runs the test anew in mount, process and network namespaces of its own: its daemons and jobs end with it, whatever happens. Sets $inside to
# `namespaces` there, or to `plain` where rights do not allow them, which $refusal tells, and $work to a new folder. Inside, processes have the numbers that those
# of other such tests have, and Open MPI names its files by them: /dev/shm is empty, and temporary files go to $work.
# shellcheck disable=SC2034 # the test reads them
in_namespaces() {
  local namespaces=(--mount --pid --net --fork --kill-child=KILL --mount-proc)
  if [ -z "${THINWIRE_TEST_INSIDE:-}" ]; then
    export THINWIRE_TEST_INSIDE=namespaces
    if refusal=$(unshare "${namespaces[@]}" mount -t tmpfs none /dev/shm 2>&1); then exec unshare "${namespaces[@]}" bash "$1"; fi
    THINWIRE_TEST_INSIDE=plain
  fi
  inside=$THINWIRE_TEST_INSIDE work=$(mktemp -d)
  [ "$inside" = plain ] || { mount -t tmpfs none /dev/shm && export TMPDIR=$work; }
}

# run COMMAND...: leaves its exit status in $status, stdout and stderr together in $output.
run() { status=0; output=$("$@" 2>&1) || status=$?; }
expect_status() { [ "$status" = "$1" ] || fail "exit status $status instead of $1; output: $output"; }
expect_output() { [[ $output == *"$1"* ]] || fail "output lacks '$1': $output"; }
expect_equal() { [ "$1" = "$2" ] || fail "${3:-value} is '$1' instead of '$2'"; }

# eventually SECONDS COMMAND...: true once the command is, false when the time is over.
eventually() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do [ $SECONDS -lt $until ] || return 1; sleep 0.1; done
}
finish() { [ $failures -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }; echo "all properties hold"; }
