#!/usr/bin/env bash
# Pre-trains the BERT that the text study fine-tunes, and makes the tasks: corpus, vocabulary, training, a folder of Hugging Face's layout.
# Killed at any moment, the same command goes on: each part is there whole or not at all, and training resumes from its last checkpoint.
#
# usage: pretrain.sh [--out DIR] [--text FILE|FOLDER] [--pieces N] [--config FILE.toml] [--ranks N] [--steps N] [--learning-rate R] [options of train_gpt]
#   --out DIR       (text_study) gets corpus/ vocab.txt pretrained.h5 bert/ and tasks/
#   --text PATH     your own text instead of the study's corpus (scripts/setup.sh --study); then no tasks are made
#   --pieces N      (16000) pieces of the vocabulary that is learnt from the text
#   --ranks N       (1) of the training, started by mpirun; how they split it is train_gpt's --tp, --pp and --dp
#   --config FILE   recipe (pretraining.toml beside this script); --steps, --learning-rate and other options of train_gpt overrule it
# THINWIRE_BIN_DIR names a folder of programs to use in place of build/bin. Exit: 0, 2 usage, 3 something is missing, else as the program that failed.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
self=${0##*/}
usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
die() { echo "$self: $2" >&2; exit "$1"; }

out=text_study text='' pieces=16000 config=$here/pretraining.toml ranks=1 training=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    --out | --text | --pieces | --config | --ranks)
      [ $# -gt 1 ] || die 2 "$1 needs a value"
      case $1 in --out) out=$2 ;; --text) text=$2 ;; --pieces) pieces=$2 ;; --config) config=$2 ;; --ranks) ranks=$2 ;; esac
      shift 2 ;;
    --checkpoint | --resume | --vocabulary | --vocab | --from | --data) die 2 "$1 is this script's own; see --help" ;;
    --*) [ $# -gt 1 ] || die 2 "$1 needs a value"; training+=("$1" "$2"); shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || die 2 "--ranks $ranks is no number of ranks"
[ -r "$config" ] || die 3 "the recipe $config cannot be read"
[ -z "$text" ] || [ -e "$text" ] || die 3 "the text $text is not there"

bin=${THINWIRE_BIN_DIR:-}
for folder in "$here/../../build/bin" "$here/../../../../bin"; do [ -n "$bin" ] || [ ! -x "$folder/train_gpt" ] || bin=$folder; done
for program in train_gpt wordpiece export_model; do
  [ -x "$bin/$program" ] || die 3 "${bin:-build/bin}/$program is not built; run: cmake --build --preset default --target train_gpt wordpiece export_model"
done
mkdir -p "$out" || exit 3
exec 9>>"$out/lock"
# What a killed run left of MPI's helpers ends within seconds, or later on a busy machine; a run that lives is not waited for.
deadline=$((SECONDS + 120))
told=no
until flock --nonblock 9; do
  [ $told = yes ] || echo "$self: waiting for what another run left in $out" >&2
  told=yes
  owner=$(cat "$out/lock")
  { [ -z "$owner" ] || [ ! -e "/proc/$owner" ]; } && [ $SECONDS -lt $deadline ] || die 3 "another $self (process ${owner:-unknown}) works in $out"
  sleep 0.2
done
echo $$ >"$out/lock"

# A model that is there is not taken for one that other options would make; called without any, the script asks for what is there.
asked="--ranks $ranks --config ${config##*/}${training[*]:+ ${training[*]}}"
if [ -e "$out/bert" ] && [ -e "$out/pretrained_by" ] && [ ${#training[@]} -gt 0 ] && [ "$(cat "$out/pretrained_by")" != "$asked" ]; then
  die 2 "$out/bert was pre-trained by $(cat "$out/pretrained_by"), not by $asked; choose another --out"
fi

# part NAME COMMAND...: COMMAND writes the folder $out/NAME.partial, which becomes $out/NAME.
part() {
  local name=$1
  shift
  [ ! -e "$out/$name" ] || return 0
  rm -rf "$out/$name.partial"
  "$@" --out "$out/$name.partial"
  mv "$out/$name.partial" "$out/$name"
}
if [ -z "$text" ]; then
  part corpus /usr/bin/python3 "$here/make_corpus.py"
  part tasks /usr/bin/python3 "$here/make_tasks.py" --seed 1
  text=$out/corpus
fi
[ -e "$out/vocab.txt" ] || "$bin/wordpiece" learn --text "$text" --size "$pieces" --out "$out/vocab.txt"

if [ ! -e "$out/bert" ]; then
  checkpoint=$out/pretrained.h5 start=()
  # Options that come later overrule none that came before: the recipe is the file's, these are the run's.
  options=(--config "$config" --text "$text" --vocabulary "$out/vocab.txt" --vocab "$(wc -l <"$out/vocab.txt")" --checkpoint "$checkpoint" "${training[@]}")
  steps=$("$bin/train_gpt" "${options[@]}" --print-config | sed -n 's/^steps = \([0-9]*\).*/\1/p')
  done=0
  if [ -e "$checkpoint" ]; then
    done=$("$bin/export_model" --checkpoint "$checkpoint" | sed -n 's/.* after \([0-9]*\) steps.*/\1/p')
    start=(--resume "$checkpoint")
    echo "$self: goes on after step $done of $steps"
  fi
  echo "$asked" >"$out/pretrained_by"
  launch=()
  # As a sweep starts its ranks: by root, too, who is the only user of a container, and where there are more of them than cores.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 HDF5_USE_FILE_LOCKING=FALSE
  if [ "$ranks" -gt 1 ]; then
    launch=(mpirun --oversubscribe --bind-to none -n "$ranks")
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  fi
  [ "$done" -ge "$steps" ] || "${launch[@]}" "$bin/train_gpt" "${options[@]}" "${start[@]}"
  "$bin/export_model" --checkpoint "$checkpoint" --vocabulary "$out/vocab.txt" --out "$out/bert"
fi
echo "$self: $out/bert is there; fine-tune it: train_gpt --from $out/bert --model bert:task=... --data task:name=... --text ${out}/tasks (docs/text.md)"
