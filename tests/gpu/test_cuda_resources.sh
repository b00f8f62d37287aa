#!/usr/bin/env bash
# labels: gpu
# timeout: 600
# No kernel spills registers, uses the stack, or takes more registers than its limit. Reads what the module's build recorded, or
# compiles; needs the CUDA compiler, no GPU; exit 77 (skipped) without it.
exec "$(dirname "$0")/../../scripts/cuda_resources.sh" ${THINWIRE_BUILD_DIR:+"$THINWIRE_BUILD_DIR"}
