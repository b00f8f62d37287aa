#!/usr/bin/env bash
# Everything that needs a GPU, in one call and under eight minutes, what matters most first: checks of kernels, channels and the trainer against the
# host, benches of codecs and kernels, GPT-2 124M, and PyTorch's methods beside ours where PyTorch is there.
# Runs from an unpacked bundle (packaging/make_bundle.sh) or from a build. Usage:
#   tests/gpu/run_all_checks.sh [--out DIR] [--build DIR] [--smoke]
# --smoke: everything tiny, some seconds in all: for the emulated device (THINWIRE_CUDA_MODULE), whose rows are no GPU's and say so.
# Leaves in DIR (default: gpu-results) summary.json, one JSON per part, the records of the benches as HDF5 in cells/, PyTorch's rows in rows/, and
# logs; `sweep collect --out DIR` makes one file of them (docs/device.md).
# Exit: 0 nothing failed (summary.json says PASSED, or PARTIAL where a part ran out of its time before it was done), 1 something failed, 77 SKIPPED: no
# usable device, or a machine that cannot run the programs; summary.json says why.
set -uo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
out=gpu-results build=$here/build smoke=no
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --smoke) smoke=yes; shift ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
  esac
done
if [ -x "$here/run" ]; then
  run=("$here/run") bin=$here/bin tests=$here/bin peers=$here/peers
else
  run=() bin=$build/bin tests=$build/tests peers=$here/bench/peers
fi
mkdir -p "$out/logs" "$out/rows" && out=$(cd "$out" && pwd) || exit 1
started=$SECONDS budget=465 results=() failed=no partial=no device=
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# CUDA's libraries as Python packages bring them (cuBLASLt and NCCL where there is no toolkit), after those that the loader finds by itself.
of_python=$(python3 -c 'import glob, sys; print(":".join(f for p in sys.path if p for f in sorted(glob.glob(glob.escape(p) + "/nvidia/*/lib"))))' 2>/dev/null)
if [ -n "$of_python" ]; then
  echo "CUDA libraries of Python: $of_python"
  run=(env "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$of_python" ${run[@]+"${run[@]}"})
fi

