#!/usr/bin/env bash
# labels: unit
# A test program that holds several sources runs, by the name of one, the tests of that source and no others, and every test is reached by a name. Of one program, the one
# of most sources: to start all of them takes half a minute.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
tests=${THINWIRE_BUILD_DIR:?run by ctest}/tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
links=$(find "$tests" -maxdepth 1 -type l -name '*test_*' | sort)
[ -n "$links" ] || skip "nothing is joined in this build (THINWIRE_UNITY=OFF)"
# Full names of the tests that a program lists.
listed() { "$@" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^  / { print suite $1 }' | sort; }

property "the sources of a joined program share its tests among them, and each has those that it says"
program=$(for link in $links; do readlink "$link"; done | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
for link in $links; do
  [ "$(readlink "$link")" = "$program" ] || continue
  listed "$link" >"$work/part"
  cat "$work/part" >>"$work/parts"
  source=$root/tests/$(basename "$link" | tr . /).cpp
  for name in $(grep -oE '^TEST(_F)?\([A-Za-z0-9_]+, *[A-Za-z0-9_]+' "$source" | sed -E 's/^TEST(_F)?\(//; s/, */./'); do
    grep -qx "$name" "$work/part" || fail "$(basename "$link") does not run $name"
  done
done
expect_equal "$(listed "$tests/$program")" "$(sort "$work/parts")" "the tests of $program"

property "a filter chooses among the tests of the source"
link=$(head -n 1 <<<"$links")
first=$(listed "$link" | head -n 1) all=$(listed "$link" | wc -l)
expect_equal "$(listed "$link" --gtest_filter="$first")" "$first"
expect_equal "$(listed "$link" --gtest_filter="-$first" | wc -l)" $((all - 1))
expect_equal "$(listed "$link" --gtest_filter="${first%.*}.*:Nothing.*" | grep -cx "$first")" 1
expect_equal "$(listed "$link" --gtest_filter=Nothing.AtAll)" ""

property "a link whose source is not in the program says so"
ln -s "$(readlink -f "$link")" "$work/core.test_of_another_day"
run "$work/core.test_of_another_day"
[ "$status" != 0 ] || fail "it passed"
expect_output "test_of_another_day"; expect_output "build it anew"
finish
