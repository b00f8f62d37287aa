#!/usr/bin/env bash
# labels: faults
# timeout: 1800
# needs: train_gpt
# A rank of a training run killed at a random moment ends the job, which else would go on; the last checkpoint is whole and can be resumed; so it is where the next one finds no room.
set -uo pipefail
folder=$(mktemp -d)
job=
trap '[ -z "$job" ] || kill "$job" 2>/dev/null; rm -rf "$folder"' EXIT
seed=${THINWIRE_TEST_SEED:-20260101}
echo "THINWIRE_TEST_SEED=$seed"
RANDOM=$seed
# No watchdog, which would end the job in place of what is tested.
export OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 THINWIRE_WATCHDOG=0
fail() { echo "FAILED: $1"; cat "$folder/log"; exit 1; }
launch() { # 124: it did not end, in much more time than any here needs
  timeout -k 5 300 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4 "$THINWIRE_BIN_DIR/train_gpt" --tp 2 --pp 1 --dp 2 --hidden 32 --layers 2 --heads 4 \
    --seq 32 --global-batch 4 --compress.dp_gradient topk:fraction=0.1+ef --checkpoint "$folder/run.h5" --checkpoint-interval 1 --schedule-steps 1000 "$@"
}
for round in 1 2 3; do
  rm -f "$folder"/run.h5*
  launch --steps 1000000 >"$folder/log" 2>&1 &
  job=$!
  for _ in $(seq 1200); do [ -e "$folder/run.h5" ] && break; sleep 0.1; done
  [ -e "$folder/run.h5" ] || fail "no checkpoint after 120 s"
  sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
  ranks=($(pgrep -P "$(pgrep -P "$(pgrep -P $job -x timeout)" -x mpirun)" -x train_gpt))
  [ ${#ranks[@]} -eq 4 ] || fail "${#ranks[@]} ranks are running, expected 4"
  kill -9 "${ranks[RANDOM % 4]}"
  status=0
  wait $job || status=$?
  [ $status != 0 ] || fail "the job ended with success although a rank was killed"
  [ $status != 124 ] || fail "the job went on although a rank was killed"
  grep -q "rank [0-3].*signal 9" "$folder/log" || fail "nobody says which rank was killed"
  steps=$(/usr/bin/python3 -c "import h5py; print(h5py.File('$folder/run.h5').attrs['steps_taken'])") || fail "the last checkpoint cannot be read"
  launch --steps $((steps + 2)) --resume "$folder/run.h5" >"$folder/log" 2>&1 || fail "the checkpoint of step $steps cannot be resumed"
  cp "$folder/run.h5" "$folder/good.h5"
  echo "round $round: killed after step $steps, ended, resumed"
done

# A full disk, as far as the program can tell: what it writes first is a device without room. The last checkpoint stays, whole.
if [ -e /dev/full ]; then
  cp "$folder/good.h5" "$folder/run.h5"
  ln -s /dev/full "$folder/run.h5.tmp"
  launch --steps $((steps + 4)) --resume "$folder/run.h5" >"$folder/log" 2>&1
  status=$?
  [ $status = 6 ] || fail "exit status $status instead of 6 where a checkpoint finds no room"
  grep -q "disk is full" "$folder/log" || fail "nobody says that there is no room"
  cmp -s "$folder/good.h5" "$folder/run.h5" || fail "the checkpoint that was there has changed"
  [ ! -L "$folder/run.h5.tmp" ] || fail "what could not be written was left"
  echo "no room: the checkpoint of step $steps is as it was"
fi
