#!/usr/bin/env bash
# labels: gpu
# timeout: 60
# The CUDA module and the emulated one export one function, through which programs find every entry point that they name; the CUDA module needs no
# CUDA library to load. No GPU needed.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build} modules=()
for module in "$build/tests/lib/libthinwire_cuda_emulated.so" "$build/lib/libthinwire_cuda.so"; do
  [ ! -e "$module" ] || modules+=("$module")
done
[ ${#modules[@]} -gt 0 ] || skip "no module was built in $build"
command -v nm >/dev/null && command -v strings >/dev/null || skip "no nm or strings (binutils)"
cd "$root"

property "a module exports thinwire_cuda_find and nothing else of ours" # but what the CUDA runtime inside it does
for module in "${modules[@]}"; do
  exported=$(nm -D --defined-only "$module" | awk '$2 == "T" { print $3 }' | grep -vE '^(cu|_|fat)')
  expect_equal "$exported" "thinwire_cuda_find" "exports of $(basename "$module")"
done

property "every entry point that host code names is registered in it"
# Names stand in quotes where they are looked up; those of kernels/nn are made by a macro.
named=$({
  grep -rhoE '"thinwire_(cuda|nccl)_[a-z0-9_]+"' --include=*.cpp --include=*.h core kernels collectives bench | tr -d '"' | grep -v '^thinwire_cuda_find$'
  sed -n '/define THINWIRE_NN_ENTRIES/,/^$/p' kernels/nn/device/device_dispatch.h | grep -oE 'X\([a-z_]+\)' | sed -E 's/X\((.*)\)/thinwire_cuda_\1/'
} | grep -vE '_$' | sort -u)
[ "$(wc -l <<<"$named")" -ge 60 ] || fail "only $(wc -l <<<"$named") entry points are named"
for module in "${modules[@]}"; do
  registered=$(strings "$module" | grep -E '^thinwire_(cuda|nccl)_[a-z0-9_]+$' | sort -u)
  expect_equal "$(comm -23 <(echo "$named") <(echo "$registered"))" "" "named by host code, missing in $(basename "$module")"
done

property "every entry point that a .cu file registers is used by somebody"
in_cuda=$(grep -rhoE '^THINWIRE_CUDA_ENTRY\([a-z0-9_]+' --include=*.cu core kernels collectives | sed 's/.*(//' | sort -u)
expect_equal "$(comm -23 <(echo "$in_cuda") <({ echo "$named"; grep -rhoE '"thinwire_(cuda|nccl)_[a-z0-9_]+"' --include=*.cpp --include=*.h tests | tr -d '"'; } | sort -u))" "" "registered, but called by nobody"

property "cuBLASLt, NCCL and the driver are opened when they are needed, not with the module"
needed=$(objdump -p "${modules[@]}" 2>/dev/null | awk '/NEEDED/ { print $2 }' | grep -E 'cublas|nccl|libcuda|cudart' || true)
expect_equal "$needed" "" "libraries that the module needs to load"
finish
