#!/usr/bin/env bash
# labels: unit
# timeout: 60
# needs: doctor
# Which environment variables programs read is said by `doctor --help`, all of core/process/environment.cpp.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"

property "doctor --help names every variable"
run "${THINWIRE_BIN_DIR:-$root/build/bin}/doctor" --help; expect_status 0
names=$(sed -nE 's/^ *\{"([A-Z_]+)", .*/\1/p' "$root/core/process/environment.cpp")
[ "$(wc -w <<<"$names")" -ge 15 ] || fail "core/process/environment.cpp was not understood"
for name in $names; do
  grep -q "^  $name  *[^ ]" <<<"$output" || fail "doctor --help does not name $name"
done

finish
