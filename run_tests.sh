#!/usr/bin/env bash
# Builds thinwire and passes every test, the smoke profile of the main job among them.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
. scripts/stages.sh
log_dir=out/logs

usage() {
  cat <<USAGE
usage: ./run_tests.sh [--all | --full] [--skip-setup] [--jobs N] [--help]

Installs what is missing, builds, and runs every test but those labelled slow or parity-full: most of
these ask the same of more settings.

  --all          the tests labelled slow, too (minutes)
  --full         the tests labelled slow or parity-full, too (hours)
  --skip-setup   install nothing
  --jobs N       tests at the same time (default 4); one of 2 to 4 ranks counts as two, one of more runs alone
  --help         this text

Exit status: 0 all passed; 2 wrong usage; 3 the machine lacks something; 8 tests failed; else that of the stage
that failed.
USAGE
}
exclude=(-LE '^(slow|parity-full)$') skip_setup=no jobs=4
while [ $# -gt 0 ]; do
  case $1 in
    --all) exclude=(-LE '^parity-full$'); shift ;;
    --full) exclude=(); shift ;;
    --skip-setup) skip_setup=yes; shift ;;
    --jobs)
      [[ ${2-} =~ ^[1-9][0-9]{0,2}$ ]] || { echo "run_tests.sh: --jobs needs a number from 1 to 999" >&2; usage >&2; exit 2; }
      jobs=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    *) echo "run_tests.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

[ $skip_setup = yes ] || quiet_stage setup scripts/setup.sh
quiet_stage configure cmake --preset default
quiet_stage build cmake --build --preset default -j "$(build_jobs)"
print_stage_times

# ctest's summary is the last thing on the screen.
exec ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" "${exclude[@]}" </dev/null
