#!/usr/bin/env bash
# labels: gpu
# timeout: 60
# The CUDA module exports exactly what its headers name, needs no CUDA library to load, and finds NCCL by itself. No GPU needed.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
module=${THINWIRE_BUILD_DIR:-$root/build}/lib/libthinwire_cuda.so
[ -e "$module" ] || skip "the CUDA module was not built ($module)"
command -v nm >/dev/null || skip "no nm (binutils)"
cd "$root"

property "every function type of the headers is an entry point, and no other is"
named=$(grep -hoE 'using thinwire_(cuda|nccl)_[a-z0-9_]+_fn = ' core/device_abi.h kernels/codec/device_kernels.h kernels/nn/device_nn.h collectives/device_nccl.h |
  sed 's/using //; s/_fn = //' | sort)
exported=$(nm -D --defined-only "$module" | awk '$2 == "T" { print $3 }' | grep '^thinwire_' | sort)
expect_equal "$(diff <(echo "$named") <(echo "$exported"))" "" "difference between headers (<) and module (>)"
[ "$(wc -l <<<"$named")" -ge 60 ] || fail "only $(wc -l <<<"$named") entry points are named"

property "cuBLASLt, NCCL and the driver are opened when they are needed, not with the module"
needed=$(objdump -p "$module" 2>/dev/null | awk '/NEEDED/ { print $2 }' | grep -E 'cublas|nccl|libcuda|cudart' || true)
expect_equal "$needed" "" "libraries that the module needs to load"
finish
