#!/usr/bin/env bash
# labels: gpu
# timeout: 600
# slow: yes
# A kernel in a header is a template or static, and files with such headers pass nvcc with plain flags and warnings as errors: whatever flags a build system
# adds may hide what somebody else's does not. No GPU needed; the compiler's part is skipped without nvcc.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
cd "$root" || exit 1

property "kernels in headers are templates or static"
expect_equal "$(find core kernels collectives tests/fixtures -name '*.cuh' -exec awk '
  /__global__/ && !/^static / && before !~ /^template/ { print FILENAME ":" FNR ": " $0 }
  { before = $0 }' {} +)" "" "kernels that nvcc would warn of"

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ -x "$nvcc" ]; then
  property "nvcc -Werror all-warnings"
  scratch=$(mktemp -d) || exit 1
  trap 'rm -rf "$scratch"' EXIT
  headers=$(grep -rlE '^static __global__' --include=*.cuh core kernels collectives)
  [ -n "$headers" ] || fail "no header with a kernel of its own was found"
  files=$(for header in $headers; do grep -rlF "\"$header\"" --include=*.cu core kernels collectives; done | sort -u)
  for file in $files; do
    run "$nvcc" -std=c++20 --expt-relaxed-constexpr -Werror all-warnings -arch=sm_80 -I. -cuda "$file" -o "$scratch/out.ii"
    expect_status 0
  done
fi
finish
