#!/usr/bin/env bash
# labels: mpi
# timeout: 60
# needs: bench_token_slices train_gpt
# bench_token_slices from the outside: what it measures, what it predicts, what it refuses; and train_gpt with slices.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/bench_token_slices
small=(--layers 1 --hidden 32 --heads 4 --seq 64 --granularity 8 --rounds 1 --stages 4)

property "slices of every length and context are measured, forward and backward"
out=$("$program" "${small[@]}" --json - 2>/dev/null) || fail "bench_token_slices ended with $?"
for operation in "forward after 0" "backward after 0" "forward after 32" optimizer; do
  grep -q "\"operation\": *\"$operation\"" <<<"$out" || fail "no row '$operation'"
done
# 8 lengths without a context, and 8 after 8, 16, 32, 48, 56, 16 after 16, 32, 48, 32 after 16 and 32; each forward and backward; the optimizer.
rows=$(grep -c '"operation"' <<<"$out")
[ "$rows" -eq $((2 * (8 + 5 + 3 + 2) + 1)) ] || fail "$rows rows"

property "the best slices take no longer than equal ones, by the same times"
text=$("$program" "${small[@]}" 2>/dev/null)
best=$(awk '$1 == "best" {print $2}' <<<"$text")
awk -v best="$best" '($1 == "equal" || $1 == "whole") && $2 < best - 0.011 {exit 1}' <<<"$text" || fail "an equal cut is better than the best: $text"

property "a granularity that does not divide is refused with both numbers"
run "$program" --seq 100 --granularity 32
expect_status 2
expect_output "100 is no multiple of --granularity 32"

property "train_gpt takes slices, chooses the schedule for them, and refuses what does not fit"
config=$("$THINWIRE_BIN_DIR/train_gpt" --token-slices 32,16,16 --seq 64 --print-config 2>/dev/null) || fail "train_gpt --print-config ended with $?"
grep -q 'schedule = "terapipe"' <<<"$config" && grep -q 'token_slices = "32,16,16"' <<<"$config" || fail "$config"
run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$THINWIRE_BIN_DIR/train_gpt" --pp 2 --token-slices 4 --hidden 16 --layers 2 --heads 2 --seq 16 --global-batch 2 \
  --steps 1 --eval-sequences 2
expect_status 0 # as the README types it: no schedule given
run "$THINWIRE_BIN_DIR/train_gpt" --token-slices 4 --schedule 1f1b --print-config
expect_status 2
expect_output "use schedule terapipe"
finish
