#!/usr/bin/env bash
# Packs what a machine with a GPU needs to run all checks and benches, when nothing can be installed or downloaded there: programs, tests, PyTorch's
# peers, the CUDA module, Open MPI with its plugins, and the libraries they need beside glibc. CUDA's own libraries (cuBLASLt, NCCL, the driver) come from
# that machine. Usage:
#   packaging/make_bundle.sh [--build DIR] [--out DIR]     default: build, packages
# leaves OUT/thinwire-gpu.tar.gz, and OUT/thinwire-gpu.sh, which unpacks the same into the folder it is given and runs all checks:
#   sh thinwire-gpu.sh FOLDER [RESULTS]
# The unpacked folder may be moved anywhere. Exit: 0, 2 usage, 3 something is not built or the bundle is larger than 40 MiB.
set -euo pipefail
trap 'echo "make_bundle.sh: line $LINENO failed: $BASH_COMMAND" >&2' ERR
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build out=$root/packages limit=$((40 << 20))
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(cd "${2:?--build needs a folder}" && pwd); shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
  esac
done
fail() { echo "make_bundle.sh: $1" >&2; exit 3; }

programs=(doctor bench_device train_gpt bench_codec bench_collective)
tests=(device_tests)  # every test of tests/{gpu,models,collectives} that needs a device
# Plugins for interconnects that a single machine does not have would pull in a hundred more libraries.
unwanted_plugins='ucx|ofi|psm|usnic|openib|mtl|cuda|slurm|flux|jsm|monitoring|romio|oshmem|scoll|spml|memheap|sshmem|atomic|gridengine|treematch|munge|mca_osc|mca_io_|mca_fs_|mca_fcoll|mca_fbtl|mca_sharedfp|vprotocol'

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/thinwire-gpu
mkdir -p "$top"/{bin,lib,tests/gpu,openmpi/plugins,openmpi/etc,pmix}

for program in "${programs[@]}"; do
  [ -x "$build/bin/$program" ] || fail "$build/bin/$program is not built; run: ninja -C $build $program"
  cp "$build/bin/$program" "$top/bin/"
done
for program in "${tests[@]}"; do
  [ -x "$build/tests/$program" ] || fail "$build/tests/$program is not built; run: ninja -C $build $program"
  cp "$build/tests/$program" "$top/bin/"
done
[ -e "$build/lib/libthinwire_cuda.so" ] || fail "$build/lib/libthinwire_cuda.so is not built; that needs the CUDA compiler: ninja -C $build thinwire_cuda"
cp "$build/lib/libthinwire_cuda.so" "$top/lib/"
cp "$root/tests/gpu/run_all_checks.sh" "$top/tests/gpu/"
mkdir "$top/peers" && cp "$root"/bench/peers/*.py "$top/peers/"
cp "$root/LICENSE" "$root/docs/device.md" "$top/"

# Open MPI: the launcher, its daemon, plugins and texts.
info() { ompi_info --path "$1" --parsable | sed -n "0,/^path:$1:/s/^path:$1://p"; }
command -v ompi_info >/dev/null || fail "ompi_info is not there: install Open MPI (scripts/setup.sh does)"
cp -L "$(command -v mpirun)" "$top/bin/mpirun"
cp -L "$(command -v orted)" "$top/bin/orted"
find "$(info pkglibdir)" -name '*.so' | grep -vE "/[^/]*($unwanted_plugins)[^/]*$" | xargs cp -Lt "$top/openmpi/plugins"
cp -rL "$(info pkgdatadir)" "$top/openmpi/share"
cp -L "$(info sysconfdir)/openmpi-mca-params.conf" "$top/openmpi/etc/" 2>/dev/null || true

users_of() { # users_of SONAME FILE...: those that load it themselves
  local soname=$1
  shift
  { objdump -p "$@" 2>/dev/null || true; } | awk -v name="$soname" '/: +file format / { sub(/: +file format .*/, ""); file = $0 } $1 == "NEEDED" && $2 == name { print file }'
}
# HDF5 can read files from a network, and our programs multiply bf16 matrices on the host: neither is wanted here, and both would take 20 MiB.
hdf5=$(ldd "$top/bin/bench_device" | awk '$1 ~ /^libhdf5[_a-z]*\.so/ && !found { found = $3 } END { print found }')
[ -z "$hdf5" ] || cp -Ln "$hdf5" "$top/lib/"
for soname in $(objdump -p "$hdf5" | awk '$1 == "NEEDED" && $2 ~ /^(libcurl|libcrypto)/ { print $2 }'); do
  [ -z "$(users_of "$soname" "$top"/bin/* "$top"/openmpi/plugins/*.so "$top"/pmix/*.so)" ] || continue
  "$root/packaging/stand_in.sh" "$top/lib/$soname" abort "$top/lib/$(basename "$hdf5")"
