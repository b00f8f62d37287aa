#!/usr/bin/env bash
# labels: gpu
# timeout: 300
# No kernel spills registers or takes so many that fewer than half of a multiprocessor's threads fit (64 x 1024).
# Needs the CUDA compiler, no GPU; exit 77 (skipped) without it.
exec "$(dirname "$0")/../../scripts/cuda_resources.sh" 64
