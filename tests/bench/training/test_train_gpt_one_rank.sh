#!/usr/bin/env bash
# labels: mpi
# timeout: 180
# needs: train_gpt
# A pipeline's coded boundaries in one process, and runs that start from a state which their cell names.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/train_gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 60 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }
for i in $(seq 400); do echo "line $i of a text: $((i * 7919 % 1000)) tokens, $((i * 104729 % 997)) more"; done >"$work/text.txt"
small=(--hidden 32 --layers 4 --heads 2 --seq 32 --micro-batch 2 --global-batch 16 --eval-sequences 16 --text "$work/text.txt" --learning-rate 0.01 --warmup 2
  --comm-dtype f32)
rule=(--compress.pp_backward powersgd:rank=2+lep --compress.pp_backward.epilogue_only true)
loss_of() { grep -oE 'validation loss +[0-9.]+' <<<"$1" | grep -oE '[0-9.]+$'; }

property "one rank with boundaries of four stages ends where four ranks end, and sends what they send"
run ranks 4 --pp 4 "${small[@]}" --steps 6 "${rule[@]}" --out "$work/four"
expect_status 0
four=$(loss_of "$output")
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6 "${rule[@]}" --out "$work/one"
expect_status 0
expect_equal "$(loss_of "$output")" "$four" "validation loss"
[[ $output == *"no such traffic"* ]] && fail "a warning that nothing is compressed"
/usr/bin/python3 - "$work" <<'PY' || fail "the records differ"
import glob, sys
try:
    import h5py
except ImportError:
    sys.exit(0)
def sent(folder):
    (record,) = glob.glob(f"{sys.argv[1]}/{folder}/cells/*.h5")
    with h5py.File(record) as file:
        losses = list(file["training_curve"][:]["loss"])
        return losses, {t["codec"].decode(): (int(t["operations"]), int(t["link_bytes"])) for t in file["training_traffic"][:] if t["traffic"] == b"pp_backward"}
four, one = sent("four"), sent("one")
assert len(one[1]) == 2, one
assert four == one, (four, one)
PY

property "what one rank cannot repeat is refused before anything starts"
run "$program" --boundary-stages 4 --pp 4 "${small[@]}" --steps 6
expect_status 2
expect_output "--boundary-stages 4"
run "$program" --boundary-stages 4 "${small[@]}" --steps 6 --compress.pp_forward quantize:bits=4
expect_status 2
expect_output "compress.pp_forward"

