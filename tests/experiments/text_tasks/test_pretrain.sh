#!/usr/bin/env bash
# labels: resume
# timeout: 900
# processors: 1
# needs: train_gpt wordpiece export_model
# experiments/text_tasks/pretrain.sh on a made-up text: killed in the middle it goes on and ends as if it had not been; what it exports is the model that it trained, on one rank and
# split; a task is fine-tuned from it; bad input leaves nothing half-written.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
bin=${THINWIRE_BIN_DIR:?run by ctest}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 60 mpirun --oversubscribe --bind-to none -n "$n" "$bin/train_gpt" "$@"; }
mkdir "$work/glue"
python3 "$root/tests/models/tasks/make_small_glue.py" "$work/glue" || fail "no task"
python3 - "$work/text.txt" <<'PY'
import random, sys
draw = random.Random(3)
with open(sys.argv[1], "w") as file:
    for _ in range(1500):
        file.write(f"{draw.choice(['the', 'a'])} {draw.choice(['cat', 'dog', 'fox', 'hen'])} {draw.choice(['runs', 'sits', 'is'])} {draw.choice(['good', 'warm', 'red', 'bad', 'cold', 'blue', 'big'])}.\n")
PY
cat >"$work/recipe.toml" <<'TOML'
[model]
kind = "bert:task=pretraining"
hidden = 16
layers = 2
heads = 2
[data]
kind = "masked_text:tokens=pieces"
[batch]
global = 16
micro = 8
seq = 16
[train]
steps = 60
learning_rate = 0.01
warmup = 5
[checkpoint]
interval = 1
TOML
pretrain() { local out=$1; shift; timeout 200 "$root/experiments/text_tasks/pretrain.sh" --out "$out" --text "$work/text.txt" --pieces 60 --config "$work/recipe.toml" "$@"; }
validated() { grep -E '^validation' <<<"$1"; }

property "one command: vocabulary, training, a folder of Hugging Face's layout"
run pretrain "$work/straight"
expect_status 0
straight=$output
for file in vocab.txt pretrained.h5 bert/config.json bert/model.safetensors bert/vocab.txt; do [ -s "$work/straight/$file" ] || fail "no $file"; done
cmp "$work/straight/vocab.txt" "$work/straight/bert/vocab.txt" || fail "another vocabulary"
[ ! -e "$work/straight/bert.partial" ] || fail "half a folder remains"

property "again: nothing is left to do, and nothing changes"
before=$(stat -c %y "$work/straight/pretrained.h5" "$work/straight/bert/model.safetensors")
run pretrain "$work/straight"
expect_status 0
expect_equal "$(stat -c %y "$work/straight/pretrained.h5" "$work/straight/bert/model.safetensors")" "$before" "time of the files"

property "a model that is there is not taken for one of other options"
run pretrain "$work/straight" --learning-rate 0.02
expect_status 2
expect_output "was pre-trained by --ranks 1 --config recipe.toml, not by --ranks 1 --config recipe.toml --learning-rate 0.02"
expect_equal "$(stat -c %y "$work/straight/pretrained.h5" "$work/straight/bert/model.safetensors")" "$before" "time of the files"

property "ended behind its last checkpoint, only the folder is left to be written"
cp -r "$work/straight" "$work/unwritten"
rm -r "$work/unwritten/bert"
run pretrain "$work/unwritten"
expect_status 0
expect_output "goes on after step 60 of 60"
cmp "$work/straight/pretrained.h5" "$work/unwritten/pretrained.h5" || fail "trained again"
cmp "$work/straight/bert/model.safetensors" "$work/unwritten/bert/model.safetensors" || fail "other weights"

property "a folder in which another run is at work is refused; what a dead one left is waited for"
mkdir "$work/taken"
exec 8>"$work/taken/lock"
flock -n 8 || fail "the folder is locked"
echo $$ >"$work/taken/lock"
run pretrain "$work/taken" 8>&-
expect_status 3
expect_output "another pretrain.sh (process $$) works in $work/taken"
(sleep 1) 8>&- & # its number is that of nobody when it has ended
gone=$!
wait $gone
echo $gone >"$work/taken/lock"
pretrain "$work/taken" --steps 2 8>&- >"$work/taken.log" 2>&1 &
waiting=$!
sleep 1
[ ! -e "$work/taken/vocab.txt" ] || fail "it did not wait for the lock"
exec 8>&-
wait $waiting || fail "it did not go on: $(cat "$work/taken.log")"
[ -s "$work/taken/bert/model.safetensors" ] || fail "no model"

property "on ranks, from a shell that knows nothing of MPI"
bare_pretrain() { (unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_mpi_yield_when_idle HDF5_USE_FILE_LOCKING OMP_NUM_THREADS; pretrain "$@"); }
run bare_pretrain "$work/ranks" --ranks 2 --pp 2 --steps 3
expect_status 0
[ -s "$work/ranks/bert/model.safetensors" ] || fail "no model"

