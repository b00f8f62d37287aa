#!/usr/bin/env bash
# labels: unit
# timeout: 60
# needs: sweep
# `sweep compare` as a script uses it: exit codes, files, messages. The numbers are tests/results/compare/test_compare.cpp's.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
sweep=${THINWIRE_BIN_DIR:-$root/build/bin}/sweep
reference=$root/results/reference/cpu-2-cores/quick.h5
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

property "a run against itself is the same in every cell that has samples, exit code 0"
run "$sweep" compare "$reference" "$reference" --html c.html --json c.json
expect_status 0
expect_output ' same'
[[ $output != *slower\ * ]] || fail "something is slower than itself"
/usr/bin/python3 - <<'CHECK' || fail "c.json says otherwise"
import json
cells = json.load(open("c.json"))["cells"]
assert len(cells) > 1000
assert {cell["verdict"] for cell in cells} <= {"same", "undecided"}
assert all(cell["note"].startswith("no samples") for cell in cells if cell["verdict"] == "undecided")
CHECK
grep -q '<title>thinwire comparison</title>' c.html || fail "no page"

property "two codecs of one run: the slower one makes exit code 1, and the other way round 0"
codecs=("$sweep" compare "$reference" "$reference" --ignore codec --run-spread 2 --where 'program=bench_activation and link=netns:100mbit and traffic=tp_forward')
run "${codecs[@]}" --where-a method=A1 --where-b method=none
expect_status 1
expect_output slower
run "${codecs[@]}" --where-a method=none --where-b method=A1
expect_status 0
expect_output faster

property "cells of one side only count where completeness is asked for"
run "$sweep" compare "$reference" "$reference" --where-b link=shm
expect_status 0
expect_output 'only in A'
run "$sweep" compare "$reference" "$reference" --where-b link=shm --complete
expect_status 1

property "wrong usage, missing and damaged files have their exit codes and names"
run "$sweep" compare "$reference"; expect_status 2
run "$sweep" compare "$reference" "$reference" --ignore codce; expect_status 2; expect_output codec
run "$sweep" compare "$reference" "$reference" --where 'lnk=shm'; expect_status 2; expect_output link
run "$sweep" compare "$reference" "$reference" --run-spread -1; expect_status 2
run "$sweep" compare "$reference" none.h5; expect_status 3; expect_output none.h5
head -c 100000 "$reference" >cut.h5
run "$sweep" compare "$reference" cut.h5; expect_status 6; expect_output cut.h5
run "$sweep" compare "$reference" "$reference" --html /nonexistent/c.html; expect_status 3; expect_output /nonexistent/c.html
finish
