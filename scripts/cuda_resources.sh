#!/usr/bin/env bash
# Registers, shared memory, stack and spills of every CUDA kernel, per architecture, held to limits (usage below).
# 64 registers: two thousand threads, all that fit a multiprocessor, find room (of 65536 registers on every architecture built for).
# Kernels that keep a tile in registers on purpose are named below with a limit of their own; the last name that fits counts.
set -euo pipefail
self=${0##*/}
usage() {
  cat <<USAGE
usage: $self [--help] [BUILD]

Prints registers, shared memory, stack and spills of every CUDA kernel: of those that the build of the module in the folder BUILD recorded
(scripts/record_cuda_resources.sh); without BUILD it compiles them.

Exit status: 0 fine; 1 a kernel spills, uses the stack or exceeds its limit of registers; 2 wrong usage; 3 BUILD is missing or holds no
recordings; 77 no CUDA compiler.
USAGE
}
case ${1-} in
  --help | -h) usage; exit 0 ;;
  -*) echo "$self: unknown option '$1'" >&2; usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }
limits='attention_forward=168 attention_forward_bf16<128>=255 attention_backward=255 default=64'
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# -gt 0 ]; then
  [ -d "$1" ] || { echo "$self: there is no folder '$1'" >&2; exit 3; }
  find "$1" -name '*.cu.o.resources' -print0 | sort -z | xargs -0 -r cat -- > "$folder/log"
  [ -s "$folder/log" ] || { echo "$self: no recordings (*.cu.o.resources) below '$1': build the CUDA module there, or leave the folder out to compile" >&2; exit 3; }
else
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [ -x "$nvcc" ] || { echo "no CUDA compiler (nvcc): nothing to look at"; exit 77; }
  cd "$root"
  find core kernels collectives -name '*.cu' | while read -r file; do
    "$nvcc" -std=c++20 -O3 --expt-relaxed-constexpr -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
      -Xcompiler=-fPIC -Xptxas -v -I. -c "$file" -o "$folder/object.o" 2>&1
  done > "$folder/log"
fi
c++filt < "$folder/log" | awk -v limits="$limits" '
  BEGIN { count = split(limits, pairs, " "); for (i = 1; i <= count; i++) { split(pairs[i], pair, "="); names[i] = pair[1]; limit_of[pair[1]] = pair[2] } }
  /Compiling entry function/ { split($0, q, "\x27"); name = q[2]; arch = q[4]; sub(/^void /, "", name); gsub(/\(anonymous namespace\)::|thinwire::cuda::/, "", name); sub(/\(.*/, "", name); stack = 0 }
  /bytes stack frame/ {
    stack = $1; spill = $0; sub(/.*stack frame, /, "", spill)
    spilled = spill !~ /^0 bytes spill stores, 0 bytes spill loads/
  }
  /Used [0-9]+ registers/ {
    match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
    smem = 0; if (match($0, /[0-9]+ bytes smem/)) smem = substr($0, RSTART, RLENGTH) + 0
    limit = limit_of["default"]
    for (i = 1; i <= count; i++) if (index(name, names[i])) limit = limit_of[names[i]]
    why = ""
    if (spilled) why = spill
    if (stack > 0) why = why " " stack " bytes of stack"
    if (registers > limit) why = why " over the limit of " limit
    if (why != "") failed = 1
    kernels++
    printf "%-6s %3d of %3d registers %5d B shared %s %s\n", arch, registers, limit, smem, name, why == "" ? "" : "<--" why
    spilled = 0; stack = 0
  }
  END { if (!kernels) { print "no kernel found"; exit 1 } print kernels " kernels: " (failed ? "FAILED" : "no spills, no stack, all within their limits"); exit failed }'
