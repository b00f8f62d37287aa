#!/usr/bin/env bash
# labels: gpu
# timeout: 600
# No kernel spills registers, uses the stack, or takes more registers than its limit. Reads what the module's build recorded, or
# compiles where it recorded nothing (a build without CUDA); needs the CUDA compiler, no GPU; exit 77 (skipped) without it.
build=${THINWIRE_BUILD_DIR-}
[ -n "$build" ] && [ -n "$(find "$build" -name '*.cu.o.resources' -print -quit)" ] || build=
exec "$(dirname "$0")/../../scripts/cuda_resources.sh" ${build:+"$build"}
