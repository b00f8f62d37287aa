#!/usr/bin/env bash
# labels: unit
# timeout: 120
# processors: 1
# needs: claims, race, bench_gradient, train_gpt
# What keeps cells from starting ends the command with its own exit code: no verdict is made of it, and what is kept stays. Nothing is measured here.
set -u
. "$(dirname -- "${BASH_SOURCE[0]}")/../../support/shell.sh"
claims=$THINWIRE_BIN_DIR/claims race=$THINWIRE_BIN_DIR/race
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arithmetic=optimus_cc.C7 measured=gradient_compression.C16a  # the second asks for cells of bench_gradient
kept() { python3 -c 'import json, sys; print(*[c["id"] + " " + c["verdict"] for c in json.load(open(sys.argv[1]))["claims"]])' "$work/out/claims.json"; }
# As another runner does: the lock, and who holds it.
lock() { mkdir -p "$1"; exec 9>"$1/.lock"; flock -n 9 || fail "$1 is locked"; echo $$ >&9; }
unlock() { exec 9>&-; }

property "another runner in the folder: 3, and what was judged before it was found stays"
lock "$work/out"
run "$claims" run $arithmetic $measured --profile quick --out "$work/out"
unlock
expect_status 3
expect_output "another sweep (process $$) is running in $work/out"
expect_equal "$(kept)" "$arithmetic PASS" "what is kept"

property "a program that is missing: 3, and the kept verdict of that claim stays"
sed -i "s/\"$arithmetic\"/\"$measured\"/" "$work/out/claims.json"
before=$(cat "$work/out/claims.json")
mkdir "$work/bin"
run "$claims" run $measured --profile quick --out "$work/out" --bin "$work/bin"
expect_status 3
expect_output "bench_gradient: no such program"
expect_equal "$(cat "$work/out/claims.json")" "$before" "claims.json"

property "an id that no claim has: 2, and no folder is left"
run "$claims" run $arithmetic optimus_cc.C700 --profile quick --out "$work/none"
expect_status 2
expect_output "no claim"
[ ! -e "$work/none" ] || fail "it made $(find "$work/none")"

property "a word that says nothing about another build: 2, of a plan as of a run"
for command in run plan; do
  run "$claims" $command $measured --profile quick --out "$work/out" --if-code-changed perhaps
  expect_status 2
  expect_output "keep, redo or error"
done

property "another runner in a race's folder: 3"
# A course whose target its baseline sets, by cells.
lock "$work/race"
run "$race" run "$THINWIRE_SOURCE_DIR/experiments/race/courses/pipeline.toml" --out "$work/race"
unlock
expect_status 3
expect_output "another sweep (process $$) is running in $work/race"
[ ! -e "$work/race/registered.json" ] || fail "a target was registered"

finish
