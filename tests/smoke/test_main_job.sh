#!/usr/bin/env bash
# labels: smoke
# timeout: 3600
# processors: 1
# first: yes
# needs: sweep
# The main job in its smallest profile, from captured traffic to the report, and a second run that finds it done.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out="$work/a folder" # with a space, as a user's home may have

property "the smoke profile runs to its end"
started=$SECONDS
"$root/run_all.sh" --profile smoke --skip-setup --out "$out" >"$work/first.log" 2>&1
status=$?
cat "$work/first.log"
expect_equal $status 0 "exit status"
[ $status = 0 ] || finish
first=$((SECONDS - started))

property "its results, figures and report can be read with plain h5py and a browser"
run /usr/bin/python3 "$root/tests/smoke/check_results.py" "$out"
expect_status 0
echo "$output"

property "it ends with the leaderboard and says where the report lies"
grep -q "^place  *entrant" <(sed 's/^ *//' "$work/first.log") || fail "the output lacks the leaderboard"
grep -qF "$out/report.html" "$work/first.log" || fail "the output lacks $out/report.html"

property "started again, it measures, captures and draws nothing anew"
before=$(find "$out/cells" "$out/race/cells" "$out/capture.h5" "$out/figures" "$out/report.html" -type f -printf '%p %T@ %s\n' | sort)
started=$SECONDS
run "$root/run_all.sh" --profile smoke --skip-setup --out "$out"
expect_status 0
after=$(find "$out/cells" "$out/race/cells" "$out/capture.h5" "$out/figures" "$out/report.html" -type f -printf '%p %T@ %s\n' | sort)
expect_equal "$after" "$before" "list of records"
echo "   first run $first s, second run $((SECONDS - started)) s"
finish
