#!/usr/bin/env bash
# Starts an MPI program on hosts of its own: network namespaces joined by rate-limited virtual Ethernet, so that
# one machine has a link that is worth compressing for. The hosts live and die with the run.
#
# Everything happens inside one private set of namespaces (user, mount, network, process ids). Nothing of it has a
# name outside, so several labs run side by side; when this script ends, by whatever signal, the kernel ends every
# process of the lab and drops its networks and files with them.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
self=${0##*/}

usage() {
  cat <<USAGE
usage: $self --link netns:RATE --ranks N [--ranks-per-host R] -- PROGRAM [ARGUMENT...]
       $self --probe

Runs PROGRAM on N MPI ranks, R to a host (default 1), hosts joined by links of RATE in each direction.

  --link netns:RATE    RATE is Nmbit or Ngbit, for example 100mbit, 1gbit, 2.5gbit
  --ranks N            number of ranks
  --ranks-per-host R   ranks of one host talk through shared memory (default 1)
  --probe              say whether this machine permits it, start nothing
  --help               this text

The program finds THINWIRE_LINK=netns:RATE in its environment. While it runs, /run is a private, empty folder.
Exit status: the program's own; 2 for a wrong command line; 3, after 'SKIPPED: reason' on stderr, where the
machine lacks a tool or does not permit it.
USAGE
}
wrong_usage() { echo "$self: $1" >&2; usage >&2; exit 2; }
skip() { echo "SKIPPED: $1" >&2; exit 3; }

link='' ranks='' ranks_per_host=1 probe=no
need_value() { [ $# -ge 2 ] || wrong_usage "$1 needs a value"; }
while [ $# -gt 0 ]; do
  case $1 in
    --link) need_value "$@"; link=$2; shift 2 ;;
    --ranks) need_value "$@"; ranks=$2; shift 2 ;;
    --ranks-per-host) need_value "$@"; ranks_per_host=$2; shift 2 ;;
    --probe) probe=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    *) wrong_usage "unknown option '$1' (the program comes after '--')" ;;
  esac
done

if [ $probe = yes ]; then
  link=netns:100mbit ranks=2
else
  [ -n "$link" ] || wrong_usage "--link is missing"
  [ -n "$ranks" ] || wrong_usage "--ranks is missing"
  [ $# -gt 0 ] || wrong_usage "no program after '--'"
fi
unknown="link '$link' is none that can be built here: netns:RATE with RATE as Nmbit or Ngbit, 1mbit or more"
[[ $link =~ ^netns:(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?(mbit|gbit)$ ]] || wrong_usage "$unknown"
rate=${link#netns:}
mbit=${BASH_REMATCH[1]}
if [ "${BASH_REMATCH[3]}" = gbit ]; then
  digits=${BASH_REMATCH[2]#.}000
  mbit=$((mbit * 1000 + 10#${digits:0:3})) # whole ones: what sizes buckets
fi
[ "$mbit" -ge 1 ] || wrong_usage "$unknown"
[[ $ranks =~ ^[1-9][0-9]{0,2}$ ]] || wrong_usage "--ranks '$ranks' is not a number from 1 to 999"
[[ $ranks_per_host =~ ^[1-9][0-9]{0,2}$ ]] || wrong_usage "--ranks-per-host '$ranks_per_host' is not a number from 1 to 999"
hosts=$(((ranks + ranks_per_host - 1) / ranks_per_host))
[ $hosts -le 200 ] || wrong_usage "$hosts hosts are more than the 200 that one lab holds"

PATH=$PATH:/usr/sbin:/sbin # ip and tc are administrator's tools; an ordinary user's PATH may lack their folder
for tool in unshare:util-linux nsenter:util-linux setpriv:util-linux mount:mount ip:iproute2 tc:iproute2 mpirun:openmpi-bin; do
  command -v "${tool%%:*}" >/dev/null || skip "'${tool%%:*}' is missing; install the package ${tool#*:} (scripts/setup.sh does)"
done
if [ $probe = no ]; then
  command -v -- "$1" >/dev/null || wrong_usage "program '$1' does not exist or may not be executed"
  [[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]] || skip "mpirun is not Open MPI's; put Open MPI's first in PATH"
  [[ $PWD/ != /run/* ]] || skip "the current folder lies in /run, which is private to a lab; start it from another folder"
fi

# Root takes the namespaces directly (a chroot refuses user namespaces); anybody else, and root without the right
# to do so (containers), becomes root of a user namespace first.
namespaces=(--mount --net --ipc --pid --fork --kill-child=SIGKILL)
enter=() refusals=''
for user_namespace in '' '--user --map-root-user'; do
  [ -n "$user_namespace" ] || [ "$(id -u)" = 0 ] || continue
  # shellcheck disable=SC2206 # two words on purpose
  candidate=(unshare $user_namespace "${namespaces[@]}")
  if refusal=$("${candidate[@]}" true 2>&1); then enter=("${candidate[@]}"); break; fi
  refusals+="${refusals:+; }${refusal//$'\n'/ }"
done
[ ${#enter[@]} -gt 0 ] || skip "namespaces are not permitted here ($refusals). Run as root, allow user namespaces \
(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0), or, in a chroot, make its folder a mount point first"

# The lab must not outlive this shell: setpriv ties unshare to it, --kill-child ties the lab's first process to
# unshare, and the process-id namespace ties everything else to that first process.
lab=0
end_lab() { trap '' INT TERM HUP; if [ $lab -ne 0 ]; then kill -KILL $lab 2>/dev/null || true; wait $lab 2>/dev/null || true; fi; exit $((128 + $1)); }
trap 'end_lab 2' INT
trap 'end_lab 15' TERM
trap 'end_lab 1' HUP
export THINWIRE_LINK=$link
setpriv --pdeathsig KILL "${enter[@]}" bash "$here/inside.sh" $probe "$rate" "$mbit" "$hosts" "$ranks" "$ranks_per_host" "$@" </dev/null &
lab=$!
status=0
wait $lab || status=$?
exit $status
