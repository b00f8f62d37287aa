#!/usr/bin/env bash
# labels: unit
# timeout: 60
# needs: wordpiece
# The program wordpiece: learns the same vocabulary twice, encodes with it, and refuses in one line, leaving nothing half-written.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../../.." && pwd)
. "$root/tests/support/shell.sh"
wordpiece=${THINWIRE_BIN_DIR:-$root/build/bin}/wordpiece
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for i in $(seq 20); do echo "Unaffable people are affable; the naïve ones, too: number $i."; done >"$work/text"

property "a vocabulary is learnt from a text, the same each time"
run "$wordpiece" learn --text "$work/text" --size 60 --out "$work/a.txt"; expect_status 0; expect_output "60 pieces of"
run "$wordpiece" learn --text "$work/text" --size 60 --out "$work/b.txt"; expect_status 0
expect_equal "$(wc -l <"$work/a.txt")" 60 "number of pieces"
cmp -s "$work/a.txt" "$work/b.txt" || fail "two vocabularies of one text differ"

property "lines are encoded, a line each"
run "$wordpiece" encode --vocab "$work/a.txt" --pieces <<<$'people\n\nNUMBER 漢'; expect_status 0
expect_equal "$(tr -d ' #' <<<"$output")" $'people\n\nnumber[UNK]' "pieces"
run "$wordpiece" encode --vocab "$work/a.txt" <<<"漢"; expect_equal "$output" 1 "id of an unknown word"
run "$wordpiece" encode --vocab "$work/a.txt" --cased --pieces <<<"NUMBER"; expect_equal "$output" "[UNK]" "capitals when case is kept"

property "a text with too few pairs is said to have given fewer pieces"
run "$wordpiece" learn --text "$work/text" --size 5000 --out "$work/few.txt"; expect_status 0; expect_output "fewer than the 5000 asked for"

property "a vocabulary without [MASK] is refused with file, line and column"
grep -v MASK "$work/a.txt" >"$work/no_mask.txt"
run "$wordpiece" encode --vocab "$work/no_mask.txt" <<<"people"; expect_status 6; expect_output "no_mask.txt:60:1: the vocabulary ends without the piece [MASK]"

property "what cannot be is refused, and no file is left"
run "$wordpiece" learn --text "$work/text" --size 8 --out "$work/none.txt"; expect_status 2; expect_output "no room"
run "$wordpiece" learn --text "$work/nowhere" --out "$work/none.txt"; expect_status 3; expect_output "nowhere"
run "$wordpiece" learn --text "$work/text" --size 60 --out "$work/nowhere/none.txt"; expect_status 3
run "$wordpiece" learn --text "$work/text" --size few --out "$work/none.txt"; expect_status 2
expect_equal "$(cd "$work" && ls | tr '\n' ' ')" "a.txt b.txt few.txt no_mask.txt text " "files"
finish
