#!/usr/bin/env bash
# Registers, shared memory and spills of every CUDA kernel, per architecture. Exit: 0 fine, 1 a kernel spills or
# exceeds the limit of registers, 77 no CUDA compiler. Usage: scripts/cuda_resources.sh [MAX_REGISTERS, default 64]
set -euo pipefail
limit=${1:-64}
root=$(cd "$(dirname "$0")/.." && pwd)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "no CUDA compiler (nvcc): nothing to look at"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$root"
find core kernels collectives -name '*.cu' | while read -r file; do
  "$nvcc" -std=c++20 -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -Xcompiler=-fPIC -Xptxas -v -I. -c "$file" -o "$folder/object.o" 2>&1
done > "$folder/log"
c++filt < "$folder/log" | awk -v limit="$limit" '
  /Compiling entry function/ { split($0, q, "\x27"); name = q[2]; arch = q[4]; sub(/^void /, "", name); sub(/\(.*/, "", name) }
  /spill stores/ { spill = $0; sub(/.*stack frame, /, "", spill); spilled = spill !~ /^0 bytes spill stores, 0 bytes spill loads/ }
  /Used [0-9]+ registers/ {
    match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
    smem = 0; if (match($0, /[0-9]+ bytes smem/)) smem = substr($0, RSTART, RLENGTH) + 0
    bad = spilled || registers > limit; failed = failed || bad; kernels++
    printf "%-6s %3d registers %5d B shared %s %s\n", arch, registers, smem, name, bad ? "<-- " (spilled ? spill : "over the limit of " limit) : ""
  }
  END { if (!kernels) { print "no kernel found"; exit 1 } print kernels " kernels, limit " limit " registers: " (failed ? "FAILED" : "ok"); exit failed }'
