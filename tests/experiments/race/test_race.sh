#!/usr/bin/env bash
# labels: faults
# timeout: 600
# processors: 1
# first: yes
# needs: race, sweep, train_gpt
# The race from the outside: it ends with a leaderboard, a second call measures nothing, one that was killed goes on, also in another folder, an entrant that joins repeats nobody's runs, a link that was SKIPPED
# is measured once it is there, and a course that was changed under a registered target is refused.
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
rates = [0.03, 0.1] # one beyond the second is worse, and the search ends: every rate is a launch, and is looked up by every later call
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
# launched FOLDER true|false: ids of the timed cells, or of the others, that were launched there
launched() {
  python3 - "$2" "$1"/launches/*.json <<'P'
import json, sys
cells = [cell for path in sys.argv[2:] for cell in json.load(open(path))["cells"]]
print("\n".join(cell["cell_id"] for cell in cells if str(cell["parameters"].get("resume", "")).startswith("kept:") == (sys.argv[1] == "true")))
P
}

property "a race ends with a table and files"
run "$race" plan "$work/course.toml"
expect_status 0
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 0
expect_output "place  entrant"
for file in race.json race.h5 registered.json; do [ -s "$work/out/$file" ] || fail "no $file"; done
grep -q '"curve": \[' "$work/out/race.json" || fail "no curve in race.json"

property "timed runs begin with the state of the race run's middle, which is removed in the end"
grep -rhq '"keep-at": 4' "$work/out/launches" || fail "no loss run was to keep its state after half of 8 steps"
grep -rhq '"resume": "kept:' "$work/out/launches" || fail "no timed cell begins with it"
grep -rhq 'resumed from .*kept.h5 (step 4)' "$work/out/journal" || fail "nothing was resumed"
[ -z "$(find "$work/out" -name '*.kept.h5')" ] || fail "a state is left"
first=$(cells)
# Two rates over half a horizon and more beyond the better one, two over the whole, one seed, one timed.
[ "$(echo "$first" | wc -l)" -ge 7 ] || fail "only these cells: $first"

property "a second call measures nothing and registers nothing"
registered=$(cat "$work/out/registered.json")
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 0
expect_equal "$(cells)" "$first" "the folder of cells"
expect_equal "$(cat "$work/out/registered.json")" "$registered" "what was registered"

property "a race goes on in another folder from what was collected, to the target that was registered"
run "$THINWIRE_BIN_DIR/sweep" collect --out "$work/out"
expect_status 0
mkdir "$work/kept"
cp "$work/out/collected.h5" "$work/out/registered.json" "$work/kept"
run "$race" run "$work/course.toml" --begin-with "$work/kept/collected.h5" --out "$work/third"
expect_status 0
expect_equal "$(find "$work/third/launches" -name '*.json' 2>/dev/null | wc -l)" 0 "launches, where all cells were there"
expect_equal "$(cat "$work/third/registered.json")" "$registered" "what was registered"
expect_equal "$(cat "$work/third/race.json")" "$(cat "$work/out/race.json")" "the standings"
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --begin-with "$work/kept/collected.h5" --out "$work/fourth"
expect_status 0
expect_output "8 bits"
for cell in $(find "$work/out/cells" -name '*.h5' -printf '%f\n'); do
  ! grep -rq "${cell%.h5}" "$work/fourth/launches" || fail "cell $cell was measured again"
done

property "an entrant that joins is timed together with all others where --time-anew asks for it, and no training is repeated"
run "$race" run "$work/course.toml" --time-anew --out "$work/fifth"
expect_status 2
anew() { run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --begin-with "$work/kept/collected.h5" --time-anew --out "$work/fifth"; }
anew
expect_status 0
timed=$(launched "$work/out" true)
[ -n "$timed" ] || fail "the first race timed nothing"
for cell in $timed; do
  [[ $(launched "$work/fifth" true) == *"$cell"* ]] || fail "timed cell $cell was not measured again"
done
for cell in $(launched "$work/out" false); do
  [[ $(launched "$work/fifth" false) != *"$cell"* ]] || fail "training $cell was repeated"
done
launches=$(ls "$work/fifth/launches")
anew
expect_status 0
expect_equal "$(ls "$work/fifth/launches")" "$launches" "the launches: what was timed anew is not timed again"

property "so it is from a file whose cells were timed anew themselves, which holds halves of trainings without the states that they left"
run "$THINWIRE_BIN_DIR/sweep" collect --out "$work/fifth"
expect_status 0
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --begin-with "$work/fifth/collected.h5" --time-anew --out "$work/sixth"
expect_status 0
expect_equal "$(launched "$work/sixth" true | sort -u)" "$(launched "$work/fifth" true | sort -u)" "what was timed, however often"

property "a timed cell that is lost is measured again from the same middle, made anew"
before=$(cells)
timed=$(launched "$work/out" true | head -1)
rm "$work/out/cells/$timed.h5" || fail "no timed cell found"
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 0
[ -s "$work/out/cells/$timed.h5" ] || fail "it was not measured again"
expect_equal "$(cells | wc -l)" $(($(echo "$before" | wc -l) + 1)) "cells, and half a run"
[ -z "$(find "$work/out" -name '*.kept.h5')" ] || fail "a state is left"
first=$(cells)

property "a link that was SKIPPED is measured once it is there, from the same middle"
cp -r "$work/out" "$work/two"
cat > "$work/lab.sh" <<T
[ -e "$work/plugged" ] || { echo "SKIPPED: no such link here" >&2; exit 3; }
while [ "\$1" != -- ]; do [ "\$1" = --ranks ] && ranks=\$2; shift; done
shift
exec mpirun --oversubscribe --bind-to none -n "\$ranks" "\$@"
T
sed 's/^links = .*/links = ["emulated:1gbit,latency=20us", "netns:1gbit"]/' "$work/course.toml" > "$work/two_links.toml"
run "$race" run "$work/two_links.toml" --out "$work/two" --lab "$work/lab.sh"
expect_status 0
expect_output "no step time"
[ -z "$(find "$work/two" -name '*.kept.h5')" ] || fail "a state is left"
touch "$work/plugged"
run "$race" run "$work/two_links.toml" --out "$work/two" --lab "$work/lab.sh"
expect_status 0
[[ $output != *"no step time"* ]] || fail "it was not measured: $output"

property "an entrant that joins repeats nobody's runs"
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/out"
expect_status 0
expect_output "8 bits"
joined=$(cells)
while IFS= read -r cell; do [[ $joined == *"$cell"* ]] || fail "cell $cell was measured again"; done <<<"$first"

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
ended=$(cells)
while IFS= read -r cell; do [[ $ended == *"${cell%% *}"* ]] || fail "cell $cell is missing in the end"; done <<<"$joined"

property "an entrant that never arrives is timed from the middle of its longest run"
cat > "$work/never.toml" <<'T'
[[entrant]]
name = "never"
settings = {epsilon = 1000000}
T
run "$race" run "$work/course.toml" --entrants "$work/never.toml" --out "$work/out"
expect_status 0
expect_output "not within 1 horizons"
[[ $output != *"timed from its initial weights"* ]] || fail "it began anew: $output"
[ -z "$(find "$work/out" -name '*.kept.h5')" ] || fail "a state is left"

property "a text of one's own takes the place of the course's by one flag, and a target that the course states goes with the old text"
for ((i = 0; i < 4000; ++i)); do echo "line $((i * 7919 % 10007)) of a text of one's own"; done > "$work/own.txt"
sed 's/^horizon = 8/horizon = 8\ntarget = 0.5\ndescription = "tiny GPT"/' "$work/course.toml" > "$work/stated.toml"
run "$race" run "$work/stated.toml" --text "$work/own.txt" --out "$work/own"
expect_status 0
python3 - "$work/own" "$(sha256sum < "$work/own.txt" | cut -d' ' -f1)" <<'P' || fail "not all runs are of that text: $output"
import glob, json, sys
cells = [cell["parameters"] for path in glob.glob(sys.argv[1] + "/launches/*.json") for cell in json.load(open(path))["cells"]]
assert cells and all(cell["text"].endswith("/own.txt") and cell["data-sha256"] == sys.argv[2] for cell in cells), cells
race = json.load(open(sys.argv[1] + "/race.json"))
assert race["registered"]["target"] != 0.5, race["registered"]
assert all(s["description"].startswith("tiny GPT; not on that text, but on /") for s in race["standings"]), race["standings"]
P

property "a race does not go on over a text that changed, and a text that is not there is named"
echo "and one line more" >> "$work/own.txt"
run "$race" run "$work/stated.toml" --text "$work/own.txt" --out "$work/own"
expect_status 2
expect_output "registered a target"
run "$race" plan "$work/stated.toml" --text "$work/nowhere"
expect_status 3
expect_output "$work/nowhere"

property "a baseline that is tuned to another rate than the registered one is refused"
cp "$work/out/registered.json" "$work/registered.json"
sed -i 's/"learning_rate": .*,/"learning_rate": 0.5,/' "$work/out/registered.json"
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 2
expect_output "race in another folder"
cp "$work/registered.json" "$work/out/registered.json"

property "a course that changed under its target is refused"
sed -i 's/horizon = 8/horizon = 16/' "$work/course.toml"
run "$race" run "$work/course.toml" --out "$work/out"
expect_status 2
expect_output "registered a target"

property "every course of ours can be planned, in minutes"
for course in "$THINWIRE_SOURCE_DIR"/experiments/race/courses/*.toml; do
  run "$race" plan "$course"
  expect_status 0
  expect_output "minutes of training"
done

property "an outer loop whose rounds end between validations is refused, and so is a timed model that is another"
cat > "$work/loop.toml" <<'T'
[[entrant]]
name = "loop"
settings = {optimizer = "adamw+diloco:inner_steps=3"}
T
run "$race" plan "$work/course.toml" --entrants "$work/loop.toml"
expect_status 2
expect_output "loop.toml:1: entrant loop: its replicas meet every 3 steps"
sed '/compute = "timed"/s/hidden = 16/hidden = 32/' "$work/course.toml" > "$work/other.toml"
run "$race" plan "$work/other.toml"
expect_status 2
expect_output "midway = false"

property "mistakes name file and line"
echo 'name = "x"' >> "$work/mine.toml"
run "$race" run "$work/course.toml" --entrants "$work/mine.toml" --out "$work/new"
expect_status 2
expect_output "mine.toml:4"

finish