quote() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n\t' '  '; }
summary() { # summary STATUS REASON
  { printf '{"status":"%s","reason":"%s","device":"%s","smoke":"%s","seconds":%d,"commit":"%s","parts":[' "$1" "$(quote "$2")" "$(quote "$device")" $smoke \
      $((SECONDS - started)) "$(cat "$here/commit" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null)"
    local separator=
    for part in ${results[@]+"${results[@]}"}; do printf '%s%s' "$separator" "$part"; separator=,; done
    printf ']}\n'; } > "$out/summary.json"
}
skip() { echo "SKIPPED: $1"; summary SKIPPED "$1"; exit 77; }
# part NAME LIMIT COMMAND...: runs it within its limit and what is left of the budget; its output goes to logs/NAME.log.
part() {
  local name=$1 limit=$2 left=$((budget - SECONDS + started)) from=$SECONDS status=0 word=PASSED reason='' wrapper=(${run[@]+"${run[@]}"})
  shift 2
  [ "$1" != python3 ] || wrapper=()  # the machine's Python with the machine's libraries
  if [ $left -lt 10 ]; then
    word=SKIPPED reason="no time left of $budget s"
  elif [[ $1 == /* && ! -x $1 ]]; then
    word=SKIPPED reason="$(basename "$1") is not here"
  else
    [ "$limit" -le $left ] || limit=$left
    timeout -k 5 "$limit" ${wrapper[@]+"${wrapper[@]}"} "$@" > "$out/logs/$name.log" 2>&1 </dev/null || status=$?
    case $status in
      0) ;;
      77) word=SKIPPED reason=$(grep -oE 'SKIPPED.*' "$out/logs/$name.log" | tail -1) ;;
      124 | 137)  # out of time, which is no failure; what it has found wrong until then is
        if grep -qsE '^\[  FAILED  \]|"status":"(WRONG|FAILED)"' "$out/logs/$name.log" "$out/$name.json"; then
          word=FAILED failed=yes reason="something is wrong, found before its $limit s were over"
        else
          word=PARTIAL partial=yes reason="not done after $limit s"
        fi
        ;;
      *) word=FAILED failed=yes reason="exit $status" ;;
    esac
  fi
  printf '%-8s %-28s %4d s  %s\n' $word "$name" $((SECONDS - from)) "${reason:0:100}"
  [ $word != FAILED ] || tail -15 "$out/logs/$name.log" | sed 's/^/    /'
  results+=("{\"name\":\"$name\",\"status\":\"$word\",\"exit\":$status,\"seconds\":$((SECONDS - from)),\"reason\":\"$(quote "$reason")\"}")
}
# checks NAME LIMIT RANKS PROGRAM ARGUMENT...: a test program, on so many ranks; its verdicts as JSON.
checks() {
  local name=$1 limit=$2 ranks=$3 program=$tests/$4 launch=()
  shift 4
  [ "$ranks" = 1 ] || launch=(env OMP_NUM_THREADS=1 mpirun --oversubscribe --bind-to none -n "$ranks")
  if [ ! -x "$program" ]; then part "$name" "$limit" "$program"; return; fi
  [ "$ranks" = 1 ] && export GTEST_OUTPUT=json:$out/$name.json
  part "$name" "$limit" ${launch[@]+"${launch[@]}"} "$program" "$@"
  unset GTEST_OUTPUT
}

if [ -e "$here/requires-glibc" ]; then
  have=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }') need=$(cat "$here/requires-glibc")
  [ "$(printf '%s\n%s\n' "$need" "${have:-0}" | sort -V | head -1)" = "$need" ] || skip "the bundle's programs need glibc $need, this machine has ${have:-another C library}; build from source here"
fi
for program in "$tests/gpu.test_device" "$bin/bench_device" "$bin/doctor"; do [ -x "$program" ] || skip "$program is not built"; done

# doctor looks at much that a GPU does not need; here only its word on CUDA counts.
${run[@]+"${run[@]}"} timeout 300 "$bin/doctor" --quick --out "$out" --json "$out/doctor.json" > "$out/logs/doctor.log" 2>&1 </dev/null
seen=$(grep -E '^[a-z]+ +cuda ' "$out/logs/doctor.log")
case $seen in
  *emulated*) [ $smoke = yes ] || skip "the device is emulated on the host: nothing here would be a GPU's number (--smoke goes through all parts in little)" ;;&
  *'a CUDA device can be used'*) device=${seen#*can be used: } ;;
  '') skip "doctor did not run: $(tail -1 "$out/logs/doctor.log")" ;;
  *) skip "$(printf '%s' "$seen" | sed 's/^.*no CUDA: //')" ;;
esac
echo "$device"
nvidia-smi -q > "$out/logs/device.log" 2>&1

block_codecs='group:bits=8 group group:bits=4,round=stochastic fp8 fp8:scale=tensor mx mx:element=e2m1 nvfp4 blockwise8 sign'
codecs='none cast quantize:bits=8 quantize:bits=4 quantize:bits=2 topk randomk powersgd:rank=16 autoencoder:fraction=0.0625,init=orthonormal'
if [ $smoke = yes ]; then
  few=(--gtest_filter='CudaDevice.EveryBackwardRule*') sizes=(64) size=(--batch 2 --seq 16) timing=(--min-time 0.005 --max-time 0.02)
  kernels=(--micro-batch 1 --tokens 16 --model-hidden 32 --heads 2 --model-layers 1 --vocab 101 --peak-size 32)
  model=(--hidden 32 --layers 1 --heads 2 --seq 16 --micro-batch 1 --global-batch 2 --steps 2) products=f32
  peer_codecs=(--rows 16 --hidden 4096 --seconds 0.01) peer_training=(--batch 1 --seq 16 --hidden 32 --layers 1 --heads 2 --vocab 101 --steps 2 --peak-size 64)
else
  few=() sizes=(1024 4096) size=(--batch 32 --seq 512) timing=(--max-time 0.4)  # 64 MiB, 256 MiB of f32
  kernels=()
  # GPT-2's vocabulary of 50257 in rows of whole 128 bytes, as Megatron-LM and llm.c pad it; PyTorch's model has the same
  model=(--hidden 768 --layers 12 --heads 12 --vocab 50304 --seq 1024 --micro-batch 8 --global-batch 8 --steps 25) products=bf16
  peer_codecs=(--seconds 0.4) peer_training=()
fi

# The trainer's default text is Python's standard library; a machine without it reads what is here.
text=()
if ! compgen -G '/usr/lib/python3*/os.py' > /dev/null && ! compgen -G '/usr/local/lib/python3*/os.py' > /dev/null && [ -e "$here/device.md" ]; then text=(--text "$here/device.md"); fi

checks test_device 100 1 gpu.test_device ${few[@]+"${few[@]}"}
codecs_of() { # codecs_of COLUMNS LIMIT CODECS [SUFFIX]
  local name=bench_device_$1${4:-}
  part "$name" "$2" "$bin/bench_device" --generator gaussian "${size[@]}" --hidden "$1" --codec "$3" "${timing[@]}" --out "$out" --json "$out/$name.json"
}
for columns in "${sizes[@]}"; do codecs_of "$columns" 60 "$codecs"; done
part bench_device_kernels 60 "$bin/bench_device" --what kernels "${kernels[@]}" "${timing[@]}" --out "$out" --json "$out/bench_device_kernels.json"
part train_gpt 90 "$bin/train_gpt" --device cuda --products $products "${model[@]}" ${text[@]+"${text[@]}"} --eval-interval 0 --peak-tflops measure --plan "GPT-2 124M, $products" --out "$out" --json "$out/train_gpt.json"
codecs_of "${sizes[-1]}" 60 "$block_codecs" _blocks
[ $smoke = yes ] || codecs_of 16384 110 "$codecs"  # 1 GiB: most of it is the host's, which checks every codec
if command -v python3 >/dev/null; then
  part peer_codecs 70 python3 "$peers/gpu_codecs.py" "${peer_codecs[@]}" --json "$out/rows/gpu_codecs.jsonl"
  part peer_training 110 python3 "$peers/gpu_training.py" "${peer_training[@]}" --json "$out/rows/gpu_training.jsonl"
fi
if [ $smoke = no ]; then  # emulated, these are tests of their own
  checks test_device_training 60 1 models.training.test_device_training  # 100 steps against the host among them
  checks test_device_parity 90 8 models.training.test_device_parity      # (tp, pp, dp) for 2, 4 and 8 ranks, here on one device
  checks test_device_channels 40 4 collectives.channel.test_device_channels
  checks test_device_codecs 60 4 collectives.channel.test_device_codecs
fi
devices=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || devices=0
if [ "$devices" -ge 2 ]; then
  checks test_nccl_device 60 "$devices" gpu.test_nccl_device
  checks test_device_nccl_channels 60 "$devices" collectives.channel.test_device_nccl_channels
fi
if command -v compute-sanitizer >/dev/null; then
  program=$tests/device_tests  # not a script in front of it
  part memcheck 90 compute-sanitizer --error-exitcode 1 "$program" --gtest_filter='CudaDevice.EveryBackwardRule*:CudaDevice.*ReportDamaged*:CudaDevice.*Residuals*'
  part racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 1 "$program" --gtest_filter='CudaDevice.EveryBackwardRule*'
fi

if [ $failed = yes ]; then summary FAILED "see logs/"; elif [ $partial = yes ]; then summary PARTIAL "parts ran out of their time"; else summary PASSED ""; fi
echo "$out/summary.json, $((SECONDS - started)) s"
[ $failed = no ]
