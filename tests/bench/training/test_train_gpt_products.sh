#!/usr/bin/env bash
# labels: mpi
# timeout: 240
# needs: train_gpt,doctor
# Which library multiplies, from tuning a machine to the record of a run; and training with products in bf16, on any processor with AVX-512.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
bin=${THINWIRE_BIN_DIR:?run by ctest} program=$THINWIRE_BIN_DIR/train_gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset THINWIRE_MACHINE THINWIRE_SLOW_BF16
ranks() { local n=$1; shift; timeout 90 mpirun --oversubscribe --bind-to none -n "$n" "$program" "$@"; }
for i in $(seq 400); do echo "line $i of a text: $((i * 7919 % 1000)) tokens, $((i * 104729 % 997)) more"; done >"$work/text.txt"
small=(--hidden 32 --layers 2 --heads 2 --seq 32 --micro-batch 2 --global-batch 8 --eval-sequences 8 --text "$work/text.txt" --learning-rate 0.01 --warmup 2 --comm-dtype f32)
short=("${small[@]}" --steps 4)
loss_of() { grep -oE 'validation loss +[0-9.]+' <<<"$1" | grep -oE '[0-9.]+$'; }
id_of() { basename "$(ls "$1"/cells/*.h5)" .h5; }
# within LOSS LOSS RELATIVE
within() { awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && b > 0 && d <= r * b) }' || fail "losses $1 and $2 differ by more than $3 of them"; }

property "tuning writes a choice that names kernels, keeps the file's links, and says how to use it"
printf '[link."netns:1gbit"]\nlatency_us = 50\ngbps = 0.9\n' >"$work/machine.toml"
run "$bin/doctor" --tune "$work/machine.toml" --quick
expect_status 0
expect_output "export THINWIRE_MACHINE=$work/machine.toml"
expect_output "large_tn"
grep -qE '^library = "(openblas|onednn):kernels=[A-Za-z0-9]+' "$work/machine.toml" || fail "no choice in: $(cat "$work/machine.toml")"
grep -q 'netns:1gbit' "$work/machine.toml" || fail "the link is gone: $(cat "$work/machine.toml")"

property "a damaged file is not tuned over, and says what mends it"
printf '[products]\nlibrary = 1\n' >"$work/damaged.toml"
run "$bin/doctor" --tune "$work/damaged.toml" --quick
expect_status 2; expect_output "damaged.toml"; expect_output "take [products] out"

property "without a machine file, with one, and with a choice typed in, a run is three cells"
run ranks 2 --tp 2 "${short[@]}" --out "$work/plain"; expect_status 0
plain=$(loss_of "$output")
run env THINWIRE_MACHINE="$work/machine.toml" mpirun --oversubscribe --bind-to none -n 2 "$program" --tp 2 "${short[@]}" --out "$work/tuned"; expect_status 0
within "$(loss_of "$output")" "$plain" 0.001
run ranks 2 --tp 2 "${short[@]}" --product-library onednn --out "$work/onednn"; expect_status 0
within "$(loss_of "$output")" "$plain" 0.001
[ "$(printf '%s\n' "$(id_of "$work/plain")" "$(id_of "$work/tuned")" "$(id_of "$work/onednn")" | sort -u | wc -l)" = 3 ] || fail "cells share a record"

property "one choice gives the same bits again"
run ranks 2 --tp 2 "${short[@]}" --product-library onednn --out "$work/again"; expect_status 0
/usr/bin/python3 - "$work/onednn" "$work/again" <<'PY' || fail "the losses differ"
import glob, sys
try:
    import h5py
except ImportError:
    sys.exit(0)
def losses(folder):
    (record,) = glob.glob(folder + "/cells/*.h5")
    with h5py.File(record) as file:
        return list(file["training_curve"][:]["loss"])
a, b = losses(sys.argv[1]), losses(sys.argv[2])
assert len(a) == 4 and a == b, (a, b)
PY

property "choices that cannot be are refused before anything starts"
run "$program" "${short[@]}" --product-library mkl; expect_status 2; expect_output "openblas, onednn"
run "$program" "${short[@]}" --product-library openblas:kernels=Z80; expect_status 3; expect_output "Z80"; expect_output "doctor --tune"
sed 's/^processor = .*/processor = "another"/' "$work/machine.toml" >"$work/others.toml"
run env THINWIRE_MACHINE="$work/others.toml" "$program" "${short[@]}"; expect_status 2; expect_output "others.toml"; expect_output "another"
run env THINWIRE_MACHINE="$work/none.toml" "$program" "${short[@]}"; expect_status 3; expect_output "none.toml"
run env THINWIRE_MACHINE="$work/others.toml" "$bin/doctor" --only products; expect_status 0; expect_output "another"