property "a dense checkpoint starts a run under other rules, which says the state that it started from"
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 3 --schedule-steps 6 --checkpoint "$work/dense.h5"
expect_status 0
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6 "${rule[@]}" --resume "$work/dense.h5" --codec-state reset --out "$work/forked"
expect_status 0
forked=$(loss_of "$output")
content=$(grep -hoE 'state [0-9a-f]{64}' "$work"/forked/journal/*.jsonl | head -1 | cut -d' ' -f2)
expect_equal "${#content}" 64 "digits of the state's hash"
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6 "${rule[@]}" --compress.pp_backward.warmup_steps 3
expect_status 0
expect_equal "$(loss_of "$output")" "$forked" "validation loss of the rule with a warm-up until there"

property "another state than the one that is named is refused"
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6 "${rule[@]}" --resume "$work/dense.h5" --codec-state reset --resume-sha256 "${content//[0-9]/a}"
expect_status 2
expect_output "$content"
run "$program" "${small[@]}" --steps 6 --resume-sha256 "$content"
expect_status 2

property "a cell of a sweep names the state that it starts from"
mkdir -p "$work/sweep"
launch() { # EXTRA PARAMETERS
  cat >"$work/launch.json" <<JSON
{"schema": 1, "launch": "0001", "out": "$work/sweep", "resume": "$work/sweep/resume", "cells": [{"cell_id": "$(printf 'c%.0s' {1..64})", "parameters": {
  "boundary-stages": 4, "hidden": 32, "layers": 4, "heads": 2, "seq": 32, "micro-batch": 2, "global-batch": 16, "eval-sequences": 16, "text": "$work/text.txt",
  "learning-rate": 0.01, "warmup": 2, "comm-dtype": "f32", "steps": 6, "compress.pp_backward": "powersgd:rank=2+lep", "compress.pp_backward.epilogue_only": true,
  "resume": "$work/dense.h5", "codec-state": "reset"$1}}]}
JSON
}
launch ""
run ranks 1 --cells "$work/launch.json"
grep -q "resume-sha256 = .*$content" "$work"/sweep/journal/*.jsonl || fail "the journal does not ask for the state: $output"
launch ", \"resume-sha256\": \"$content\""
run ranks 1 --cells "$work/launch.json"
expect_status 0
expect_equal "$(loss_of "$output")" "$forked" "validation loss of the cell"

property "steps before compression begins are trained once for all rules, and the runs are those with a warm-up until there"
cd "$work" || exit 1
shared() { run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6 --shared-start 3 "$@"; }
warm=(--compress.pp_backward.warmup_steps 3)
shared --out "$work/dense_first"
expect_status 0
dense=$(loss_of "$output")
expect_equal "$(ls shared_starts | wc -l)" 1 "states that are kept"
shared "${rule[@]}" "${warm[@]}" --out "$work/coded"
expect_status 0
expect_equal "$(loss_of "$output")" "$forked" "validation loss of the rule from the kept state"
expect_equal "$(ls shared_starts | wc -l)" 1 "states that are kept"
grep -q "began with the 3 shared steps" "$work"/coded/journal/*.jsonl || fail "the journal does not say where it began"
rm -r shared_starts
shared "${rule[@]}" "${warm[@]}"
expect_equal "$(loss_of "$output")" "$forked" "validation loss of the rule that trains the state itself"
shared
expect_equal "$(loss_of "$output")" "$dense" "validation loss of the dense run from another's state"
run ranks 1 --boundary-stages 4 "${small[@]}" --steps 6
expect_equal "$(loss_of "$output")" "$dense" "validation loss of the dense run that shares nothing"
shared --seed 2
expect_equal "$(ls shared_starts | wc -l)" 2 "states that are kept after another seed"
shared --form released
expect_equal "$(ls shared_starts | wc -l)" 3 "states that are kept after another form, which is no rule"
/usr/bin/python3 - "$work" <<'PY' || fail "a record holds shared steps"
import glob, sys
try:
    import h5py
except ImportError:
    sys.exit(0)
for folder in ("dense_first", "coded"):
    (record,) = glob.glob(f"{sys.argv[1]}/{folder}/cells/*.h5")
    with h5py.File(record) as file:
        assert list(file["training_curve"][:]["step"]) == [3, 4, 5], folder
PY

property "runs that begin at once may share a start, and another text is another start"
rm -rf shared_starts
cp "$work/text.txt" "$work/shared.txt"
together=("$program" --hidden 32 --layers 2 --heads 2 --seq 32 --micro-batch 2 --global-batch 4 --eval-sequences 4 --text "$work/shared.txt" --warmup 1 --steps 4 --shared-start 2)
"${together[@]}" --eval-interval 1 >"$work/beside.txt" 2>&1 &
beside=$!
run "${together[@]}"
expect_status 0
wait "$beside" || fail "the run beside it failed: $(cat "$work/beside.txt")"
expect_equal "$(ls shared_starts | wc -l)" 1 "files that are kept"
echo "one line more" >>"$work/shared.txt"
run "${together[@]}"
expect_status 0
expect_equal "$(ls shared_starts | wc -l)" 2 "states that are kept after another text"

property "data that no validation can be made of are refused before the first step"
head -c 2000 "$work/text.txt" >"$work/short.txt"
run "$program" --hidden 32 --layers 2 --heads 2 --seq 256 --micro-batch 1 --global-batch 4 --eval-sequences 4 --text "$work/short.txt" --warmup 1 --steps 3 --checkpoint "$work/short.h5"
expect_status 2
expect_output "the part that is left out for validation"
[[ $output == *"step 1"* ]] && fail "it trained first"

property "a link that does not exist is refused by every program"
run "$program" "${small[@]}" --steps 1 --link 100mbit
expect_status 2
expect_output "--link 100mbit is no link"

property "a validation loss that is not finite ends the run, and nothing of it is saved"
run "$program" --hidden 32 --layers 2 --heads 2 --seq 32 --micro-batch 2 --global-batch 4 --eval-sequences 4 --text "$work/text.txt" --steps 1 --warmup 0 --optimizer sgd:momentum=0 --learning-rate 1e20 \
  --clip 1e30 --checkpoint "$work/wild.h5"
expect_status 6
expect_output "Training diverged: The validation loss after 1 steps is not finite"
expect_output "No checkpoint was written yet"
[ ! -e "$work/wild.h5" ] || fail "a diverged state was saved"

property "a rule whose class has nobody to talk to is warned of"
run "$program" "${small[@]}" --steps 1 --optimizer adamw+diloco:inner_steps=2 --compress.outer_gradient topk:fraction=0.1
expect_output "compress.outer_gradient = topk:fraction=0.1: a mesh of"
run ranks 2 --tp 2 "${small[@]}" --steps 1 --optimizer muon --compress.optimizer group:bits=4
expect_status 0
[[ $output == *"no such traffic"* ]] && fail "a warning of traffic that there is"

property "a model that has no room for the tokens of its data is refused before it begins"
run "$program" --model bert:task=pretraining --data masked_text --text "$work/text.txt" --hidden 32 --layers 1 --heads 2 --seq 32 --steps 1
expect_status 2
expect_output "--vocab 259"

property "shared steps that a rule would change are refused"
shared "${rule[@]}"
expect_status 2
expect_output "warmup_steps"
finish
