#!/usr/bin/env bash
# labels: slurm
# timeout: 900
# processors: 1
# first: yes
# needs: sweep bench_collective
# Four nodes on one machine, a network namespace each, joined by rate-limited links: the same profile, jobs over several nodes.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
bin=${THINWIRE_BIN_DIR:?run by ctest}
lab=$root/experiments/lab/slurm.sh
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd sbatch; do command -v $tool >/dev/null || skip "'$tool' is not installed (scripts/setup.sh does)"; done
in_namespaces "${BASH_SOURCE[0]}"
trap 'bash "$lab" down --folder "$work/lab" >/dev/null 2>&1; rm -rf "$work"' EXIT
[ "$inside" = namespaces ] || skip "private namespaces need root here: $refusal"
ip link set lo up
cd "$work" || exit 1
queue_is_empty() { [ -z "$(squeue --noheader 2>&1)" ]; }

property "a wrong command line is refused with status 2"
run bash "$lab" up --folder "$work/lab" --nodes 4 --link shm; expect_status 2; expect_output "netns:RATE"
run bash "$lab" up --folder "$work/lab" --nodes 1; expect_status 2
run bash "$lab" sideways; expect_status 2
[ ! -e "$work/lab/slurm.conf" ] || fail "a refused command left something behind"

property "four nodes are up within seconds, each with a host name of its own"
begin=$(date +%s%N)
run bash "$lab" up --folder "$work/lab" --nodes 4 --link netns:1gbit
[ "$status" != 3 ] || skip "$output"
expect_status 0
echo "   up after $((($(date +%s%N) - begin) / 1000000)) ms"
export SLURM_CONF=$work/lab/slurm.conf
hosts=$(srun --nodes=4 --ntasks=4 hostname 2>srun.log) || fail "srun ended with $?: $(cat srun.log)"  # a job that waits is told on stderr
expect_equal "$(sort <<<"$hosts" | tr '\n' ' ')" "lab0 lab1 lab2 lab3 " "hosts"

property "cells of the fabric run one rank to a node over links that hold their rate, cells of shared memory inside one node"
cat >nodes.toml <<'STUDY'
[study]
name = "nodes"

[[grid]]
program = "bench_collective"
ranks = 4
link = ["fabric", "shm"]
timeout = 60
repetitions = 5
[grid.parameters]
bytes = 4194304
[grid.axes]
operation = ["all_reduce", "all_gather"]
algorithm = ["ring"]
STUDY
run "$bin/sweep" submit nodes.toml --out out --machine local-slurm; expect_status 0
eventually 600 queue_is_empty || fail "jobs are still in the queue: $(squeue)"
run "$bin/sweep" status nodes.toml --out out; expect_status 0
run "$bin/sweep" collect --out out; expect_status 0
run /usr/bin/python3 - out/collected.h5 <<'PYTHON'
import re, sys, h5py
rows = h5py.File(sys.argv[1])["cells"][:]
assert len(rows) == 4 and all(r["status"] == b"OK" for r in rows), [(r["status"], r["reason"]) for r in rows]
rate = max(r["busbw_gbps"] for r in rows if r["link"] == b"fabric")
# 1 Gbit/s is 0.125 GB/s; the machine may be busy, but no link carries more than its rate.
assert rate < 0.15, rate
map_of = {r["launch"]: r["rank_map"].decode() for r in h5py.File(sys.argv[1])["provenance"][:]}
nodes = {(r["link"], len(set(re.findall(r":(\w+)", map_of[r["launch"]])))) for r in rows}
assert nodes == {(b"fabric", 4), (b"shm", 1)}, (nodes, map_of)
PYTHON
expect_status 0
[ -z "$output" ] || echo "   $output"

property "nothing is left of it when it is down"
begin=$(date +%s%N)
run bash "$lab" down --folder "$work/lab"; expect_status 0
echo "   down after $((($(date +%s%N) - begin) / 1000000)) ms"
[ ! -e "$work/lab" ] || fail "its folder is still there"
pgrep -l 'slurm|munged' && fail "daemons are left"
ip link show tw-head >/dev/null 2>&1 && fail "its network is left"

finish
