#!/usr/bin/env bash
# labels: unit
# timeout: 120
# What every program answers before it does anything: --help, --version, and an option that it does not have.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
bin=${THINWIRE_BIN_DIR:-$root/build/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
version=$(sed -nE 's/^project\(thinwire.* VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
[ -n "$version" ] || fail "CMakeLists.txt was not understood"

property "every program says who it is and what it takes, and refuses the rest with 2"
programs=0
for path in "$bin"/*; do
  name=${path##*/}
  [ -f "$path" ] && [ -x "$path" ] && [[ $name != *.* ]] || continue
  programs=$((programs + 1))
  run "$path" --help; expect_status 0; expect_output "--version"
  run "$path" --version; expect_status 0
  [[ $output == "$name (thinwire) $version, "* ]] || fail "$name --version says: $output"
  run "$path" --frobnicate; expect_status 2; expect_output "$name --help"
done
[ "$programs" -ge 20 ] || fail "$bin has $programs programs"
expect_equal "$(ls)" "" "what they left in the folder they were started in"

finish
