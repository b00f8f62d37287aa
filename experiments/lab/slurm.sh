#!/usr/bin/env bash
# A Slurm of its own on one machine, to try sweeps on: munge, slurmctld, slurmd, all in one folder, beside any Slurm that is
# installed for real. With --nodes every node is a network namespace with a host name of its own, and the nodes are joined by
# rate-limited virtual Ethernet as in launch.sh. Up and down take about a second.
set -euo pipefail
self=${0##*/}

usage() {
  cat <<USAGE
usage: $self up [--nodes N --link netns:RATE] [--cpus C] [--folder DIR] [--accounting HOST:PORT]
       $self down [--folder DIR]
       $self env [--folder DIR]
       $self node I COMMAND...      (with --nodes: runs COMMAND on node I)

up      starts it and prints 'export SLURM_CONF=...', so that a shell takes it over:  eval "\$($self up)"
down    stops it and removes its folder
env     prints that line again

  --nodes N            N nodes (2 to 32) in network namespaces; without it one node, this machine itself
  --link netns:RATE    rate of each node's link, Nmbit or Ngbit (default 1gbit)
  --cpus C             processors that each node claims to have (default 8); ranks share the real ones
  --folder DIR         where it lives (default: thinwire-slurm-UID in \$TMPDIR or /tmp)
  --accounting H:P     ask the slurmdbd there (default: no accounting); THINWIRE_SLURM_BEFORE may name a program that starts it

Exit status: 0; 2 for a wrong command line; 3, after 'SKIPPED: reason' on stderr, where the machine lacks packages or rights.
USAGE
}
wrong_usage() { echo "$self: $1" >&2; usage >&2; exit 2; }
skip() { echo "SKIPPED: $1" >&2; exit 3; }

folder=${TMPDIR:-/tmp}/thinwire-slurm-$(id -u) nodes=0 link=netns:1gbit cpus=8 accounting=''
[ $# -gt 0 ] || wrong_usage "say up, down, env or node"
command=$1
shift
number=''
if [ "$command" = node ]; then
  [ $# -ge 2 ] || wrong_usage "node needs a number and a command"
  number=$1
  shift
fi
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) nodes=${2:?}; shift 2 ;;
    --link) link=${2:?}; shift 2 ;;
    --cpus) cpus=${2:?}; shift 2 ;;
    --folder) folder=${2:?}; shift 2 ;;
    --accounting) accounting=${2:?}; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    *) [ "$command" = node ] || wrong_usage "unknown option '$1'"; break ;;
  esac
done
PATH=$PATH:/usr/sbin:/sbin # daemons and ip are administrator's tools
conf=$folder/slurm.conf
export SLURM_CONF=$conf

