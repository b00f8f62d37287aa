#!/usr/bin/env bash
# labels: mpi
# timeout: 900
# needs: train_gpt
# train_gpt from the outside: configuration, refusals, records, trace, timed compute, resuming, divergence.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/train_gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks() { local n=$1; shift; timeout 300 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }
# One line of a text that any machine has; long enough for sequences of 32 tokens.
for i in $(seq 400); do echo "line $i of a text: $((i * 7919 % 1000)) tokens, $((i * 104729 % 997)) more"; done >"$work/text.txt"
small=(--tp 2 --pp 2 --hidden 32 --layers 2 --heads 2 --seq 32 --global-batch 4 --eval-sequences 4 --text "$work/text.txt" --learning-rate 0.01 --warmup 2)
loss_of() { grep -oE 'validation loss +[0-9.]+' <<<"$1" | grep -oE '[0-9.]+$'; }

property "a printed configuration is the configuration"
run "$program" "${small[@]}" --compress.pp_forward quantize:bits=4 --print-config
expect_status 0
echo "$output" >"$work/run.toml"
run "$program" --config "$work/run.toml" --print-config
expect_equal "$output" "$(cat "$work/run.toml")" "the configuration read back"

property "the mesh and the memory of ranks are told without starting any"
run "$program" --config "$work/run.toml" --dp 2 --show-mesh --show-memory
expect_status 0
expect_output "dp: [0 4] [1 5] [2 6] [3 7]"
expect_output "optimizer"

property "a mesh that does not fit the launch says what to launch, once"
run ranks 2 --config "$work/run.toml"
expect_status 2
expect_output "mpirun -n 4"
expect_equal "$(grep -c 'needs 4 ranks' <<<"$output")" 1 "number of messages"

property "what any rank refuses is told, once, however slow the others are"
run timeout 300 mpirun --oversubscribe --bind-to none -n 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 0 ] || sleep 1; exec "$0" --hiden 3' "$program"
expect_status 2
expect_equal "$(grep -c 'did you mean --hidden' <<<"$output")" 1 "messages of three ranks that refuse the same, the first of them last"
run timeout 300 mpirun --oversubscribe --bind-to none -n 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] || set -- "$2"; exec "$0" --tp 3 --pp 1 --hidden 96 --heads 3 --config "$1"' "$program" "$work/none.toml" "$work/run.toml"
expect_status 3
expect_equal "$(grep -c "rank 1.*$work/none.toml" <<<"$output")" 1 "messages where one of three refuses"

property "contradictions are refused with both numbers"
run "$program" --layers 6 --pp 4
expect_status 2
expect_output "6 layers"
run "$program" --compress.control topk
expect_status 2
run "$program" --hiden 3
expect_status 2
expect_output "did you mean --hidden"

property "a run leaves its record, its trace and JSON rows"
run ranks 4 --config "$work/run.toml" --steps 4 --eval-interval 2 --error-interval 2 --out "$work/out" --trace "$work/trace.json" --json "$work/rows" --timeline
expect_status 0
expect_output "perplexity"
/usr/bin/python3 - "$work" <<'PY' || fail "the files are not as they should be"
import glob, json, sys
try:
    import h5py
except ImportError:
    sys.exit(0)
