#!/usr/bin/env bash
# labels: install
# timeout: 300
# needs: doctor bench_device train_gpt bench_codec bench_collective device_tests
# The bundle for machines with a GPU: it is below 40 MiB, runs from another folder with its own libraries and Open MPI, and without a device
# all checks are SKIPPED with the reason.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build}
for part in bin/doctor bin/bench_device bin/train_gpt bin/bench_codec bin/bench_collective tests/device_tests lib/libthinwire_cuda.so; do
  [ -e "$build/$part" ] || skip "$build/$part is not built"
done
command -v objdump >/dev/null || skip "no objdump (binutils) to look at programs with"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

property "the script packs everything into less than 40 MiB"
run "$root/packaging/make_bundle.sh" --build "$build" --out made
expect_status 0
[ "$(stat -c %s made/thinwire-gpu.tar.gz)" -le $((40 << 20)) ] || fail "$(stat -c %s made/thinwire-gpu.tar.gz) bytes"
[ $failures -eq 0 ] || finish

property "unpacked elsewhere, all checks run or say why they cannot"
run sh made/thinwire-gpu.sh "$scratch/else where" "$scratch/results"
if [ "$status" = 77 ]; then
  expect_output "SKIPPED: the CUDA module opens, but "
  grep -q '"status":"SKIPPED","reason":"the CUDA module opens' results/summary.json || fail "summary: $(cat results/summary.json)"
else
  expect_status 0
  ls results/cells/*.h5 >/dev/null || fail "no records"
fi

property "no program looks outside the bundle but for glibc"
here="$scratch/else where/thinwire-gpu"
mv "$here" "$scratch/moved"
here="$scratch/moved"
outside=$("$here/run" ldd "$here"/bin/* "$here"/openmpi/plugins/*.so | awk '$2 == "=>" { print $3, $1 }' | grep -v "^$here/" |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.' | sort -u)
expect_equal "$outside" "" "libraries from outside"

property "the trainer and records work without the libraries that were left out"
expect_equal "$(ls "$here/lib" | grep -cE '^lib(gnutls|ldap|ssh|krb5|gssapi)')" 0 "libraries for reading from a network"
run env OMP_NUM_THREADS=1 "$here/run" "$here/bin/train_gpt" --steps 2 --hidden 32 --layers 1 --heads 2 --seq 16 --global-batch 2 --micro-batch 1 --out trained
expect_status 0
ls trained/cells/*.h5 >/dev/null || fail "no record"
run env OMP_NUM_THREADS=1 "$here/run" "$here/bin/train_gpt" --products bf16 --steps 1 --hidden 32 --layers 1 --heads 2 --seq 16 --global-batch 2 --micro-batch 1
[ "$status" != 0 ] || fail "bf16 products on the host without oneDNN"
expect_output "oneDNN is not here"

property "with an older glibc and nothing else on the machine the checks run, or say why they cannot"
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  "$root/tests/support/bare_machine.sh" "$scratch/machine"
  cp -r "$here" "$scratch/machine/thinwire-gpu"
  on_it() { # on_it COMMAND...: there, without a network of processes or files of this machine
    run unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount -t tmpfs none "$1/dev/shm" && exec chroot "$@"' _ "$scratch/machine" "$@"
  }
  on_it /usr/bin/env PATH=/bin HOME=/ /bin/bash /thinwire-gpu/tests/gpu/run_all_checks.sh --out /results
  expect_output "the CUDA module opens, but this machine has no NVIDIA driver"
  on_it /usr/bin/env PATH=/bin HOME=/ OMP_NUM_THREADS=1 /thinwire-gpu/run /thinwire-gpu/bin/mpirun --oversubscribe --bind-to none -n 2 /thinwire-gpu/bin/train_gpt \
    --dp 2 --text /thinwire-gpu/device.md --steps 2 --hidden 32 --layers 1 --heads 2 --seq 16 --global-batch 2 --micro-batch 1
  expect_status 0

  property "beside the toolkit's runtime libraries, and nothing else, programs load cuBLASLt with all that it needs"
  blas=$(find -L /usr/local/cuda/lib64 /usr/local/cuda/lib -maxdepth 1 -name 'libcublasLt.so.1[23]' 2>/dev/null | head -1)
  if [ -n "$blas" ]; then
    mkdir -p "$scratch/machine/usr/local/cuda/lib"
    with_toolkit() { # with_toolkit LIBRARY: a program of the bundle, the toolkit's LIBRARY loaded into it with every symbol looked up
      run unshare --mount bash -c 'mount --bind -o ro "$2" "$1/usr/local/cuda/lib" && m=$1 l=$3 && exec chroot "$m" /bin/env -i PATH=/bin HOME=/ /thinwire-gpu/run /bin/env \
        LD_BIND_NOW=1 LD_PRELOAD="libolder_glibc.so /usr/local/cuda/lib/$l" /thinwire-gpu/bin/bench_device --help' _ "$scratch/machine" "$(dirname "$blas")" "$1"
      expect_status 0
    }
    with_toolkit libthinwire_has_none.so
    expect_output "cannot be preloaded"  # what a library that does not load looks like
    with_toolkit "$(basename "$blas")"
    [ "$(grep -cE 'cannot be preloaded|cannot open|not found|undefined symbol' <<< "$output")" = 0 ] || fail "$output"
  else
    echo "   not looked at: no cuBLASLt in /usr/local/cuda"
  fi
else
  echo "   not looked at: that takes root"
fi

property "doctor runs ranks with the bundle's Open MPI, where the machine has none"
if unshare --mount true 2>/dev/null; then
  plugins=$(ompi_info --path pkglibdir --parsable | sed -n '0,/^path:pkglibdir:/s/^path:pkglibdir://p')
  run unshare --mount bash -c 'mount -t tmpfs none "$1" && exec "$2/run" "$2/bin/doctor" --quick --out "$3"' _ "$(dirname "$plugins")" "$here" "$scratch"
else
  run "$here/run" "$here/bin/doctor" --quick --out "$scratch"
fi
grep -qE '^ok +mpi ' <<< "$output" || fail "doctor: $output"
finish
