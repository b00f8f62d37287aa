#!/usr/bin/env bash
# CMake's launcher of the CUDA compiler: runs the command it is given and keeps what ptxas says about each kernel beside the
# object, in OBJECT.resources, where scripts/cuda_resources.sh looks. All else the compiler says passes through.
set -uo pipefail
object=
for ((i = 1; i < $#; ++i)); do
  if [ "${!i}" = -o ]; then
    next=$((i + 1))
    object=${!next}
  fi
done
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$@" 2> "$said"
status=$?
report='ptxas info|bytes stack frame|^ *[0-9]+ bytes (spill|cumulative)|Function properties for'
[ $status -ne 0 ] || [ -z "$object" ] || grep -E "$report" "$said" > "$object.resources" || true
grep -vE "$report" "$said" >&2 || true
exit $status