done
onednn=$(objdump -p "$top/bin/train_gpt" | awk '$1 == "NEEDED" && $2 ~ /^libdnnl/ { print $2 }')
if [ -n "$onednn" ]; then  # 3: dnnl_unimplemented; an instruction set of 0 says that it is not there (kernels/nn/gemm/onednn_product.cpp)
  mapfile -t users < <(users_of "$onednn" "$top"/bin/*)
  "$root/packaging/stand_in.sh" "$top/lib/$onednn" 3 "${users[@]}"
fi

# Libraries: what is loaded, and what that needs, except glibc's own, which belong to the machine's loader.
glibc='^(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux-x86-64|libanl|libnsl|libcuda|libnvidia.*)\.so'
# (awk reads to the end: ldd whose reader is gone exits 1, and pipefail would end the script here.)
pmix_library=$(ldd "$top"/openmpi/plugins/*pmix_ext* 2>/dev/null | awk '/libpmix/ && !found { found = $3 } END { print found }')
if [ -n "$pmix_library" ]; then
  pmix=$(find "$(dirname "$(readlink -f "$pmix_library")")" -type d -name pmix | awk '/lib\/pmix$/ && !found { found = $0 } END { print found }')
  [ -z "$pmix" ] || find "$pmix" -name '*.so' | grep -vE "/[^/]*($unwanted_plugins)[^/]*$" | xargs -r cp -Lt "$top/pmix"
fi
while read -r library; do
  [ "$(basename "$library")" = libthinwire_cuda.so ] || cp -Ln "$library" "$top/lib/"
done < <({ find "$top" -name '*.so' -print0; find "$top/bin" -type f -print0; } | LD_LIBRARY_PATH=$top/lib xargs -0 ldd 2>/dev/null |
  awk -v top="$top/" '$2 == "=>" && $3 ~ /^\// && index($3, top) != 1 { print $3 }' | sort -u | grep -vE "/(${glibc#^})")
find "$top" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
# What is newer than Ubuntu 22.04's glibc, and no more than random bytes, comes along; `run` loads it.
cc -shared -fPIC -O1 -Wl,-soname,libolder_glibc.so -o "$top/lib/libolder_glibc.so" "$root/packaging/older_glibc.c"
find "$top" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0 | xargs -0 /usr/bin/python3 "$root/packaging/older_glibc.py" "$top/lib/libolder_glibc.so" > "$top/requires-glibc"
# Each test program of the build by its name: the one program that holds them all, with the suites of that file.
for source in $(cd "$root/tests" && find gpu models collectives -name 'test_*device*.cpp'); do
  suites=$(sed -nE 's/^TEST(_F|_P)?\((\w+),.*/\2.*/p' "$root/tests/$source" | sort -u | paste -sd:)
  name=${source%.cpp} name=${name//\//.}
  printf '#!/bin/sh\nexec "$(dirname "$0")/device_tests" --gtest_filter="%s" "$@"\n' "$suites" > "$top/bin/$name"
  chmod +x "$top/bin/$name"
done
git -C "$root" rev-parse HEAD > "$top/commit" 2>/dev/null || echo unknown > "$top/commit"

cat > "$top/run" <<'RUN'
#!/bin/sh
# run PROGRAM ARGUMENT...: a program of this bundle, or any other, with the bundle's libraries and Open MPI, wherever the folder lies.
here=$(cd "$(dirname "$0")" && pwd)
PATH=$here/bin:$PATH
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_PRELOAD=libolder_glibc.so${LD_PRELOAD:+ $LD_PRELOAD}
OPAL_PREFIX=$here/openmpi OPAL_BINDIR=$here/bin OPAL_LIBDIR=$here/lib OPAL_PKGLIBDIR=$here/openmpi/plugins
OPAL_PKGDATADIR=$here/openmpi/share OPAL_SYSCONFDIR=$here/openmpi/etc OMPI_MCA_mca_base_component_path=$here/openmpi/plugins
PMIX_INSTALL_PREFIX=$here/pmix PMIX_PKGLIBDIR=$here/pmix PMIX_MCA_mca_base_component_path=$here/pmix
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HDF5_USE_FILE_LOCKING=FALSE
OMPI_MCA_plm_rsh_agent=/bin/sh  # never used on one machine, but without ssh or another word here nothing starts
export PATH LD_LIBRARY_PATH LD_PRELOAD OPAL_PREFIX OPAL_BINDIR OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_PKGDATADIR OPAL_SYSCONFDIR OMPI_MCA_mca_base_component_path
export PMIX_INSTALL_PREFIX PMIX_PKGLIBDIR PMIX_MCA_mca_base_component_path OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM HDF5_USE_FILE_LOCKING OMPI_MCA_plm_rsh_agent
exec "$@"
RUN
chmod +x "$top/run" "$top/tests/gpu/run_all_checks.sh"

mkdir -p "$out"
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -cf - thinwire-gpu | gzip > "$out/thinwire-gpu.tar.gz"
cat > "$out/thinwire-gpu.sh" <<'STUB'
#!/bin/sh
# thinwire for a machine with a GPU. sh thinwire-gpu.sh FOLDER [RESULTS]: unpacks into FOLDER and runs all checks and benches.
set -e
folder=${1:?usage: sh thinwire-gpu.sh FOLDER [RESULTS]}
mkdir -p "$folder"
sed '1,/^__ARCHIVE__$/d' "$0" | tar -xzf - -C "$folder"
exec "$folder/thinwire-gpu/tests/gpu/run_all_checks.sh" ${2:+--out "$2"}
__ARCHIVE__
STUB
cat "$out/thinwire-gpu.tar.gz" >> "$out/thinwire-gpu.sh"
size=$(stat -c %s "$out/thinwire-gpu.sh")
echo "$out/thinwire-gpu.tar.gz: $((size >> 20)).$(((size % (1 << 20)) * 10 >> 20)) MiB, needs glibc $(cat "$top/requires-glibc")"
[ "$size" -le "$limit" ] || fail "the bundle is larger than 40 MiB; largest: $(cd "$top" && find . -type f -size +4M -printf '%s %p\n' | sort -rn | head -5 | tr '\n' ' ')"
