#!/usr/bin/env bash
# labels: install
# timeout: 180
# An installed tree works from wherever it is moved, and an archive of it holds the same.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
build=${THINWIRE_BUILD_DIR:-$root/build}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

property "cmake --install puts programs, launcher, studies, profiles, plots and documents in place"
cmake --install "$build" --prefix "$scratch/first" --strip >install.log 2>&1 || { fail "cmake --install: $(tail -3 install.log)"; finish; }
for file in bin/sweep bin/bench_collective bin/train_gpt bin/doctor share/thinwire/lab/launch.sh share/thinwire/studies/smoke.toml \
  share/thinwire/machines/local.toml share/thinwire/plots/report/report.py share/thinwire/plots/report/report.js share/thinwire/results/published \
  share/thinwire/docs/measuring.md share/thinwire/LICENSE; do
  [ -e "first/$file" ] || fail "$file is not installed"
done
[ -x first/share/thinwire/lab/launch.sh ] || fail "the launcher is not executable"
for source in "$root"/bench/*.cpp "$root"/experiments/*.cpp; do
  program=$(basename "$source" .cpp)
  [ -x "first/bin/$program" ] || fail "$program is not installed"
done

property "programs look for their libraries beside themselves and nowhere in the build tree"
if command -v readelf >/dev/null; then
  for program in first/bin/*; do
    path=$(readelf -d "$program" | sed -n 's/.*runpath: \[\(.*\)\]/\1/p')
    [[ $path == '$ORIGIN/../lib'* ]] || fail "$program has RUNPATH '$path'"
    case $path in *"$build"*) fail "$program points into the build tree: $path" ;; esac
  done
fi

property "after a move, a study is planned and two ranks measure"
mkdir -p 'elsewhere/with a space'
mv first 'elsewhere/with a space/thinwire'
here="$scratch/elsewhere/with a space/thinwire"
"$here/bin/sweep" plan "$here/share/thinwire/studies/smoke.toml" --out out >plan.log 2>&1 || fail "sweep plan: $(tail -3 plan.log)"
grep -q bench_ plan.log || fail "the plan names no bench: $(head -3 plan.log)"
cat >tiny.toml <<'STUDY'
[study]
name = "tiny"
program = "bench_collective"
ranks = 2
[parameters]
bytes = 4096
repetitions = 3
[axes]
operation = ["all_reduce"]
link = ["shm", "netns:100mbit"]
STUDY
# What stands beside the programs is what is used: this launcher says so.
printf '#!/usr/bin/env bash\necho "SKIPPED: the installed launcher was asked" >&2\nexit 3\n' >"$here/share/thinwire/lab/launch.sh"
"$here/bin/sweep" run tiny.toml --out out >run.log 2>&1 || fail "sweep run: $(tail -5 run.log)"
grep -q 'the installed launcher was asked' run.log || fail "not the installed launcher: $(tail -5 run.log)"
"$here/bin/sweep" collect tiny.toml --out out --format csv >collect.log 2>&1 || fail "sweep collect: $(tail -3 collect.log)"
grep -q ',OK,' out/collected_csv/cells.csv || fail "no cell was measured: $(tail -5 run.log)"

property "the report draws from the moved tree"
/usr/bin/python3 "$here/share/thinwire/plots/report/report.py" --collected out/collected.h5 --out out --only links >report.log 2>&1 || fail "report.py: $(tail -3 report.log)"
grep -q 'All cells' out/report.html || fail "no report"

property "an archive of the run is repeated from the moved tree"
if command -v zstd >/dev/null; then
  "$here/bin/sweep" archive tiny.tar.zst --out out --source /nonexistent >archive.log 2>&1 || fail "sweep archive: $(tail -3 archive.log)"
  "$here/bin/sweep" validate tiny.tar.zst >validate.log 2>&1 || fail "sweep validate: $(tail -3 validate.log)"
  "$here/bin/sweep" run --from tiny.tar.zst --out again --where link=shm >again.log 2>&1 || fail "sweep run --from: $(tail -5 again.log)"
  [ "$(ls out/cells/*.h5 | wc -l)" = 2 ] && [ "$(ls again/cells/*.h5 | wc -l)" = 1 ] || fail "other cells were run: $(ls again/cells)"
  "$here/bin/sweep" compare out/collected.h5 out/collected.h5 >compare.log 2>&1 || fail "sweep compare: $(tail -3 compare.log)"
fi
finish
