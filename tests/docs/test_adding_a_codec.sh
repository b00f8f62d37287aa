#!/usr/bin/env bash
# labels: docs
# timeout: 120
# The sample of docs/adding-a-codec.md really is one file: cut out of the page, compiled alone with the project's own
# flags, and linked into programs as they are, it is listed, benched, checked and tested.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build}
[ -f "$build/build.ninja" ] || skip "$build is no Ninja build folder: the flags of the build cannot be asked for"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$build"

# The command that builds TARGET, as the build would run it.
command_of() { ninja -t commands "$1" 2>/dev/null | tail -1; }

property "the page holds one file"
sed -n '/^```cpp$/,/^```$/p' "$root/docs/adding-a-codec.md" | sed '1d;$d' >"$work/scaled_sign.cpp"
grep -q 'register_codec' "$work/scaled_sign.cpp" && ! grep -q '^```' "$work/scaled_sign.cpp" || fail "the block is not a single codec"

property "it compiles with the flags of every other codec, warnings being errors"
object=$(ninja -t targets all | sed -nE 's/^(\S*kernels\/codec\/codecs\/dense\/none\.cpp\.o):.*/\1/p' | head -1)
compile=$(command_of "$object")
[ -n "$compile" ] || { fail "no build command for kernels/codec/codecs/dense/none.cpp"; finish; }
compile=$(sed -E "s#\S*kernels/codec/codecs/dense/none\.cpp\.o\.d#$work/sample.d#; s#-MT \S+##; s#-o \S+#-o $work/scaled_sign.o#; s#-c \S+#-c $work/scaled_sign.cpp#" <<<"$compile")
run bash -c "$compile"
expect_status 0
[ "$status" = 0 ] || finish

# link TARGET: the program with the sample's object added, in $work.
link() {
  local target=$1 name
  name=$(basename "$target")
  [ -x "$build/$target" ] || skip "$target is not built"
  target=$(realpath --relative-to "$build" "$build/$target") # of a joined test, the program that holds it
  run bash -c "$(command_of "$target" | sed -E "s#-o \S+#-o $work/$name $work/scaled_sign.o#")"
  expect_status 0
}

property "from a folder outside the tree it joins every program, and its .cu the emulated device"
mkdir "$work/mine"
cp "$work/scaled_sign.cpp" "$work/mine/"
cp "$root/tests/fixtures/codec/shift8.cu" "$work/mine/my_kernels.cu"
run cmake -S "$root" -B "$work/build" -G Ninja -DTHINWIRE_CUDA=OFF -DTHINWIRE_EXTRA_SOURCES="$work/mine"
expect_status 0
ninja -C "$work/build" -t commands bin/bench_codec >"$work/commands" 2>/dev/null
grep -q -- "-c $work/mine/scaled_sign.cpp" "$work/commands" || fail "bench_codec is built without the folder's codec"
grep -qr "my_kernels.cu" "$work/build/emulated" || fail "the emulated device is built without the folder's kernels"

property "bench_codec lists it, verifies it and measures it"
link bin/bench_codec
run "$work/bench_codec" --list
expect_output "scaled_sign"
expect_output "1 bit per element and the mean magnitude"
small=(--batch 2 --seq 64 --hidden 33 --threads 1 --generator gaussian --min-time 0 --max-time 0.05)
run "$work/bench_codec" "${small[@]}" --check --codec "scaled_sign scaled_sign:gain=0.5+ef"
expect_status 0
expect_output "OK"
run "$work/bench_codec" "${small[@]}" --json - --codec scaled_sign:gain=2
expect_status 0
expect_output '"codec":"scaled_sign:gain=2"'
expect_output '"payload_bytes":532' # 4 + ceil(2 * 64 * 33 / 8)
run "$work/bench_codec" "${small[@]}" --check --codec scaled_sing
expect_status 2
expect_output "did you mean 'scaled_sign'"

property "the tests of all codecs pass with it among them"
link tests/kernels.codec.test_all_codecs
run env THINWIRE_TEST_CODEC=scaled_sign "$work/kernels.codec.test_all_codecs" --gtest_filter='EveryCodec.*'
expect_status 0
run env THINWIRE_TEST_CODEC=not_there "$work/kernels.codec.test_all_codecs" --gtest_filter='EveryCodec.Stays*'
[ "$status" != 0 ] || fail "a limit that leaves no codec must not pass"
finish
