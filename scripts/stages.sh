# Stages of run_all.sh and run_tests.sh: each is announced, timed, logged, and stops the script when it fails.
# Sourced, not executed. The including script sets `log_dir` before the first quiet stage.
# shellcheck shell=bash

stage_count=0
stage_times=''
script_started=$(date +%s%N)

tenths_since() { echo $((($(date +%s%N) - $1) / 100000000)); }
seconds() { echo "$(($1 / 10)).$(($1 % 10)) s"; }

# finish_stage NAME STARTED STATUS [LOG]
finish_stage() {
  local took
  took=$(tenths_since "$2")
  stage_times+=$(printf '\n  %-12s %10s' "$1" "$(seconds "$took")")
  if [ "$3" -ne 0 ]; then
    [ -z "${4-}" ] || { echo "--- last lines of $4:"; tail -n 40 "$4"; } >&2
    echo "${0##*/}: stage '$1' failed with exit status $3 after $(seconds "$took")${4:+; its whole output is in $4}" >&2
    exit "$3"
  fi
  echo "== $1: $(seconds "$took")"
}

# stage NAME COMMAND...: output goes to the terminal.
stage() {
  local name=$1 started status=0
  shift
  started=$(date +%s%N)
  stage_count=$((stage_count + 1))
  echo "== $name"
  "$@" </dev/null || status=$?
  finish_stage "$name" "$started" $status
}

# quiet_stage NAME COMMAND...: output goes to a log, of which the end is shown when the stage fails.
quiet_stage() {
  local name=$1 started status=0
  shift
  started=$(date +%s%N)
  stage_count=$((stage_count + 1))
  mkdir -p "$log_dir"
  echo "== $name (output: $log_dir/$name.log)"
  "$@" </dev/null >"$log_dir/$name.log" 2>&1 || status=$?
  finish_stage "$name" "$started" $status "$log_dir/$name.log"
}

print_stage_times() {
  echo "Times:$stage_times"
  printf '  %-12s %10s\n' total "$(seconds "$(tenths_since "$script_started")")"
}

# Compilers take up to 1.2 GiB each: on a machine with many cores and little memory, fewer jobs.
build_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1258291)}' /proc/meminfo)
  [ "${by_memory:-1}" -ge 1 ] || by_memory=1
  [ "$by_memory" -lt "$(nproc)" ] && echo "$by_memory" || nproc
}
