#!/usr/bin/env bash
# labels: faults
# timeout: 300
# needs: race, train_gpt
# The race from the outside: it ends with a leaderboard, a second call measures nothing, one that was killed goes on, an entrant that joins repeats nobody's runs, and a course that
# was changed under a registered target is refused.
set -u
. "$(dirname -- "${BASH_SOURCE[0]}")/../../support/shell.sh"
race=$THINWIRE_BIN_DIR/race
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/course.toml" <<'T'
[race]
name = "tiny"
horizon = 8
longest = 1
validate_every = 2
rates = [0.003, 0.01]
tuning_seed = 5
seeds = [1]
links = ["emulated:1gbit,latency=20us"]
windows = 1
[loss]
parameters = {layers = 1, hidden = 16, heads = 2, seq = 16, micro-batch = 2, global-batch = 4, eval-sequences = 4}
[time]
ranks = 2
parameters = {dp = 2, layers = 1, hidden = 16, heads = 2, seq = 16, micro-batch = 2, global-batch = 4, compute = "timed", serial-steps = 1, steps = 3}
[[entrant]]
name = "dense"
T
cat > "$work/mine.toml" <<'T'
[[entrant]]
name = "8 bits"
settings = {"compress.dp_gradient" = "group:bits=8"}
T
cells() { find "$work/out/cells" -name '*.h5' -printf '%f %T@\n' | sort; }

property "a race ends with a table and files"
run "$race" plan "$work/course.toml"
expect_status 0
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 0
expect_output "place  entrant"
for file in race.json race.h5 registered.json; do [ -s "$work/out/$file" ] || fail "no $file"; done
first=$(cells)
# Two rates over half a horizon and more beyond the better one, two over the whole, one seed, one timed.
[ "$(echo "$first" | wc -l)" -ge 7 ] || fail "only these cells: $first"

property "a second call measures nothing and registers nothing"
registered=$(cat "$work/out/registered.json")
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 0
expect_equal "$(cells)" "$first" "the folder of cells"
expect_equal "$(cat "$work/out/registered.json")" "$registered" "what was registered"

property "an entrant that joins repeats nobody's runs"
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/out"
expect_status 0
expect_output "8 bits"
while IFS= read -r cell; do [[ $(cells) == *"$cell"* ]] || fail "cell $cell was measured again"; done <<<"$first"
joined=$(cells)

property "a race that was killed goes on"
rm "$work/out/race.json"
find "$work/out/cells" -name '*.h5' | sort | head -2 | xargs rm
"$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/out" >/dev/null 2>&1 &
killed=$!
at_work() { find "$work/out/launches" -newer "$work/out/registered.json" -name '*.json' | grep -q .; }
eventually 60 at_work || fail "no launch within 60 s"
kill -KILL $killed 2>/dev/null
wait $killed 2>/dev/null
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/out"
expect_status 0
expect_equal "$(cells | wc -l)" "$(echo "$joined" | wc -l)" "cells in the end"

property "a course that changed under its target is refused"
sed -i 's/horizon = 8/horizon = 16/' "$work/course.toml"
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 2
expect_output "registered a target"

property "mistakes name file and line"
echo 'name = "x"' >> "$work/mine.toml"
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/new"
expect_status 2
expect_output "mine.toml:4"

finish
