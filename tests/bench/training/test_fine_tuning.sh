#!/usr/bin/env bash
# labels: mpi
# timeout: 240
# needs: train_gpt
# One command fine-tunes a checkpoint of Hugging Face's layout on a task of GLUE's: it learns, on one rank and on four alike, goes on where it stopped, and says of
# bad input which file and line.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/train_gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 300 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }
mkdir "$work/bert" "$work/glue"
python3 "$root/tests/models/bert/make_hugging_face.py" "$work/bert" || fail "no checkpoint"
python3 "$root/tests/models/tasks/make_small_glue.py" "$work/glue" || fail "no task"
mv "$work/glue/vocab.txt" "$work/bert/"
sizes=(--seq 8 --global-batch 16 --learning-rate 0.01 --warmup 2)
tune=(--from "$work/bert" --text "$work/glue" "${sizes[@]}")
rte=(--model bert:task=classification --data task:name=rte)
# Loss and metrics of the last validation.
validated() { grep -E '^validation' <<<"$1" | sed -E 's/ per sample.*//'; }

property "a few steps learn the task: right on nearly all rows of dev, where the commoner label is right on little more than half"
run ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 30 --dtype f64 --out "$work/one"
expect_status 0
expect_output "head.classifier.weight head.classifier.bias"
expect_output "judged on 37 of dev.tsv"
one=$(validated "$output")
accuracy=$(grep -oE 'validation accuracy +[0-9.]+' <<<"$one" | grep -oE '[0-9.]+$')
awk -v a="${accuracy:-0}" 'BEGIN {exit !(a > 0.85)}' || fail "accuracy $accuracy"

property "four ranks say the same"
run ranks 4 "${tune[@]}" "${rte[@]}" --tp 2 --pp 2 --micro-batch 2 --steps 30 --dtype f64 --out "$work/four"
expect_status 0
expect_equal "$(validated "$output")" "$one" "what tp 2 x pp 2 validates"
run ranks 4 "${tune[@]}" "${rte[@]}" --dp 2 --pp 2 --micro-batch 4 --steps 30 --dtype f64
expect_status 0
expect_equal "$(validated "$output")" "$one" "what dp 2 x pp 2 validates"
/usr/bin/python3 - "$work" <<'PY' || fail "the records lack the metrics, or they differ"
import glob, sys
try:
    import h5py
except ImportError:
    sys.exit(0)
def metrics(folder):
    (record,) = glob.glob(f"{sys.argv[1]}/{folder}/cells/*.h5")
    with h5py.File(record) as file:
        losses = file["training_curve"][:]["loss"]
        assert losses[-5:].mean() < 0.7 * losses[:5].mean(), losses
        return [(m["metric"].decode(), int(m["step"]), float(m["value"])) for m in file["training_metrics"][:]]
one, four = metrics("one"), metrics("four")
assert [m[:2] for m in one] == [("accuracy", 29)], one
assert one == four, (one, four)
PY

property "two files to be judged on, and scores"
run ranks 1 "${tune[@]}" --model bert:task=classification,classes=3 --data task:name=mnli --micro-batch 16 --steps 2
expect_status 0
expect_output "validation dev_matched.accuracy"
expect_output "validation dev_mismatched.accuracy"
run ranks 1 "${tune[@]}" --model bert:task=regression --data task:name=stsb --micro-batch 16 --steps 2
expect_status 0
expect_output "validation pearson"
expect_output "validation spearman"

property "resumed inside an epoch, bit by bit as if it had not stopped"
run ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 8 --checkpoint "$work/straight.h5"
expect_status 0
run ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 3 --schedule-steps 8 --checkpoint "$work/half.h5"
expect_status 0
run ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 8 --resume "$work/half.h5" --checkpoint "$work/resumed.h5"
expect_status 0
state_of() { ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 9 --resume "$1" 2>&1 | grep -oE 'state [0-9a-f]{64}'; }
straight=$(state_of "$work/straight.h5")
expect_equal "${#straight}" 70 "letters of the state's hash"
expect_equal "$(state_of "$work/resumed.h5")" "$straight" "state"

property "bad input ends the run before it begins: one message, which says where, and nothing on the disk"
refused() { # STATUS WORDS ARGUMENTS...
  local wanted=$1 words=$2
  shift 2
  run ranks "$@" --micro-batch 2 --steps 2 --checkpoint "$work/none.h5"
  expect_status "$wanted"
  expect_output "$words"
  expect_equal "$(grep -cE '^[0-9:.]+ error ' <<<"$output")" 1 "number of messages"
  [ ! -e "$work/none.h5" ] || fail "a checkpoint of nothing"
}
four=(4 --tp 2 --pp 2 "${sizes[@]}" "${rte[@]}")
bert=(--from "$work/bert") glue=(--text "$work/glue")
cp -r "$work/glue" "$work/bad"
sed -i '5s/\t[a-z_]*$/\tperhaps/' "$work/bad/RTE/dev.tsv"
refused 6 "$work/bad/RTE/dev.tsv:5:" "${four[@]}" "${bert[@]}" --text "$work/bad"
sed -i '1s/sentence2/second/' "$work/bad/RTE/train.tsv"
refused 6 "$work/bad/RTE/train.tsv:1:1: the column 'sentence2' is missing" "${four[@]}" "${bert[@]}" --text "$work/bad"
rm "$work/bad/RTE/train.tsv"
refused 3 "$work/bad/RTE/train.tsv" "${four[@]}" "${bert[@]}" --text "$work/bad"
tac "$work/bert/vocab.txt" >"$work/vocab.txt"
refused 2 "--vocabulary $work/vocab.txt is not the vocabulary that the model of --from was trained with, $work/bert/vocab.txt" "${four[@]}" "${bert[@]}" "${glue[@]}" --vocabulary "$work/vocab.txt"
cp -r "$work/bert" "$work/cut"
grep -v 'SEP' "$work/bert/vocab.txt" >"$work/cut/vocab.txt"
refused 6 "$work/cut/vocab.txt:23:1: the vocabulary ends without the piece [SEP]" "${four[@]}" "${glue[@]}" --from "$work/cut"
refused 2 "not the one that --data-sha256 feed names" "${four[@]}" "${bert[@]}" "${glue[@]}" --data-sha256 feed
data=$(grep -oE 'is of SHA-256 [0-9a-f]{64}' <<<"$output" | grep -oE '[0-9a-f]{64}$')
run ranks 1 "${tune[@]}" "${rte[@]}" --micro-batch 4 --steps 1 --data-sha256 "$data"
expect_status 0
refused 2 "config.json' has hidden_size = 12" "${four[@]}" "${bert[@]}" "${glue[@]}" --hidden 24
cp -r "$work/bert" "$work/other"
python3 - "$work/other/model.safetensors" <<'PY'
# The same bytes under a header that turns one matrix on its side.
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
header["bert.encoder.layer.1.output.dense.weight"]["shape"].reverse()
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
PY
refused 2 "$work/other/model.safetensors:bert.encoder.layer.1.output.dense.weight is 48 x 12" "${four[@]}" "${glue[@]}" --from "$work/other"
finish