work = sys.argv[1]
events = json.load(open(work + "/trace.json"))["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
assert {e["pid"] for e in spans} == {0, 1, 2, 3}
assert {"compute", "encode", "transfer", "decode", "wait"} <= {e["cat"] for e in spans}, {e["cat"] for e in spans}
rows = [json.loads(line) for line in open(work + "/rows")]
assert all(r["operation"] == "train_step" and r["status"] == "OK" for r in rows), rows
assert ("pp_forward", "quantize:bits=4") in {(r["traffic"], r["codec"]) for r in rows}
(record,) = glob.glob(work + "/out/cells/*.h5")
with h5py.File(record) as file:
    curve = file["training_curve"][:]
    assert list(curve["step"]) == [0, 1, 2, 3]
    assert [v == v for v in curve["validation_loss"]] == [False, True, False, True]
    traffic = file["training_traffic"][:]
    sent = {t["traffic"].decode(): t for t in traffic}["pp_forward"]
    assert 0 < sent["relative_error"] < 0.2, sent
    # Half a byte an element (and scales) where the dense message has two.
    assert 0.25 <= sent["payload_bytes"] / sent["dense_bytes"] < 0.4, sent
    assert int(curve["link_bytes"][-1]) == sum(int(t["link_bytes"]) for t in traffic) * 4
    assert len(file["timeline"]) == len(spans)
PY

property "a run that moves in the middle ends as one that stays, and refuses what does not fit"
run ranks 4 --config "$work/run.toml" --steps 4
expect_status 0
straight=$(loss_of "$output")
run ranks 4 --config "$work/run.toml" --steps 4 --moved-at 2
expect_status 0
expect_equal "$(loss_of "$output")" "$straight" "validation loss after a move to the same layout"
for refused in "--moved-at 4|leaves no step" "--moved-from tp=1|there are none" "--moved-at 2 --moved-from tp=1|needs 2 ranks" "--moved-at 2 --moved-from layer|flag=value" "--moved-at 2 --moved-from hiden=3|hidden" "--moved-at 2 --compute timed|train nothing"; do
  # shellcheck disable=SC2086
  run "$program" --config "$work/run.toml" --steps 4 ${refused%%|*} --show-mesh
  expect_status 2
  expect_output "${refused##*|}"
done

property "timed compute gives times and no losses"
run ranks 4 --config "$work/run.toml" --steps 3 --compute timed --serial-steps 1
expect_status 0
expect_output "timed compute"
expect_output "% of the step"
[[ $output == *"validation loss"* ]] && fail "a replayed run reports a loss"

property "a resumed run ends where an uninterrupted one does"
run ranks 4 --config "$work/run.toml" --steps 6
expect_status 0
whole=$(loss_of "$output")
run ranks 4 --config "$work/run.toml" --steps 3 --schedule-steps 6 --checkpoint "$work/c.h5"
expect_status 0
run ranks 4 --config "$work/run.toml" --steps 6 --resume "$work/c.h5" --out "$work/resumed"
expect_status 0
expect_equal "$(loss_of "$output")" "$whole" "validation loss"
grep -q 'resumed from .*step 3' "$work"/resumed/journal/*.jsonl || fail "the journal does not say that the run was resumed"

property "codec state under other rules is refused, or given up when that is said, and the journal tells"
run ranks 4 --config "$work/run.toml" --steps 4 --compress.pp_forward none --resume "$work/c.h5"
expect_status 2
expect_output "--codec-state reset"
run ranks 4 --config "$work/run.toml" --steps 4 --compress.pp_forward none --resume "$work/c.h5" --codec-state reset --out "$work/reset"
expect_status 0
grep -q 'codec state starts anew' "$work"/reset/journal/*.jsonl || fail "the journal does not say it"

property "a run that diverges ends with 6 and names step, rank and the last checkpoint"
run ranks 4 --config "$work/run.toml" --steps 20 --warmup 4 --learning-rate 1e30 --clip 1e30 --resume "$work/c.h5"
expect_status 6
expect_output "step "
expect_output "rank "
expect_output "The last checkpoint is $work/c.h5 (step 3)"

property "a divergence that a codec sees first bears the mark of one, from the rank that saw it, and ends the others"
wild=(--pp 2 --dp 2 --hidden 32 --layers 2 --heads 2 --seq 32 --global-batch 4 --eval-sequences 4 --text "$work/text.txt" --steps 20 --warmup 0 --learning-rate 1e30 --clip 1e30)
for codec in topk:fraction=0.1 quantize:bits=4; do
  run ranks 4 "${wild[@]}" --compress.pp_forward $codec --out "$work/wild"
  expect_status 6
  expect_output "Training diverged: "
  expect_output "channel pp_forward"
done
finish
