#!/usr/bin/env bash
# labels: unit
# timeout: 60
# needs: text_tasks
# The program text_tasks: lists tasks, reads what is there, and ends with one line at what is wrong.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
text_tasks=${THINWIRE_BIN_DIR:-$root/build/bin}/text_tasks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/glue/CoLA" "$work/empty"
printf 'a\t1\t\tThe cat sat.\na\t1\t\tThe dog sat.\na\t0\t*\tSat cat the.\n' | tee "$work/glue/CoLA/train.tsv" >"$work/glue/CoLA/dev.tsv"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the sat . >"$work/vocab.txt"

property "tasks are listed with their metrics"
run "$text_tasks"; expect_status 0; expect_output "stsb_classes"; expect_output "[f1 accuracy f1_micro]"

property "the tasks that are there are read"
run "$text_tasks" --glue "$work/glue"; expect_status 0
expect_output "cola train.tsv: 3 rows, label 1 everywhere: matthews 0.0000"; expect_output "cola dev.tsv: 3 rows"
run "$text_tasks" --glue "$work/glue" --task cola --vocab "$work/vocab.txt"; expect_status 0; expect_output "ids 6.0 on average, 6 at most, 25.000 % unknown"

property "what is wrong is named"
run "$text_tasks" --glue "$work/empty"; expect_status 3; expect_output "holds the folder of no task"
run "$text_tasks" --glue "$work/glue" --task rte; expect_status 3; expect_output "RTE/train.tsv"
run "$text_tasks" --glue "$work/glue" --task rtee; expect_status 2; expect_output "there is no task 'rtee'"
run "$text_tasks" --task cola; expect_status 2
printf 'a\t7\t\tThe cat sat.\n' >"$work/glue/CoLA/dev.tsv"
run "$text_tasks" --glue "$work/glue"; expect_status 6; expect_output "CoLA/dev.tsv:1:3: the label '7'"
finish
