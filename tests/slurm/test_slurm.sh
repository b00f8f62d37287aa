#!/usr/bin/env bash
# labels: slurm
# timeout: 1800
# processors: 1
# first: yes
# needs: sweep bench_collective bench_codec bench_pipeline train_gpt
# A real Slurm of this test's own: arrays of MPI jobs, disturbed and submitted again, end with what an undisturbed local run has.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
bin=${THINWIRE_BIN_DIR:?run by ctest}
lab=$root/experiments/lab/slurm.sh
PATH=$PATH:/usr/sbin:/sbin

for tool in munged slurmctld slurmd sbatch; do command -v $tool >/dev/null || skip "'$tool' is not installed (scripts/setup.sh does)"; done
in_namespaces "${BASH_SOURCE[0]}"
trap 'bash "$lab" down --folder "$work/lab" >/dev/null 2>&1; rm -rf "$work"' EXIT

# Names resolve, and mpirun starts, only where an interface beside the loopback is up.
if [ "$inside" = namespaces ]; then
  ip link set lo up
  ip link add tw0 type veth peer name tw1
  ip address add 10.79.0.1/24 dev tw0
  ip link set tw0 up
  ip link set tw1 up
fi

# What a shell would trip over is in every path that goes through the job scripts.
folder="$work/a b'\$(touch pwned);"
mkdir "$folder"
cd "$folder" || exit 1
cat >queue.toml <<'STUDY'
[study]
name = "queue"

[parameters]
min-time = 0.4
max-time = 0.5

[[grid]]
name = "pairs"
program = "bench_collective"
ranks = 2
link = "shm"
timeout = 60
[grid.axes]
operation = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
bytes = [4096, 65536]

[[grid]]
name = "fours"
program = "bench_collective"
ranks = 4
link = "shm"
timeout = 60
[grid.axes]
operation = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
bytes = [4096, 65536]

[[grid]]
name = "codecs"
program = "bench_codec"
ranks = 1
link = "none"
timeout = 60
omp_threads = 1
[grid.parameters]
batch = 1
seq = 64
hidden = 64
min-time = 0.02 # nobody is killed here: only the ranks of the others must be there for long enough
max-time = 0.05
[grid.axes]
codec = ["none", "topk:fraction=0.1", "quantize:bits=4", "quantize:bits=2", "powersgd:rank=4", "randomk:fraction=0.1", "topk:$(touch pwned)", "quantize:bits=8"]
STUDY
cat >train.toml <<'STUDY'
[study]
name = "train"

[[grid]]
program = "train_gpt"
ranks = "dp"
link = "emulated:1gbit,latency=500us" # a dozen messages a step: six seconds at least, whatever the machine
timeout = 600 # nothing is in the journal from a training's start to its end
[grid.parameters]
dp = 2
hidden = 32
layers = 2
heads = 4
seq = 32
global-batch = 4
steps = 1000 # enough to be asked to stop in the midst of them
eval-interval = 100
"compress.dp_gradient" = "topk:fraction=0.1+ef"
[grid.axes]
seed = [1]
STUDY
# Small tasks, so that there are many: two cells each.
sed 's/^minutes_per_job.*/minutes_per_job = 0.18/; s/^array_width.*/array_width = 3/' "$root/experiments/machines/local-slurm.toml" >machine.toml
printf '\n[[link]]\nname = "emulated"\ndescription = "of the trainings"\n' >>machine.toml

export THINWIRE_WAIT=nap # beside other tests
sweep() { "$bin/sweep" "$@"; }
queue_is_empty() { [ -z "$(squeue --noheader 2>&1)" ]; }
count() { squeue --noheader --array --states="$1" | wc -l; }

run sweep run queue.toml --out local
expect_status 6 # one cell has a codec that is none
run sweep run train.toml --out local-train
expect_status 0

run bash "$lab" up --folder "$work/lab"
[ "$status" != 3 ] || skip "$output"
expect_status 0
export SLURM_CONF=$work/lab/slurm.conf
slurmd_pid() { tr -dc 0-9 <"$work/lab/slurmd.$(hostname).pid"; }

property "plan shows the job scripts and submits nothing"
run sweep plan queue.toml --out out --machine machine.toml
expect_status 0; expect_output "#SBATCH --array=0-"; expect_output "sweep' task"
expect_equal "$(count all)" 0 "jobs"

