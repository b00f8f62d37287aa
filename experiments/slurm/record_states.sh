#!/usr/bin/env bash
# Causes the states of Slurm's jobs one by one, on a Slurm of its own with slurmdbd and MariaDB, and writes what squeue and sacct
# print of each to a folder: the recordings that the parsers of `sweep status` and `sweep submit` are tested with.
#   experiments/slurm/record_states.sh tests/slurm/recordings
# Needs root and the packages slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin mariadb-server munge. About 5 minutes.
# States that cannot be caused on one machine without cgroups, federation or cloud nodes are not written; their files in the
# folder say "manual".
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
to=$(realpath -m "${1:?usage: record_states.sh FOLDER}")
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
lab=$work/slurm
lab_script=$here/../lab/slurm.sh
database=''
finish() {
  bash "$lab_script" down --folder "$lab" >/dev/null 2>&1 || true
  [ ! -s "$work/slurmdbd.pid" ] || kill "$(cat "$work/slurmdbd.pid")" 2>/dev/null || true
  [ -z "$database" ] || kill "$database" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# MariaDB of its own: one folder, one socket, no network.
mariadb-install-db --no-defaults --datadir="$work/db" --auth-root-authentication-method=normal --user="$(id -un)" >"$work/db.log" 2>&1
mariadbd --no-defaults --datadir="$work/db" --socket="$work/db.sock" --pid-file="$work/db.pid" --skip-networking --user="$(id -un)" >>"$work/db.log" 2>&1 &
database=$!
for _ in $(seq 100); do [ -S "$work/db.sock" ] && break; sleep 0.1; done
mariadb --no-defaults --socket="$work/db.sock" --user=root -e "create database slurm_acct_db; create user 'slurm'@'localhost' identified by 'x'; grant all on slurm_acct_db.* to 'slurm'@'localhost';"

# Epilog: makes COMPLETING last. Two partitions of different priority: preemption.
printf '#!/bin/sh\nsleep 1\n' >"$work/epilog"
chmod +x "$work/epilog"
export THINWIRE_SLURM_CONF_EXTRA="Epilog=$work/epilog
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobAcctGatherParams=OverMemoryKill
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=04:00:00 State=UP"
cat >"$work/before" <<BEFORE
#!/bin/bash
# slurmdbd reads slurmdbd.conf beside slurm.conf.
cat >"\$1/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=\$1/munge.socket
DbdHost=$(hostname)
DbdAddr=127.0.0.1
DbdPort=26819
SlurmUser=$(id -un)
LogFile=$work/slurmdbd.log
PidFile=$work/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
CONF
chmod 600 "\$1/slurmdbd.conf"
MYSQL_UNIX_PORT=$work/db.sock slurmdbd >/dev/null 2>&1 </dev/null
for _ in \$(seq 200); do sacctmgr --noheader list cluster >/dev/null 2>&1 && break; sleep 0.1; done
sacctmgr --immediate add cluster thinwire
BEFORE
chmod +x "$work/before"
export THINWIRE_SLURM_BEFORE=$work/before
eval "$(bash "$lab_script" up --folder "$lab" --cpus 8 --accounting 127.0.0.1:26819)"

mkdir -p "$to"
version=$(sinfo --version)
node=$(sinfo --noheader --format=%N)
start=$(date -d '-1 hour' +%Y-%m-%dT%H:%M:%S)
job() { sbatch --parsable --output=/dev/null "$@"; }
state() { squeue --noheader --all --array --states=all --jobs="$1" --format=%T 2>/dev/null | head -n 1; }
await() { # JOB STATE [SECONDS]
  local until=$((SECONDS + ${3:-30}))
  until [ "$(state "$1")" = "$2" ]; do
    [ $SECONDS -lt $until ] || { echo "job $1 is $(state "$1"), not $2" >&2; return 1; }
  done
}
await_sacct() {
  local until=$((SECONDS + $3))
  until [ "$(sacct --noheader --allocations --parsable2 --starttime="$start" --jobs="$1" --format=State)" = "$2" ]; do
    [ $SECONDS -lt $until ] || return 1
  done
}
# record STATE JOB HOW: exactly the calls of experiments/slurm/queue.cpp, by job instead of by name. The database hears of changes
# a moment later; for states that last it is given that moment.
record() {
  local from="# $version, caused by: $3"
  { echo "$from"; squeue --noheader --all --array --states=all --jobs="$2" --format='%i|%j|%T|%r'; } >"$to/$1.squeue"
  [ "${4:-lasts}" = passes ] || sleep 2
  { echo "$from"; sacct --noheader --allocations --parsable2 --starttime="$start" --jobs="$2" --format=JobID,JobName%200,State,ExitCode; } >"$to/$1.sacct"
  echo "$1: $(tail -n 1 "$to/$1.squeue")   sacct: $(tail -n 1 "$to/$1.sacct")"
}
try() { "$@" || { echo "not recorded: $*" >&2; return 1; }; }

late=$(job --job-name=t-timeout --time=1 --no-requeue --wrap='sleep 600')

id=$(job --job-name=t-completed --wrap=true); await "$id" COMPLETED; record COMPLETED "$id" "exit 0"
id=$(job --job-name=t-failed --wrap='exit 3'); await "$id" FAILED; record FAILED "$id" "exit 3"
id=$(job --job-name=t-array --array=0-5%2 --wrap='sleep 2'); await "${id}_0" RUNNING; record PENDING "$id" "an array of six tasks, two at a time"; scancel "$id"
id=$(job --job-name=t-running --wrap='sleep 60'); await "$id" RUNNING; record RUNNING "$id" "sleep"
scontrol suspend "$id"; await "$id" SUSPENDED; record SUSPENDED "$id" "scontrol suspend"; scontrol resume "$id"
scancel --signal=STOP "$id"; try await "$id" STOPPED 3 && record STOPPED "$id" "scancel --signal=STOP"; scancel --signal=CONT "$id" || true
scancel "$id"; await "$id" COMPLETING; record COMPLETING "$id" "scancel, while the epilog runs" passes
await "$id" CANCELLED; record CANCELLED "$id" "scancel"
id=$(job --job-name=t-requeue --requeue --wrap='sleep 60'); await "$id" RUNNING; scontrol requeue "$id"
await_sacct "$id" REQUEUED 8 || true # for a moment only; squeue never says so
record REQUEUED "$id" "scontrol requeue" passes
await "$id" PENDING; record REQUEUED_PENDING "$id" "scontrol requeue, after the epilog"; scancel "$id"
id=$(job --job-name=t-hold --requeue --wrap='sleep 60'); await "$id" RUNNING; scontrol requeuehold "$id"; await "$id" PENDING; sleep 3; record REQUEUE_HOLD_PENDING "$id" "scontrol requeuehold"; scancel "$id"
id=$(job --job-name=t-special --requeue --wrap='sleep 60'); await "$id" RUNNING; scontrol requeuehold State=SpecialExit "$id"; try await "$id" SPECIAL_EXIT 15 && record SPECIAL_EXIT "$id" "scontrol requeuehold State=SpecialExit"; scancel "$id"
low=$(job --job-name=t-preempted --ntasks=6 --no-requeue --wrap='sleep 60'); await "$low" RUNNING
high=$(job --job-name=t-urgent --partition=urgent --ntasks=6 --wrap='sleep 3'); try await "$low" PREEMPTED 30 && record PREEMPTED "$low" "a job of a partition with higher priority"
await "$high" COMPLETED
id=$(job --job-name=t-memory --mem=20M --wrap='/usr/bin/python3 -c "import time; x = bytearray(200000000); time.sleep(60)"')
try await "$id" OUT_OF_MEMORY 20 && record OUT_OF_MEMORY "$id" "more memory than asked for"
await "$late" TIMEOUT 150; record TIMEOUT "$late" "a time limit of one minute"
blocker=$(job --job-name=t-blocker --ntasks=8 --wrap='sleep 200'); await "$blocker" RUNNING
due=$(job --job-name=t-deadline --time=1 --deadline="$(date -d '+65 seconds' +%Y-%m-%dT%H:%M:%S)" --wrap=true)
try await "$due" DEADLINE 150 && record DEADLINE "$due" "a deadline that passed while it waited"; scancel "$blocker"; await "$blocker" CANCELLED
id=$(job --job-name=t-node --no-requeue --wrap='sleep 60'); await "$id" RUNNING; scontrol update NodeName="$node" State=DOWN Reason=test; await "$id" NODE_FAIL; record NODE_FAIL "$id" "the node went down"
scontrol update NodeName="$node" State=RESUME
