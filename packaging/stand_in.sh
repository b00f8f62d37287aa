#!/usr/bin/env bash
# A library in place of one that is large and that nothing calls where a bundle runs: it has just the functions that its users name, and their versions.
#   packaging/stand_in.sh OUT/lib<name>.so.<n> ANSWER USER...
# ANSWER: a number that every function returns, or `abort`: say which function was called, and end the program. (dnnl_get_effective_cpu_isa returns 0,
# which no real oneDNN does: kernels/nn/gemm/onednn_product.cpp knows it by that.) USER: programs and libraries that load it. Exit: 0, 1 failed, 2 usage.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
out=$1 answer=$2
shift 2
soname=$(basename "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for user; do nm -D --undefined-only "$user"; done | awk '{ print $NF }' | tr -s '@' ' ' | sort -u > "$work/wanted"
real=$(ldd "$1" | awk -v name="$soname" '$1 == name && !found { found = $3 } END { print found }')
[ -e "$real" ] || { echo "stand_in.sh: $1 does not load $soname" >&2; exit 1; }
nm -D --defined-only "$real" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u > "$work/offered"
# name [version] of what is wanted from this library, by version.
join "$work/wanted" "$work/offered" | sort -k2 > "$work/symbols"
[ -s "$work/symbols" ] || { echo "stand_in.sh: nothing of $soname is used by $*" >&2; exit 1; }
awk -v answer="$answer" -v soname="$soname" '
  BEGIN { print "#include <stdio.h>\n#include <stdlib.h>" }
  seen[$1]++ { next }
  answer == "abort" { printf "void %s(void) { fputs(\"%s: %s is not in this bundle\\n\", stderr); abort(); }\n", $1, $1, soname; next }
  { printf "int %s(void) { return %s; }\n", $1, $1 == "dnnl_get_effective_cpu_isa" ? 0 : answer }' "$work/symbols" > "$work/functions.c"
awk 'NF == 2 && $2 != open { if (open) print "};"; print $2 " {"; open = $2 } NF == 2 { print "  " $1 ";" } END { if (open) print "};" }' "$work/symbols" > "$work/versions"
script=()
[ ! -s "$work/versions" ] || script=("-Wl,--version-script=$work/versions")
cc -shared -fPIC -O1 -w -fno-builtin -Wl,-soname,"$soname" "${script[@]}" -o "$out" "$work/functions.c"
