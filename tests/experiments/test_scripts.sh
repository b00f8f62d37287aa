#!/usr/bin/env bash
# labels: unit
# timeout: 60
# The scripts that a person starts: usage, what set-up decides, how a failing stage ends. Nothing is installed
# here: apt and its like are stand-ins that write down how they were called.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stand_in() { # NAME SCRIPT
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
mkdir "$work/bin"
stand_in dpkg-query 'p=${@: -1}; grep -qx -- "$p" "$WORK/missing" && exit 1; echo -n installed'
stand_in apt-get 'echo "apt-get $* [${DEBIAN_FRONTEND-}]" >>"$WORK/calls"; [ ! -e "$WORK/apt-fails" ]'
stand_in update-alternatives 'echo "Value: $(cat "$WORK/blas" 2>/dev/null || echo /x/openblas-openmp/y)"'
stand_in id 'cat "$WORK/uid"'
stand_in sudo '[ "$1" = -n ] && exit $(cat "$WORK/sudo-status"); exec "$@"'
setup() { run env WORK="$work" PATH="$work/bin:/usr/bin:/bin" "$root/scripts/setup.sh" "$@" </dev/null; }
calls() { cat "$work/calls" 2>/dev/null || true; }
reset() { rm -f "$work"/calls "$work"/apt-fails "$work"/blas; echo 0 >"$work/uid"; echo 0 >"$work/sudo-status"; : >"$work/missing"; }

property "set-up with nothing missing installs nothing"
reset
setup; expect_status 0; expect_equal "$(calls)" "" "calls of apt-get"

property "set-up as root installs exactly what is missing, without asking"
reset; printf 'ninja-build\nlibhdf5-dev\n' >"$work/missing"
setup; expect_status 0; expect_output "apt-get install"
expect_equal "$(calls | tail -n 1)" "apt-get install -y --no-install-recommends -o APT::Get::Upgrade-By-Source-Package=false ninja-build libhdf5-dev [noninteractive]" "last call"
expect_equal "$(calls | wc -l)" 2 "number of calls"

property "set-up that is only shown changes nothing"
reset; echo ninja-build >"$work/missing"
setup --dry-run; expect_status 0; expect_output "ninja-build"; expect_equal "$(calls)" "" "calls of apt-get"

property "texts for the stand-in tasks are fetched on request alone"
reset; printf 'wordnet-base\ndict-gcide\n' >"$work/missing"
setup; expect_status 0; expect_equal "$(calls)" "" "calls of apt-get"
setup --study; expect_status 0
expect_equal "$(calls | tail -n 1)" "apt-get install -y --no-install-recommends -o APT::Get::Upgrade-By-Source-Package=false wordnet-base dict-gcide [noninteractive]" "last call"
setup --list; [[ $output != *wordnet-base* ]] || fail "the ordinary list has wordnet-base"
setup --list --study; expect_output "wordnet-base"; expect_output "build-essential"

property "an ordinary user whose sudo works installs through it"
reset; echo ninja-build >"$work/missing"; echo 1000 >"$work/uid"
setup; expect_status 0; expect_output "sudo"; expect_equal "$(calls | wc -l)" 2 "number of calls"

property "without root and without usable sudo, set-up prints the exact command and ends with 3"
reset; echo ninja-build >"$work/missing"; echo 1000 >"$work/uid"; echo 1 >"$work/sudo-status"
setup; expect_status 3; expect_output "apt-get install -y --no-install-recommends -o APT::Get::Upgrade-By-Source-Package=false ninja-build"; expect_equal "$(calls)" "" "calls of apt-get"

property "an installation that fails ends with 3 and the command to repeat"
reset; echo ninja-build >"$work/missing"; touch "$work/apt-fails"
setup; expect_status 3; expect_output "apt-get update"

property "without apt, set-up lists the packages and ends with 3"
mkdir "$work/bare"
for tool in env bash sh cat dirname basename; do ln -s "$(command -v $tool)" "$work/bare/$tool"; done
run env PATH="$work/bare" "$root/scripts/setup.sh"; expect_status 3; expect_output "libopenmpi-dev"; expect_output "--skip-setup"

property "another flavour of OpenBLAS is named, with the command that changes it"
reset; echo /usr/lib/x/openblas-pthread/libopenblas.so.0 >"$work/blas"
setup; expect_status 0; expect_output "update-alternatives --set"