property "ranks that would multiply differently do not start"
run timeout 60 mpirun --oversubscribe --bind-to none -n 1 env THINWIRE_MACHINE="$work/machine.toml" "$program" --tp 2 "${short[@]}" : -n 1 "$program" --tp 2 "${short[@]}"
[ "$status" != 0 ] || fail "two libraries in one job"
expect_output "rank 1 multiplies with another library"

if ! grep -qw avx512bw /proc/cpuinfo; then
  echo "SKIPPED: products in bf16: oneDNN needs AVX-512"
  finish
  exit
fi
half=("${small[@]}" --products bf16)
short_half=("${half[@]}" --steps 4)

property "bf16 is the processor's own or refused; only a test asks for the slow way"
if ! grep -qw avx512_bf16 /proc/cpuinfo; then
  run "$program" "${short_half[@]}"; expect_status 2; expect_output "AVX512_BF16"
fi
export THINWIRE_SLOW_BF16=1

property "training in bf16 ends near f32, and near itself on other splits"
run ranks 1 "${short_half[@]}" --out "$work/one"; expect_status 0
one=$(loss_of "$output")
run ranks 1 "${short[@]}"; expect_status 0
[ "$(loss_of "$output")" != "$one" ] || fail "bf16 gives the digits of f32: it did not multiply in bf16"
within "$one" "$(loss_of "$output")" 0.01
for split in "2 --tp 2" "2 --tp 2 --sequence-parallel true" "2 --pp 2" "2 --pp 2 --token-slices 2" "2 --dp 2" "2 --dp 2 --zero-stage 2" "2 --dp 2 --zero-stage 3" "4 --tp 2 --dp 2 --zero-stage 1"; do
  # shellcheck disable=SC2086
  run ranks $split "${short_half[@]}"; expect_status 0
  within "$(loss_of "$output")" "$one" 0.004
done

property "layers that run again in bf16 give the bits of those that kept their activations"
run ranks 1 "${short_half[@]}" --recompute full; expect_status 0
expect_equal "$(loss_of "$output")" "$one" "validation loss"

property "a BERT, whose norms stand behind, trains in bf16 near f32"
bert=(--model bert --data masked_text --vocab 259 --text "$work/text.txt" --hidden 32 --layers 2 --heads 2 --seq 32 --micro-batch 2 --global-batch 8 --eval-sequences 8 --learning-rate 0.01
  --warmup 2 --comm-dtype f32 --steps 4)
run ranks 1 "${bert[@]}"; expect_status 0
wide=$(loss_of "$output")
for split in "1" "2 --tp 2"; do
  # shellcheck disable=SC2086
  run ranks $split "${bert[@]}" --products bf16; expect_status 0
  [ "$(loss_of "$output")" != "$wide" ] || fail "bf16 gives the digits of f32: it did not multiply in bf16"
  within "$(loss_of "$output")" "$wide" 0.01
done

property "a resumed run in bf16 ends with the bits of an uninterrupted one"
run ranks 2 --dp 2 "${half[@]}" --steps 6 --checkpoint "$work/whole.h5"; expect_status 0
whole=$(loss_of "$output")
run ranks 2 --dp 2 "${half[@]}" --steps 3 --schedule-steps 6 --checkpoint "$work/half.h5"; expect_status 0
run ranks 2 --dp 2 "${half[@]}" --steps 6 --resume "$work/half.h5" --checkpoint "$work/half.h5"; expect_status 0
expect_equal "$(loss_of "$output")" "$whole" "validation loss"
/usr/bin/python3 - "$work/whole.h5" "$work/half.h5" <<'PY' || fail "the checkpoints differ"
import sys
try:
    import h5py
except ImportError:
    sys.exit(0)
def tensors(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()}) if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" and item.size > 1 else None)
    return found
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
assert a.keys() == b.keys() and len(a) > 10, (sorted(a)[:5], sorted(b)[:5])
different = [name for name in a if a[name] != b[name]]
assert not different, different[:5]
PY
finish