pid_of() { [ -s "$1" ] && tr -dc 0-9 <"$1" || true; }
# Ends the process of a pid file, and waits for its end.
end_process() {
  local pid
  pid=$(pid_of "$1")
  [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || return 0
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$pid" 2>/dev/null || true
}

down() {
  [ -d "$folder" ] || return 0
  [ -e "$conf" ] || [ -z "$(ls -A "$folder")" ] || { echo "$self: $folder is no folder of this script" >&2; exit 2; }
  # Steps of jobs that still run are children of slurmstepd, which ends with its job.
  timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
  local file
  for file in "$folder"/slurmd*.pid "$folder/slurmctld.pid" "$folder/munged.pid"; do end_process "$file"; done
  for file in "$folder"/net.* "$folder"/uts.*; do umount "$file" 2>/dev/null || true; done
  ip link delete tw-head 2>/dev/null || true
  rm -rf "$folder"
}

network() {
  local unknown="link '$link' is none that can be built here: netns:RATE with RATE as Nmbit or Ngbit, 1mbit or more"
  [[ $link =~ ^netns:(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?(mbit|gbit)$ ]] || wrong_usage "$unknown"
  local rate=${link#netns:} mbit=${BASH_REMATCH[1]} digits=${BASH_REMATCH[2]#.}000 mtu=9000 burst i
  [ "${BASH_REMATCH[3]}" = mbit ] || mbit=$((mbit * 1000 + 10#${digits:0:3}))
  [ "$mbit" -ge 1 ] || wrong_usage "$unknown"
  [ "$mbit" -ge 1000 ] || mtu=1500
  burst=$((mbit * 20)) # 160 us of the rate: a larger bucket lets small messages through unshaped
  [ $burst -ge $((2 * mtu)) ] || burst=$((2 * mtu))
  local shape=(tbf rate "$rate" burst "$burst" latency 20ms) refusal
  touch "$folder/net.switch"
  refusal=$(unshare --net="$folder/net.switch" true 2>&1) || skip "network namespaces are not permitted here ($refusal)"
  on_switch=(nsenter --net="$folder/net.switch")
  "${on_switch[@]}" ip link add br0 type bridge
  "${on_switch[@]}" ip link set br0 up
  # The head node is this machine: users' commands and the controller, unshaped.
  ip link add tw-head mtu $mtu type veth peer name head mtu $mtu netns "$folder/net.switch"
  "${on_switch[@]}" ip link set head master br0 up
  ip address add 10.78.0.250/24 dev tw-head
  ip link set tw-head up
  { echo 127.0.0.1 localhost; echo "10.78.0.250 $(hostname)"; for ((i = 0; i < nodes; i++)); do echo "10.78.0.$((i + 1)) lab$i"; done; } >"$folder/hosts"
  for ((i = 0; i < nodes; i++)); do
    touch "$folder/net.$i" "$folder/uts.$i"
    unshare --net="$folder/net.$i" --uts="$folder/uts.$i" hostname "lab$i"
    local on_node=(nsenter --net="$folder/net.$i")
    "${on_switch[@]}" ip link add port$i mtu $mtu type veth peer name eth0 mtu $mtu netns "$folder/net.$i"
    "${on_switch[@]}" ip link set port$i master br0 up
    "${on_node[@]}" ip link set lo up
    "${on_node[@]}" ip address add 10.78.0.$((i + 1))/24 dev eth0
    "${on_node[@]}" ip link set eth0 up
    "${on_node[@]}" ip route change 10.78.0.0/24 dev eth0 src 10.78.0.$((i + 1)) congctl cubic
    "${on_node[@]}" sh -c 'echo 131072 >/proc/sys/net/ipv4/tcp_limit_output_bytes'
    "${on_node[@]}" tc qdisc add dev eth0 root "${shape[@]}"
    "${on_switch[@]}" tc qdisc add dev port$i root "${shape[@]}"
  done
}

# COMMAND on node I: its network and host name, its view of /etc/hosts, and a folder for temporary files of its own, without
# which the PMIx servers of the nodes would meet in one.
on_node() {
  local i=$1
  shift
  nsenter --net="$folder/net.$i" --uts="$folder/uts.$i" unshare --mount --propagation private \
    bash -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$folder/hosts" "$@"
}

configuration() {
  local me controller i
  me=$(hostname)
  controller='127.0.0.1'
  [ "$nodes" = 0 ] || controller=10.78.0.250
  cat <<CONF
ClusterName=thinwire
SlurmctldHost=$me($controller)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=30
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SrunPortRange=$((port + 10))-$((port + 900))
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
TmpFS=$folder/tmp.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1,requeue_setup_env_fail
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
SlurmdTimeout=${THINWIRE_SLURMD_TIMEOUT:-30}
KillWait=5
MinJobAge=3600
InactiveLimit=0
CONF
  if [ -n "$accounting" ]; then
    printf 'AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=%s\nAccountingStoragePort=%s\nAccountingStoragePass=%s\n' "${accounting%:*}" "${accounting##*:}" "$folder/munge.socket"
  else
    echo 'AccountingStorageType=accounting_storage/none'
  fi
  [ "$nodes" != 0 ] || echo 'CommunicationParameters=NoCtldInAddrAny,NoInAddrAny' # reachable from this machine only
  if [ "$nodes" = 0 ]; then
    echo "NodeName=$me NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN"
    echo "PartitionName=main Nodes=$me Default=YES MaxTime=04:00:00 State=UP"
  else
    for ((i = 0; i < nodes; i++)); do echo "NodeName=lab$i NodeAddr=10.78.0.$((i + 1)) CPUs=$cpus RealMemory=$memory State=UNKNOWN"; done
    echo "PartitionName=main Nodes=lab[0-$((nodes - 1))] Default=YES MaxTime=04:00:00 State=UP"
  fi
  [ -z "${THINWIRE_SLURM_CONF_EXTRA:-}" ] || printf '%s\n' "$THINWIRE_SLURM_CONF_EXTRA"
}

# A range of ports that nobody listens on: other Slurms, and other users' labs, may be on this machine.
free_port() {
  local candidate
  for candidate in 16817 17817 18817 19817 20817 21817; do
    (exec 3<>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || { echo $candidate; return; }
  done
  skip "no free range of ports from 16817 to 22817"
}

up() {
  local tool i ready
  for tool in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
    command -v "${tool%%:*}" >/dev/null || skip "'${tool%%:*}' is missing; install the package ${tool#*:} (scripts/setup.sh does)"
  done
  [ "$nodes" = 0 ] || [ "$(id -u)" = 0 ] || skip "nodes in network namespaces need root; without --nodes they do not"
  [[ $nodes =~ ^[0-9]+$ && $nodes -le 32 && $nodes != 1 && $cpus =~ ^[1-9][0-9]{0,2}$ ]] || wrong_usage "--nodes is 2 to 32, --cpus 1 to 999"
  [[ $folder =~ ^/[A-Za-z0-9._/-]+$ ]] || wrong_usage "the folder '$folder' must be an absolute path of letters, digits and . _ - /"
  [ ! -e "$conf" ] || { echo "$self: one is up already in $folder; '$self down' ends it" >&2; exit 2; }
  mkdir -p "$folder"
  trap 'status=$?; [ $status = 0 ] || { tail -n 5 "$folder"/*.log >&2 2>/dev/null || true; down; }' EXIT
  chmod 755 "$folder"
  port=$(free_port)
  memory=$(awk '/MemTotal/ { print int($2 / 1024 * 0.8) }' /proc/meminfo)
  [ "$nodes" = 0 ] || network
  configuration >"$conf"
  if [ "$nodes" = 0 ]; then mkdir -p "$folder/state" "$folder/spool.$(hostname)" "$folder/tmp.$(hostname)"; fi
  for ((i = 0; i < nodes; i++)); do mkdir -p "$folder/spool.lab$i" "$folder/tmp.lab$i"; done
  mkdir -p "$folder/state"
  (umask 077; head -c 1024 /dev/urandom >"$folder/munge.key")
  munged --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" >/dev/null 2>&1 || skip "munged does not start: $(tail -n 1 "$folder/munged.log" 2>/dev/null)"
  # A database must answer before the controller starts, and needs munge itself.
  [ -z "${THINWIRE_SLURM_BEFORE:-}" ] || "$THINWIRE_SLURM_BEFORE" "$folder" >&2
  slurmctld -c >/dev/null 2>&1 || skip "slurmctld does not start: $(tail -n 1 "$folder/slurmctld.log" 2>/dev/null)"
  if [ "$nodes" = 0 ]; then
    slurmd >/dev/null 2>&1 || skip "slurmd does not start: $(tail -n 1 "$folder"/slurmd.*.log 2>/dev/null)"
  else
    for ((i = 0; i < nodes; i++)); do
      on_node $i slurmd -N lab$i >/dev/null 2>&1 || skip "slurmd of node $i does not start: $(tail -n 1 "$folder/slurmd.lab$i.log" 2>/dev/null)"
    done
  fi
  for _ in $(seq 200); do
    kill -0 "$(pid_of "$folder/slurmctld.pid")" 2>/dev/null || skip "slurmctld ended: $(tail -n 1 "$folder/slurmctld.log" 2>/dev/null)"
    ready=$(sinfo --noheader --states=idle --format=%D 2>/dev/null || true)
    if [ "${ready:-0}" = $((nodes > 0 ? nodes : 1)) ]; then
      echo "export SLURM_CONF=$conf"
      return
    fi
    sleep 0.05
  done
  skip "the nodes did not become idle: $(sinfo --noheader 2>&1 | head -n 2 | tr '\n' ' ')"
}

case $command in
  up) up ;;
  down) down ;;
  env) [ -e "$conf" ] || wrong_usage "none is up in $folder"; echo "export SLURM_CONF=$conf" ;;
  node) [ -e "$folder/net.$number" ] || wrong_usage "there is no node $number in $folder"; on_node "$number" "$@" ;;
  --help | -h) usage ;;
  *) wrong_usage "'$command' is none of up, down, env, node" ;;
esac
