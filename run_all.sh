#!/usr/bin/env bash
# The main job: from a bare machine to measured figures on real traffic.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$root/scripts/stages.sh"

usage() {
  cat <<USAGE
usage: ./run_all.sh [--profile smoke|quick|standard|full] [--ranks N] [--out DIR] [--skip-setup] [--help]

Installs what is missing, builds, trains a small GPT and captures its traffic, measures codecs on that traffic
over MPI ranks on shared memory and on rate-limited links, races training methods to a loss, judges the papers'
claims that the profile affords, and writes DIR/collected.h5, DIR/race/, DIR/claims/claims.json, DIR/figures/ and
DIR/report.html. Started again, it does only what is not finished.

  --profile P    on 2 quiet cores, after the build:
                 smoke     21 cells, a race of two entrants: that everything runs, 1 minute
                 quick     556 cells, a race of four entrants on two links, one seed: 14 to 17 minutes (the default)
                 standard  1424 cells, a race of ten entrants on four links, five seeds: hours
                 full      days
  --ranks N      only the cells that run on N ranks (default: all of the profile), no claims and no race
  --out DIR      where everything goes (default out/PROFILE)
  --skip-setup   install nothing
  --help         this text

THINWIRE_BUILD_DIR names a configured build folder to use in place of build/.

Exit status: 0 done; 1 an exact claim failed (a defect; the report is drawn all the same; a refuted claim is a result);
2 wrong usage; 3 the machine lacks something; else that of the stage that failed.
USAGE
}
wrong_usage() { echo "run_all.sh: $1" >&2; usage >&2; exit 2; }

profile=quick ranks='' out='' skip_setup=no
while [ $# -gt 0 ]; do
  case $1 in
    --profile | --ranks | --out) [ $# -ge 2 ] || wrong_usage "$1 needs a value" ;;&
    --profile) profile=$2; shift 2 ;;
    --ranks) ranks=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --skip-setup) skip_setup=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) wrong_usage "unknown option '$1'" ;;
  esac
done
case $profile in smoke | quick | standard | full) ;; *) wrong_usage "there is no profile '$profile'" ;; esac
[[ -z $ranks || $ranks =~ ^[1-9][0-9]{0,2}$ ]] || wrong_usage "--ranks '$ranks' is not a number from 1 to 999"
study=$root/experiments/studies/$profile.toml
[ -f "$study" ] || wrong_usage "profile '$profile' has no study yet ($study is missing)"
out=${out:-$root/out/$profile}
# A relative --out is meant from where the user stands, everything else from the repository.
if ! mkdir -p -- "$out" 2>/dev/null || ! [ -w "$out" ]; then
  echo "run_all.sh: '$out' cannot be written; choose another folder with --out" >&2
  exit 3
fi
out=$(cd -- "$out" && pwd)
cd "$root"
log_dir=$out/logs
build_dir=${THINWIRE_BUILD_DIR:-$root/build}
bin=$build_dir/bin
capture=$out/capture.h5

