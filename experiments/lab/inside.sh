#!/usr/bin/env bash
# The inner half of launch.sh: first process of the lab's namespaces. Builds the network, then becomes the parent of
# mpirun. Not for direct use: it would change the network of the machine.
#   inside.sh PROBE RATE MBIT HOSTS RANKS RANKS_PER_HOST PROGRAM ARGUMENT...
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
probe=$1 rate=$2 mbit=$3 hosts=$4 ranks=$5 ranks_per_host=$6
shift 6
[ $$ = 1 ] || { echo "inside.sh is started by launch.sh" >&2; exit 2; }

skip() { echo "SKIPPED: $1" >&2; exit 3; }
# try WHAT COMMAND...: a refusal anywhere means that this machine does not permit the lab, and says where.
try() {
  local what=$1 answer
  shift
  answer=$("$@" 2>&1) || skip "$what is not permitted here: ${answer//$'\n'/ }"
}

# Private files: the namespaces' handles and Open MPI's session, which would otherwise collide with another lab's
# (host names and process ids are the same in every lab) and stay behind after SIGKILL.
try "mounting a private /run" mount -t tmpfs -o mode=755 tmpfs /run
lab=/run/thinwire-lab
mkdir -p $lab/session
# /proc of the machine would still answer for /proc/self, so a refusal (masked /proc in containers) does no harm.
mount -t proc proc /proc 2>/dev/null || true
echo "127.0.0.1 localhost" >$lab/hosts
for ((i = 0; i < hosts; i++)); do echo "10.77.0.$((i + 1)) lab$i" >>$lab/hosts; done
# Names must be answered at once: a resolver that waits for a name server would delay MPI_Init by seconds.
[ ! -e /etc/hosts ] || try "a private /etc/hosts" mount --bind $lab/hosts /etc/hosts

# A frame on the wire is MTU + 14 bytes of Ethernet header. Small frames on slow links keep latency honest, big ones
# on fast links keep the processor's share small.
mtu=1500
[ "$mbit" -lt 1000 ] || mtu=9000
# Token bucket: 480 us of the rate, at least four frames. A larger bucket lets more pass at memory speed after each idle gap; a
# smaller one loses rate whenever a timer is late (virtual machines: 30 us usually, 200 us often). 480 us of 1 Mbit/s is 60 bytes.
bucket=$((mbit * 60))
[ $bucket -ge $((4 * (mtu + 14))) ] || bucket=$((4 * (mtu + 14)))
# What TCP hands down in one piece must fit the bucket, or the filter cuts it into frames that the machine then carries one by one.
piece=$bucket
[ "$mbit" -ge 1000 ] || piece=$((bucket / 2))
[ $piece -le 65536 ] || piece=65536
shape=(tbf rate "$rate" burst "$bucket" latency 20ms)

# This shell's own network namespace is the switch; each host has one of its own, and a host name of its own:
# without it Open MPI takes all hosts for one machine and uses shared memory between them.
try "a bridge" ip link add br0 type bridge
ip link set br0 up
# Datagrams to this address pass a host's token bucket and end here: the switch has no address of its own. They spend what the
# bucket saved up while the host computed (collectives/link/link_drain.h).
sink=10.77.0.254 sink_port=02:77:00:00:00:fe
ip link set br0 address $sink_port
ip link set lo up
for ((i = 0; i < hosts; i++)); do
  touch $lab/net.$i $lab/uts.$i
  try "a network namespace" unshare --net=$lab/net.$i --uts=$lab/uts.$i hostname lab$i
  on_host=(nsenter --net=$lab/net.$i)
  try "virtual Ethernet" ip link add port$i mtu $mtu type veth peer name eth0 mtu $mtu netns $lab/net.$i
  ip link set port$i master br0 up
  "${on_host[@]}" ip link set lo up
  "${on_host[@]}" ip address add 10.77.0.$((i + 1))/24 dev eth0
  try "limiting the size of TCP's pieces" "${on_host[@]}" ip link set eth0 gso_max_size $piece
  "${on_host[@]}" ip link set eth0 up
  "${on_host[@]}" ip neighbour add $sink lladdr $sink_port dev eth0 nud permanent
  # Loss-based congestion control and a short queue inside the sender: a machine tuned for the wide area (BBR, megabytes
  # queued below TCP) would measure its own queues instead of the link.
  try "TCP cubic on the lab's route" "${on_host[@]}" ip route change 10.77.0.0/24 dev eth0 src 10.77.0.$((i + 1)) congctl cubic
  try "setting tcp_limit_output_bytes" "${on_host[@]}" sh -c 'echo 131072 >/proc/sys/net/ipv4/tcp_limit_output_bytes'
  # Egress at the host, ingress at its port of the switch, so that several senders to one receiver share its link.
  try "rate limiting (token bucket filter)" "${on_host[@]}" tc qdisc add dev eth0 root "${shape[@]}"
  try "rate limiting (token bucket filter)" tc qdisc add dev port$i root "${shape[@]}"
done
if [ "$probe" = yes ]; then
  echo "rate-limited network namespaces are permitted here"
  exit 0
fi

cp "$here/agent.sh" $lab/agent && chmod 755 $lab/agent # Open MPI splits the agent's path at spaces: a path without any
host_list=''
for ((i = 0; i < hosts; i++)); do host_list+="${host_list:+,}10.77.0.$((i + 1)):$ranks_per_host"; done
transports=tcp,self
[ "$ranks_per_host" = 1 ] || transports=vader,tcp,self

# Ranks that share a host share its bucket, of which none of them could keep account.
[ "$ranks_per_host" != 1 ] || export THINWIRE_LINK_SINK=$sink
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(
  --host "$host_list" --map-by slot --rank-by slot --bind-to none
  --mca plm rsh --mca plm_rsh_agent $lab/agent
  --mca orte_tmpdir_base $lab/session --mca btl_vader_backing_directory $lab/session
  --mca pml ob1 --mca btl $transports --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0
  # Rendezvous acknowledgements would queue behind bulk data and halve the rate: two connections, and eager sends
  # for everything up to 16 MiB.
  --mca btl_tcp_links 2 --mca btl_tcp_eager_limit 16777216
  --mca btl_tcp_rndv_eager_limit 16777216 --mca btl_tcp_max_send_size 16777216
  # All hosts share this machine's cores: a waiting rank must hand its core on, which Open MPI cannot know by itself.
  --mca mpi_yield_when_idle 1
)
# Open MPI warns of a process group that its child has set already; everything else on stderr passes.
exec 3>&2
exec 2> >(exec grep --line-buffered -v 'plm:rsh: Warning: setpgid' >&3)
filter=$!
status=0
nsenter --net=$lab/net.0 --uts=$lab/uts.0 mpirun "${options[@]}" -n "$ranks" "$@" || status=$?
exec 2>&3
# The end of this process would cut off the filter's last lines; a process that the program left behind would keep
# the filter alive for ever.
for ((i = 0; i < 40; i++)); do kill -0 $filter 2>/dev/null || break; sleep 0.05; done
exit $status