property "killed in the middle it goes on, bit by bit as if it had not been"
(exec setsid "$root/experiments/text_tasks/pretrain.sh" --out "$work/killed" --text "$work/text.txt" --pieces 60 --config "$work/recipe.toml" >"$work/killed.log" 2>&1) &
group=$!
# The interval of 1 leaves a checkpoint after each step.
eventually 60 test -e "$work/killed/pretrained.h5" || fail "no checkpoint: $(cat "$work/killed.log")"
kill -KILL -- "-$group" 2>/dev/null
wait "$group" 2>/dev/null
run pretrain "$work/killed"
expect_status 0
# On a fast machine it may have been through already; then this is the same as above.
cmp "$work/straight/bert/model.safetensors" "$work/killed/bert/model.safetensors" || fail "other weights"

property "stopped by its steps it goes on with more of them"
run pretrain "$work/later" --steps 20 --schedule-steps 60
expect_status 0
rm -r "$work/later/bert"
run pretrain "$work/later"
expect_status 0
expect_output "goes on after step 20 of 60"
cmp "$work/straight/bert/model.safetensors" "$work/later/bert/model.safetensors" || fail "other weights"

property "what was exported is the model that was trained: the same validation, whole and split"
same=(--model bert:task=pretraining --data masked_text:tokens=pieces --text "$work/text.txt" --global-batch 16 --micro-batch 8 --seq 16 --steps 1 --learning-rate 1e-30 --min-lr 0)
wanted=$(validated "$straight")
expect_equal "$([ -n "$wanted" ] && echo some)" some "validation of the pre-training"
run ranks 1 "${same[@]}" --from "$work/straight/bert"
expect_status 0
expect_equal "$(validated "$output")" "$wanted" "validation of what was exported"
run ranks 2 --pp 2 --comm-dtype f32 --model bert:task=pretraining --data masked_text:tokens=pieces --text "$work/text.txt" --vocabulary "$work/straight/vocab.txt" \
  --vocab "$(wc -l <"$work/straight/vocab.txt")" --hidden 16 --layers 2 --heads 2 --global-batch 16 --micro-batch 8 --seq 16 --steps 3 --checkpoint "$work/split.h5"
expect_status 0
split=$(validated "$output")
run "$bin/export_model" --checkpoint "$work/split.h5" --out "$work/split"
expect_status 0
expect_output "bert:task=pretraining after 3 steps"
run ranks 1 "${same[@]}" --from "$work/split"
expect_status 0
expect_equal "$(validated "$output")" "$split" "validation of what two ranks trained"

property "a task is fine-tuned from it"
run ranks 1 --from "$work/straight/bert" --model bert:task=classification --data task:name=rte --text "$work/glue" --seq 16 --global-batch 16 --micro-batch 8 --steps 20 --learning-rate 0.01 --warmup 2
expect_status 0
expect_output "head.classifier.weight head.classifier.bias"
expect_output "validation accuracy"

property "bad input: one message, and nothing half-written"
refused() { # STATUS WORDS COMMAND...
  local wanted=$1 words=$2
  shift 2
  run "$@"
  expect_status "$wanted"
  expect_output "$words"
}
refused 2 "'$work/straight/bert' exists already" "$bin/export_model" --checkpoint "$work/straight/pretrained.h5" --out "$work/straight/bert"
seq -f 'piece%g' 100 | cat <(printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n') - >"$work/long.txt"
refused 2 "has 105 pieces, the model's table" "$bin/export_model" --checkpoint "$work/straight/pretrained.h5" --out "$work/none" --vocabulary "$work/long.txt"
head -c 4000 "$work/straight/pretrained.h5" >"$work/cut.h5"
refused 6 "$work/cut.h5" "$bin/export_model" --checkpoint "$work/cut.h5" --out "$work/none"
refused 3 "$work/missing.h5" "$bin/export_model" --checkpoint "$work/missing.h5" --out "$work/none"
run ranks 1 --layers 1 --hidden 16 --heads 2 --seq 16 --global-batch 2 --steps 1 --text "$work/text.txt" --checkpoint "$work/gpt.h5"
expect_status 0
refused 2 "--model gpt" "$bin/export_model" --checkpoint "$work/gpt.h5" --out "$work/none"
refused 2 "--checkpoint is this script's own" pretrain "$work/none" --checkpoint x.h5
refused 3 "the text $work/nothing is not there" "$root/experiments/text_tasks/pretrain.sh" --out "$work/none" --text "$work/nothing"
run pretrain "$work/seeded" --steps 2
expect_status 0
rm -r "$work/seeded/bert"
refused 2 "seed is 1 there, 2 here" pretrain "$work/seeded" --steps 4 --seed 2
[ ! -e "$work/seeded/bert" ] || fail "a folder of what was refused"
ls "$work" | grep -E '^none|partial' && fail "something is left of what was refused"
finish
