#!/usr/bin/env bash
# labels: mpi
# timeout: 120
# needs: bench_pipeline
# bench_pipeline from the outside: no step is shorter than its messages, on a meter and on cards; what it sends; what it refuses. A machine can only be late, so lower bounds cannot fail by accident.
set -uo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../../support/shell.sh"
program=${THINWIRE_BIN_DIR:?run by ctest}/bench_pipeline
on() { timeout 60 mpirun --oversubscribe --bind-to none -n "$@" --json - 2>/dev/null; }
number() { grep -o "\"$1\": *[0-9.e+]*" | head -1 | sed 's/.*: *//'; }

property "three stages and three micro-batches take seven message times on a meter"
out=$(on 3 "$program" --link emulated:1gbit,latency=2ms,meter=inbound --micro-batches 3 --bytes 124992 --steps 2 --windows 1) || fail "ended with $?"
awk -v us="$(number total_us <<<"$out")" 'BEGIN {exit !(us >= 7 * 3000)}' || fail "less than 21 ms: $out"
[ "$(number link_bytes <<<"$out")" = $((2 * 2 * 3 * 124992)) ] || fail "two boundaries, two ways, three messages each: $out"

property "computing adds to it, the last stage's own where it is stated"
out=$(on 2 "$program" --link emulated:1gbit,latency=1ms,meter=inbound --micro-batches 2 --bytes 1000 --backward-bytes 500 --forward-us 1000 --backward-us 2000 --last-forward-us 20000 --optimizer-us 3000 \
  --steps 1 --windows 1 --schedule gpipe) || fail "ended with $?"
# Two passes of the last stage, one of the first on either end, messages there and back, the update.
awk -v us="$(number total_us <<<"$out")" 'BEGIN {exit !(us >= 1000 + 2 * 20000 + 2000 + 2000 + 2000 + 3000)}' || fail "$out"
[ "$(number link_bytes <<<"$out")" = 3000 ] || fail "$out"

property "on cards latency propagates: the bound is lower"
out=$(on 2 "$program" --link emulated:1gbit,latency=2ms --micro-batches 1 --bytes 125000 --steps 1 --windows 1) || fail "ended with $?"
awk -v us="$(number total_us <<<"$out")" 'BEGIN {exit !(us >= 6000)}' || fail "$out"

property "what makes no pipeline is refused"
run timeout 60 "$program" --micro-batches 2
expect_status 2
expect_output "a rank for each of at least two stages"
run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$program" --micro-batches 0
expect_output "must be at least 1"
run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$program" --link emulated:1gbit,meter=outbound
expect_output "is no meter"

finish
