#!/usr/bin/env bash
# labels: install
# timeout: 60
# packaging/older_glibc.py lets a program that wants nothing newer than random bytes start where glibc is older than 2.36, and leaves all others alone.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
command -v cc >/dev/null || skip "no C compiler"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
loader=$(ldd /bin/sh | awk '/ld-linux/ { print $1 }') libc=$(ldd /bin/sh | awk '$1 ~ /^libc\.so/ { print $3 }')
older() { /usr/bin/python3 "$root/packaging/older_glibc.py" ./libolder_glibc.so "$@"; }
printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { unsigned a = arc4random(), b[8]; arc4random_buf(b, sizeof b); return a == b[7] || puts("random") < 0; }\n' > program.c
cc -o program program.c -Wno-implicit-function-declaration 2>/dev/null || skip "this glibc is older than 2.36 itself"
cc -shared -fPIC -O1 -Wl,-soname,libolder_glibc.so -o libolder_glibc.so "$root/packaging/older_glibc.c"
mkdir old && sed 's/GLIBC_2\.36/GLIBC_9.36/g' "$libc" > old/libc.so.6  # as an older one looks to the loader

property "it is refused before, and runs afterwards, with an older glibc and with this one"
run "$loader" --library-path old:. ./program
expect_output "version \`GLIBC_2.36' not found"
needs=$(older program libolder_glibc.so)
[ "$(printf '%s\n2.36\n' "$needs" | sort -V | head -1)" = "$needs" ] && [ "$needs" != 2.36 ] || fail "it still needs glibc $needs"
run "$loader" --library-path old:. --preload libolder_glibc.so ./program
expect_equal "$status $output" "0 random" "with the older glibc"
run env LD_LIBRARY_PATH=. LD_PRELOAD=libolder_glibc.so ./program
expect_equal "$status $output" "0 random" "with this one"

property "what wants more of a version keeps its need, and files that are no programs are left alone"
printf '#include <stdlib.h>\n#include <sys/mount.h>\nint main(void) { return fsopen("", 0) + (int)arc4random(); }\n' > more.c
cc -o more more.c -Wno-implicit-function-declaration
cp more before
expect_equal "$(older more)" "2.36" "need of a program that wants fsopen too"
cmp -s more before || fail "it was changed"
echo text > text && older text > /dev/null && expect_equal "$(cat text)" text
finish