property "unknown options end with 2 and the usage, before anything is done"
for script in run_all.sh run_tests.sh scripts/setup.sh scripts/fuzz.sh scripts/tsan.sh scripts/cuda_resources.sh scripts/kill_campaign.py; do
  run "$root/$script" --no-such-option; expect_status 2; expect_output "--no-such-option"; expect_output "usage: "
  run "$root/$script" --help; expect_status 0; expect_output "usage: "
done
run "$root/run_all.sh" --profile enormous; expect_status 2; expect_output "enormous"
run "$root/run_all.sh" --ranks many; expect_status 2; expect_output "many"
run "$root/run_all.sh" --profile; expect_status 2; expect_output "needs a value"
run "$root/run_tests.sh" --jobs 0; expect_status 2; expect_output "--jobs"
run "$root/scripts/fuzz.sh" --seconds never; expect_status 2; expect_output "--seconds"
run "$root/scripts/kill_campaign.py" --of nothing; expect_status 2; expect_output "sweep, race, claims"

property "the usage of kill_campaign.py names the options that it takes"
run "$root/scripts/kill_campaign.py" --help
expect_equal "$(grep -F 'scripts/kill_campaign.py [' <<<"$output" | grep -oE -- '--[a-z-]+' | sort)" "$(sed '1,/^option/d' <<<"$output" | grep -oE '^  --[a-z-]+' | tr -d ' ' | sort)" "options"

property "cuda_resources.sh reads what a build recorded, in folders with spaces too, and holds kernels to their limits"
recorded() { # REGISTERS: what ptxas says of a kernel
  printf "ptxas info    : Compiling entry function '_Z5adderPf' for 'sm_90'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used %s registers, 128 bytes smem\n" "$1"
}
mkdir -p "$work/a build/x y"
recorded 40 >"$work/a build/x y/adder.cu.o.resources"
run "$root/scripts/cuda_resources.sh" "$work/a build"; expect_status 0; expect_output "1 kernels: no spills"; expect_output " 40 of  64 registers   128 B shared adder"
recorded 65 >"$work/a build/another.cu.o.resources"
run "$root/scripts/cuda_resources.sh" "$work/a build"; expect_status 1; expect_output "over the limit of 64"; expect_output "2 kernels: FAILED"

property "cuda_resources.sh compiles nothing for a folder that is missing or has no recordings"
mkdir "$work/empty"
run "$root/scripts/cuda_resources.sh" "$work/nowhere"; expect_status 3; expect_output "$work/nowhere"
run "$root/scripts/cuda_resources.sh" "$work/empty"; expect_status 3; expect_output "$work/empty"
run "$root/scripts/cuda_resources.sh" "$work/empty" "$work/empty"; expect_status 2

property "libFuzzer is fetched on request alone"
reset; echo libclang-rt-14-dev >"$work/missing"
setup; expect_status 0; expect_equal "$(calls)" "" "calls of apt-get"
setup --fuzz; expect_status 0
expect_equal "$(calls | tail -n 1)" "apt-get install -y --no-install-recommends -o APT::Get::Upgrade-By-Source-Package=false libclang-rt-14-dev [noninteractive]" "last call"

property "fuzz.sh lists every target that registers itself"
expect_equal "$("$root/scripts/fuzz.sh" --list | wc -l)" "$(cat "$root"/tests/fuzz/targets/*.cpp | grep -c 'register_target(')" "number of targets"

property "a folder that cannot be written ends with 3 and says so"
touch "$work/file"
run "$root/run_all.sh" --profile smoke --out "$work/file/below"; expect_status 3; expect_output "$work/file/below"

property "a failing stage stops the script with its own exit status, its name and its last lines"
cat >"$work/script" <<SCRIPT
set -euo pipefail
. "$root/scripts/stages.sh"
log_dir=$work/log
quiet_stage first echo all well
quiet_stage second sh -c 'echo the cause; exit 42'
quiet_stage third touch "$work/third"
SCRIPT
run bash "$work/script"
expect_status 42; expect_output "stage 'second' failed with exit status 42"; expect_output "the cause"; expect_output "$work/log/second.log"
[ ! -e "$work/third" ] || fail "the third stage was started"

property "stages read nothing from the terminal"
cat >"$work/script" <<SCRIPT
set -euo pipefail
. "$root/scripts/stages.sh"
log_dir=$work/log
stage reader sh -c '! read -r line'
print_stage_times
SCRIPT
run bash "$work/script" <<<"input"
expect_status 0; expect_output "total"
finish
