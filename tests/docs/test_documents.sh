#!/usr/bin/env bash
# labels: docs
# timeout: 60
# What documents promise exists: files they link to, scripts and programs they name, packages they list.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/support/shell.sh"
cd "$root"
# A folder that is no clone (a release archive) has no index: then all documents there are.
mapfile -t documents < <(git ls-files '*.md' 2>/dev/null || find . -name '*.md' -not -path './build*' -not -path './out*')
[ ${#documents[@]} -ge 5 ] || fail "only ${#documents[@]} documents found"

property "every relative link of a document leads to a file"
for document in "${documents[@]}"; do
  while IFS= read -r target; do
    target=${target%%#*}
    [ -z "$target" ] || [ -e "$(dirname "$document")/$target" ] || fail "$document links to $target, which does not exist"
  done < <(awk '/^```/ {code = !code; next} !code' "$document" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^(https?|mailto):')
done

property "every document of docs/ that another names exists"
while IFS= read -r named; do
  [ -e "docs/$named" ] || fail "docs/$named is named but does not exist"
done < <(grep -rhoE --include='*.md' --include='*.h' --include='*.cpp' --include='*.cmake' --include='*.sh' 'docs/[a-z0-9-]+\.md' . \
  --exclude-dir='build*' --exclude-dir=out | sort -u | sed 's|^docs/||')

property "every program that README runs from build/bin has its main"
while IFS= read -r program; do
  [ -e "bench/$program.cpp" ] || [ -e "experiments/$program.cpp" ] || [ -e "experiments/programs/$program.cpp" ] || fail "README names build/bin/$program, which has no source"
done < <(grep -oE 'build/bin/[a-z_]+' README.md docs/*.md | sed 's|.*build/bin/||' | sort -u)

property "exit codes in the document are those of core/error.h"
while read -r name value; do
  grep -q "^| $value |" docs/exit-codes.md || fail "exit code $value ($name) is missing from docs/exit-codes.md"
done < <(sed -nE 's/^ *([a-z_]+) = ([0-9]+),.*/\1 \2/p' core/error.h)

property "README shows the two commands, and both can be executed"
for script in run_all.sh run_tests.sh scripts/setup.sh experiments/lab/launch.sh .ci/run; do
  [ -x "$script" ] || fail "$script is not executable"
done
grep -q '^\./run_all\.sh' README.md && grep -q '^\./run_tests\.sh' README.md || fail "README lacks one of the two commands"

property "the licence is complete and named alike everywhere"
grep -q 'Apache License' LICENSE && grep -q 'END OF TERMS AND CONDITIONS' LICENSE || fail "LICENSE is not the full text"
grep -q '^license: Apache-2.0' CITATION.cff || fail "CITATION.cff names another licence"
finish
