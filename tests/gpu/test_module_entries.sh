#!/usr/bin/env bash
# labels: gpu
# timeout: 60
# The CUDA module and the emulated one export exactly what the headers name; the CUDA module needs no CUDA library to load. No GPU needed.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build} modules=()
for module in "$build/tests/lib/libthinwire_cuda_emulated.so" "$build/lib/libthinwire_cuda.so"; do
  [ ! -e "$module" ] || modules+=("$module")
done
[ ${#modules[@]} -gt 0 ] || skip "no module was built in $build"
command -v nm >/dev/null || skip "no nm (binutils)"
cd "$root"

property "every function type of the headers is an entry point, and no other is"
named=$(grep -hoE 'using thinwire_(cuda|nccl)_[a-z0-9_]+_fn = ' core/device/device_abi.h core/device/device_graph_abi.h kernels/codec/cuda/device_kernels.h kernels/nn/device/device_nn.h collectives/communicator/device_nccl.h |
  sed 's/using //; s/_fn = //' | sort)
for module in "${modules[@]}"; do
  exported=$(nm -D --defined-only "$module" | awk '$2 == "T" { print $3 }' | grep '^thinwire_' | sort)
  expect_equal "$(diff <(echo "$named") <(echo "$exported"))" "" "difference between headers (<) and $(basename "$module") (>)"
done
[ "$(wc -l <<<"$named")" -ge 60 ] || fail "only $(wc -l <<<"$named") entry points are named"

property "cuBLASLt, NCCL and the driver are opened when they are needed, not with the module"
needed=$(objdump -p "${modules[@]}" 2>/dev/null | awk '/NEEDED/ { print $2 }' | grep -E 'cublas|nccl|libcuda|cudart' || true)
expect_equal "$needed" "" "libraries that the module needs to load"
finish
