#!/usr/bin/env bash
# Installs through apt what thinwire needs and this machine lacks. Harmless to repeat.
set -euo pipefail
self=${0##*/}

usage() {
  cat <<USAGE
usage: $self [--study] [--fuzz] [--dry-run] [--list] [--help]

Installs the missing ones of thinwire's packages with apt-get, as root or through sudo. Everything comes from the
distribution (Debian 12 or later); CUDA is optional and never installed here.

  --study     also the texts that the stand-in tasks and their corpus are made from (Debian 12; about 110 MB to download);
              builds, tests and run_all.sh need none of them
  --fuzz      also libFuzzer, which comes with clang's run-time library (scripts/fuzz.sh)
  --dry-run   print what would be done, change nothing
  --list      print the packages, one per line
  --help      this text

Exit status: 0 all there; 2 wrong usage; 3 something is missing and cannot be installed from here (the exact
command is printed).
USAGE
}

packages=(
  build-essential cmake ninja-build pkg-config                                    # build
  openmpi-bin libopenmpi-dev                                                      # ranks
  libhdf5-dev                                                                     # results
  libopenblas-openmp-dev libdnnl-dev libhwy-dev                                   # products and portable SIMD
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libmuparser-dev    # command line, configuration, text
  libgtest-dev                                                                    # tests
  python3 python3-numpy python3-h5py python3-matplotlib                           # figures and report
  iproute2 util-linux procps                                                      # links in network namespaces
  git ca-certificates                                                             # provenance of results
  munge slurmctld slurmd slurm-client                                             # a Slurm to try sweeps on (13 MB), and its tests
  zstd                                                                            # archives (1 MB)
)

# experiments/text_tasks: sources of the tasks, then of the corpus (docs/papers/text_tasks.md, "Sources" and "The corpus").
study_packages=(
  wordnet-base dict-gcide
  bible-kjv bible-kjv-text dict-foldoc dict-jargon perl-doc python3.11-doc postgresql-doc-15 git-doc manpages manpages-dev linux-doc-6.1
)

# libFuzzer, for any compiler's programs.
fuzz_packages=(libclang-rt-14-dev)

dry_run=no list=no
while [ $# -gt 0 ]; do
  case $1 in
    --study) packages+=("${study_packages[@]}"); shift ;;
    --fuzz) packages+=("${fuzz_packages[@]}"); shift ;;
    --dry-run) dry_run=yes; shift ;;
    --list) list=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "$self: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ $list = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

cannot() {
  echo "setup: $1" >&2
  echo "setup: run this, then start again:" >&2
  echo "  $2" >&2
  exit 3
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this system has no apt; install the equivalents of these packages with its own package manager" >&2
  echo "       and start again with --skip-setup:" >&2
  echo "  ${packages[*]}" >&2
  exit 3
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done

# Two flavours of OpenBLAS side by side: the distribution then prefers the one with threads of its own, which
# compete with OpenMP's. Results stay right, so this is advice.
blas=$(update-alternatives --query "libopenblas.so.0-$(uname -m)-linux-gnu" 2>/dev/null | sed -n 's/^Value: //p') || true
case $blas in
  '' | *openblas-openmp*) ;;
  *) echo "setup: note: $blas is the chosen OpenBLAS; the OpenMP flavour is faster here:"
     echo "         update-alternatives --set libopenblas.so.0-$(uname -m)-linux-gnu /usr/lib/$(uname -m)-linux-gnu/openblas-openmp/libopenblas.so.0" ;;
esac

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

# Nothing that is there is upgraded because a package of the same source comes: documentation of Python would bring another Python library, the text that models are trained on unless --text names one.
install=(apt-get install -y --no-install-recommends -o APT::Get::Upgrade-By-Source-Package=false "${missing[@]}")
command="apt-get update && ${install[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command="sudo sh -c '$command'"
  command -v sudo >/dev/null || cannot "${#missing[@]} packages are missing; installing needs root, and there is no sudo" "su -c 'apt-get update && ${install[*]}'"
  # Without a terminal nobody could answer sudo's question for a password.
  if ! sudo -n true 2>/dev/null && ! [ -t 0 ]; then
    cannot "${#missing[@]} packages are missing; sudo asks for a password and there is no terminal to answer it" "$command"
  fi
  as_root=(sudo)
fi

echo "setup: ${#missing[@]} of ${#packages[@]} packages are missing; this installs them:"
echo "  $command"
[ $dry_run = no ] || exit 0
as_root+=(env DEBIAN_FRONTEND=noninteractive)
"${as_root[@]}" apt-get update -q </dev/null || cannot "the package lists could not be fetched (network?)" "$command"
"${as_root[@]}" "${install[@]}" </dev/null || cannot "apt-get could not install them; its messages above say why" "$command"
echo "setup: done"