# All programs of bench/ and experiments/, as in CMakeLists.txt, and the CUDA module where a CUDA compiler was found;
# tests are left to run_tests.sh.
build() {
  local source programs=()
  for source in bench/*.cpp experiments/*.cpp experiments/programs/*.cpp; do programs+=("$(basename "$source" .cpp)"); done
  [ -z "$(sed -n 's/^CMAKE_CUDA_COMPILER:[^=]*=\(.*\)/\1/p' "$build_dir/CMakeCache.txt" | grep -v NOTFOUND)" ] || programs+=(thinwire_cuda)
  cmake --build "$build_dir" -j "$(build_jobs)" --target "${programs[@]}"
}

# A study between the nodes of a Slurm cluster: four nodes on this machine, a network namespace each. Machines without the packages or
# the rights go on without it, and say why.
cluster() {
  local lab=$root/experiments/lab/slurm.sh study=$root/experiments/studies/cluster.toml folder environment status=0
  folder=$(mktemp -d "${TMPDIR:-/tmp}/thinwire-cluster.XXXXXX")
  if ! environment=$("$lab" up --nodes 4 --link netns:1gbit --folder "$folder/lab"); then
    rmdir -- "$folder"
    return 0
  fi
  # shellcheck disable=SC2064 # the folder of now
  trap "'$lab' down --folder '$folder/lab'; rm -rf '$folder'" EXIT
  eval "$environment"
  "$bin/sweep" submit "$study" --out "$out" --machine local-slurm --if-code-changed redo || status=$?
  [ $status -ne 0 ] || "$bin/sweep" status "$study" --out "$out" --machine local-slurm --watch 10 || status=$?
  return $status
}

# The papers' claims that this profile affords. A FAIL is remembered: the report shows it, and the job ends with it.
claims_status=0
judge_claims() {
  mkdir -p "$out/claims" || return
  "$bin/claims" list --json >"$out/claims/list.json.tmp" || return
  mv "$out/claims/list.json.tmp" "$out/claims/list.json"
  "$bin/claims" run --profile "$profile" --out "$out/claims" --if-code-changed redo || claims_status=$?
  [ $claims_status -le 1 ] || return $claims_status
}

# One task of sentences for the claim that trains on it, where the packages of setup.sh --study are; else it says SKIPPED and why.
corner() {
  local status=0
  THINWIRE_BIN_DIR=$bin experiments/text_tasks/corner.sh --out "$out/claims/text_corner" || status=$?
  [ $status -eq 3 ] || return $status
}

# Figures and report, unless they are drawn already from just these results by just this code. The mark is written last. Files that
# every run writes anew are told by what they hold: collected.h5 by the records that it is made of, verdicts by all but their date.
report() {
  local mark=$out/figures/.drawn_from inputs
  inputs=$({
    find plots results/published results/reference/cpu-2-cores "$out/claims/list.json" "$out/race/race.json" -type f ! -name '*.pyc' -exec sha256sum {} +
    find "$out/capture.h5" "$out/cells" "$out/race/cells" "$out/rows" -type f -printf '%p %s %T@\n'
    grep -v '^ *"when":' "$out/claims/claims.json" | sha256sum
    echo "profile $profile, ranks ${ranks:-all}"
  } 2>/dev/null | sort)
  if [ -f "$out/report.html" ] && [ "$inputs" = "$(cat -- "$mark" 2>/dev/null)" ]; then
    echo "figures and report are those of these results already (delete $mark to draw them again)"
    return 0
  fi
  rm -f -- "$mark"
  /usr/bin/python3 plots/report/report.py --collected "$out/collected.h5" --out "$out" --profile "$profile" || return
  printf '%s\n' "$inputs" >"$mark"
}

[ $skip_setup = yes ] || quiet_stage setup scripts/setup.sh
[ -n "${THINWIRE_BUILD_DIR-}" ] || quiet_stage configure cmake --preset default
quiet_stage build build
stage doctor "$bin/doctor" --quick --out "$out"
stage capture "$bin/capture_traffic" --profile "$profile" --out "$capture" --keep
selection=()
[ -z "$ranks" ] || selection=(--where "ranks=$ranks")
# What another build measured is measured again: one report never mixes two.
stage sweep "$bin/sweep" run "$study" --out "$out" --if-code-changed redo "${selection[@]}"
case $profile in standard | full) [ -n "$ranks" ] || stage cluster cluster ;; esac
# Which method reaches the loss first: the profile's course (docs/race.md).
case $profile in smoke | quick) course=$profile ;; *) course=pipeline ;; esac
[ -n "$ranks" ] || stage race "$bin/race" run "experiments/race/courses/$course.toml" --out "$out/race" --if-code-changed redo
stage collect "$bin/sweep" collect --out "$out"
[ -n "$ranks" ] || [ $profile = smoke ] || stage corner corner
[ -n "$ranks" ] || stage claims judge_claims
stage report report
stage summary /usr/bin/python3 plots/report/summary.py --collected "$out/collected.h5"
[ ! -f "$out/race/race.txt" ] || cat "$out/race/race.txt"
print_stage_times
echo "Report:  $out/report.html"
echo "Figures: $out/figures/"
echo "Results: $out/collected.h5 (docs/results-schema.md says what is in it)"
if [ $claims_status -ne 0 ]; then
  echo "run_all.sh: an exact claim FAILED, which is a defect of this code: $bin/claims show --out '$out/claims'" >&2
  exit $claims_status
fi