property "what is missing is submitted as arrays; the same command submits nothing twice"
run sweep submit queue.toml --out out --machine machine.toml
expect_status 0; expect_output "job "
tasks=$(count all)
[ "$tasks" -ge 12 ] || fail "$tasks tasks are too few for 24 cells in pairs"
run sweep submit queue.toml --out out --machine machine.toml
expect_status 0; expect_output "nothing to submit"
expect_equal "$(count all)" "$tasks" "jobs"

property "slurmd, tasks and ranks are killed, one task is cancelled: no cell is lost, none is counted twice"
# Of the program whose ranks are killed: others are over sooner.
some_records() { grep -ls cell_finished out/journal/*.jsonl | sed 's,journal/\(.*\)l$,launches/\1,' | xargs -r grep -qs '"bench_collective"'; }
eventually 100 some_records || fail "no record after 100 s: $(squeue)"
scancel "$(squeue --noheader --array --states=PENDING --format=%i | tail -n 1)" || fail "no task waited"
# In namespaces only this test's processes are seen; elsewhere others may run beside it.
kill_newest() { [ "$inside" = namespaces ] && pkill -KILL --newest -u "$(id -u)" -f "^$bin/$1"; }
has_verdict() { grep -qs '"cell_verdict".*FAILED.*exit status' out/journal/*.jsonl; }
eventually 5 kill_newest "bench_collective --cells" || echo "   note: no rank was there to be killed"
eventually 4 has_verdict || echo "   note: the rank had done its work when it was hit"
kill -KILL "$(slurmd_pid)" || fail "slurmd had ended by itself"
sleep 1
slurmd || fail "slurmd does not start again"
eventually 5 kill_newest "sweep task" || echo "   note: no task was there to be killed"
run sweep status queue.toml --out out
expect_output "without a record"
for round in 1 2 3 4; do
  eventually 600 queue_is_empty || fail "jobs are still in the queue: $(squeue)"
  echo "   ended as: $(squeue --noheader --array --states=all --format=%T | sort | uniq -c | tr -s ' \n' ' ')"
  run sweep submit queue.toml --out out --machine machine.toml
  [[ $output != *"nothing to submit"* ]] || break
  # The cell that fails by its own fault is taken again, as by sweep run; nothing else is left in the end.
  [ "$(grep -c . <<<"$output")" -gt 0 ]
  left=$(sed -n 's/^job [0-9]*: \([0-9]*\) cells.*/\1/p' <<<"$output" | paste -sd+ | bc 2>/dev/null || echo 0)
  echo "   round $round: ${left:-?} cells submitted again"
  [ $round -lt 2 ] || [ "${left:-0}" != 1 ] || break
done
eventually 600 queue_is_empty || fail "jobs are still in the queue: $(squeue)"

property "the collected result has the cells, statuses and bytes of an undisturbed local run"
run sweep collect --out local; expect_status 0
run sweep collect --out out; expect_status 0
run /usr/bin/python3 - local/collected.h5 out/collected.h5 <<'PYTHON'
import sys, h5py
same = ["status", "program", "link", "ranks", "operation", "codec", "dense_bytes", "payload_bytes", "link_bytes"]
def table(path):
    rows = h5py.File(path)["cells"][:]
    return sorted(tuple(r[c] for c in ["cell_id", "traffic"] + same) for r in rows)
a, b = (table(p) for p in sys.argv[1:])
print(len(a), "rows")
assert len({r[0] for r in a}) == 24, len({r[0] for r in a})
for x, y in zip(a, b):
    assert x == y, (x, y)
assert len(a) == len(b), (len(a), len(b))
PYTHON
expect_status 0
[ -z "$(find "$work" -name pwned)" ] || fail "a path or a parameter reached a shell"

property "SIGUSR1 makes a trainer save its state and its task go back to the queue; the record has every step once"
run sweep submit train.toml --out out-train --machine machine.toml; expect_status 0
job=$(sed -n 's/^job \([0-9]*\):.*/\1/p' <<<"$output")
eventually 200 grep -qs cell_started out-train/journal/0001.jsonl || fail "the training did not start"
run sweep run train.toml --out out-train
expect_output "1 cells are left to job ${job}_0"
scancel --signal=USR1 --batch "${job}_0"
eventually 200 grep -q task_requeue out-train/slurm/0001/task-0-0.jsonl || fail "the task did not requeue itself: $(cat out-train/slurm/0001/*.log)"
run sweep submit train.toml --out out-train --machine machine.toml; expect_output "nothing to submit"
eventually 600 queue_is_empty || fail "the requeued task did not end: $(squeue; cat out-train/slurm/0001/*.log)"
grep -q "goes on after step" out-train/journal/*.jsonl || fail "the training began anew"
run /usr/bin/python3 - local-train/cells out-train/cells <<'PYTHON'
import glob, os, sys, h5py
for path in glob.glob(sys.argv[1] + "/*.h5"):
    a, b = (h5py.File(p) for p in (path, os.path.join(sys.argv[2], os.path.basename(path))))
    x, y = a["training_curve"][:], b["training_curve"][:]
    assert len(x) == len(y) == 1000, (len(x), len(y))
    assert (x["step"] == y["step"]).all() and (x["loss"] == y["loss"]).all()
    assert (a["cells"]["link_bytes"] == b["cells"]["link_bytes"]).all()
PYTHON
expect_status 0

property "the last task of an array goes back to the queue alone"
# A minute each: no two of them share a task.
sed 's/^name = "train"/name = "trio"/; s/^seed = .*/seed = [11, 12, 13]/; s/^eval-interval.*//; s/^timeout = 600.*/timeout = 600\nminutes = 1/' train.toml >trio.toml
run sweep submit trio.toml --out out-trio --machine machine.toml; expect_status 0; expect_output "3 cells in 3 tasks"
job=$(sed -n 's/^job \([0-9]*\):.*/\1/p' <<<"$output")
all_started() { [ "$(cat out-trio/journal/*.jsonl 2>/dev/null | grep -c '"cell_started"')" -ge 3 ]; }
eventually 300 all_started || fail "the trainings did not start: $(squeue)"
scancel --signal=USR1 --batch "${job}_2"
eventually 200 grep -qs task_requeue out-trio/slurm/0001/task-0-2.jsonl || fail "the task did not requeue itself: $(cat out-trio/slurm/0001/*.log)"
eventually 600 queue_is_empty || fail "the tasks did not end: $(squeue)"
for task in 0 1 2; do
  expect_equal "$(grep -c task_started out-trio/slurm/0001/task-0-$task.jsonl)" "$([ $task = 2 ] && echo 2 || echo 1)" "starts of task $task"
  grep -q task_finished out-trio/slurm/0001/task-0-$task.jsonl || fail "task $task: $(cat out-trio/slurm/0001/task-0-$task.jsonl)"
done

property "a task that got nowhere in its time does not go back to the queue"
# Ranks that sleep for minutes.
cat >long.toml <<'STUDY'
[study]
name = "long"

[[grid]]
program = "bench_pipeline"
ranks = 2
link = "shm"
timeout = 600
[grid.parameters]
forward-us = 1000000
STUDY
run sweep submit long.toml --out out-long --machine machine.toml; expect_status 0
job=$(sed -n 's/^job \([0-9]*\):.*/\1/p' <<<"$output")
eventually 200 grep -qs cell_started out-long/journal/0001.jsonl || fail "the cell did not start: $(squeue)"
scancel --signal=USR1 --batch "${job}_0"
eventually 200 grep -qs "not requeued (no cell ended" out-long/slurm/0001/task-0-0.jsonl || fail "$(cat out-long/slurm/0001/task-0-0.jsonl out-long/slurm/0001/*.log)"
eventually 200 queue_is_empty || fail "the task did not end: $(squeue)"
grep -q task_requeue out-long/slurm/0001/task-0-0.jsonl && fail "it went back to the queue"

property "a submit that dies between sbatch and its own note is found again by the name of its jobs"
mkdir "$work/dying"
# The parent of sbatch is its keeper (experiments/run/process.cpp), whose parent submits.
printf '#!/bin/sh\n%s "$@"\nread -r _ _ _ submitter _ <"/proc/$PPID/stat"\nkill -KILL "$submitter"\n' "$(command -v sbatch)" >"$work/dying/sbatch"
chmod +x "$work/dying/sbatch"
scontrol update PartitionName=main State=DOWN # jobs wait
PATH="$work/dying:$PATH" run sweep submit queue.toml --out out-dead --machine machine.toml
expect_status 137
grep -q '"job": "[0-9]' out-dead/slurm/0001/submission.json && fail "the number was noted: the kill came too late"
# A job may be on its way for ten seconds: as if they were over.
sed -i 's/"created": .*,/"created": '$(($(date +%s) - 11)),/ out-dead/slurm/0001/submission.json
run sweep submit queue.toml --out out-dead --machine machine.toml --where 'ranks=2'
expect_output "cells are submitted already"
grep -q '"job": "[0-9]' out-dead/slurm/0001/submission.json || fail "the number of the job was not found"
scancel --user="$(id -un)"

finish
