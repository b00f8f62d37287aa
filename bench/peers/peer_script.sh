# What the scripts that run PyTorch beside a program of ours share. Sourced, not executed.
# shellcheck shell=bash disable=SC2034
here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../../build/bin venv=${HOME}/.cache/thinwire-peers/pytorch threads=2

# peer_option NAME VALUE: one that all of them have; --help prints the comment at the script's head.
peer_option() {
  case $1 in
    --bin) bin=$2 ;;
    --venv) venv=$2 ;;
    --rounds) rounds=$2 ;;
    --threads) threads=$2 ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "${0##*/}: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
}

# needs PROGRAM: exit 3 without it, 77 without PyTorch.
needs() {
  [ -x "$bin/$1" ] || { echo "${0##*/}: $bin/$1 is missing; build it, or give --bin" >&2; exit 3; }
  "$venv/bin/python" -c 'import torch' 2>/dev/null && return
  echo "SKIPPED: no PyTorch in $venv (bench/peers/run_peer.sh --install fetches it from PyPI, about 5 GB; or name another with --venv)"
  exit 77
}
