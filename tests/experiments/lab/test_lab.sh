#!/usr/bin/env bash
# labels: mpi
# timeout: 900
# needs: doctor
# The lab: ranks in rate-limited network namespaces.
set -uo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/support/shell.sh"
launch=$root/experiments/lab/launch.sh
doctor=${THINWIRE_BIN_DIR:?run by ctest}/doctor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset THINWIRE_LINK
# What a lab could leave on the machine; others may have left or made the like before.
files() { ls -d /run/thinwire-lab /run/netns/lab* /etc/netns/lab* 2>/dev/null; }
devices() { ip -o link show 2>/dev/null | grep -oE '^[0-9]+: (port[0-9]+@[^:]*|br0):'; }
files_before=$(files) devices_before=$(devices)

property "a wrong command line is refused with status 2 and says what is wrong"
run "$launch" --link shm --ranks 2 -- true; expect_status 2; expect_output "netns:RATE"
run "$launch" --link netns:100 --ranks 2 -- true; expect_status 2; expect_output "netns:100"
for link in netns:0mbit netns:0.9mbit netns:.5gbit netns:1.gbit netns:1.5.5gbit; do
  run "$launch" --link $link --ranks 2 -- true; expect_status 2; expect_output "$link"
done
run "$launch" --link netns:1gbit --ranks two -- true; expect_status 2; expect_output "two"
run "$launch" --link netns:1gbit -- true; expect_status 2; expect_output "--ranks"
run "$launch" --link netns:1gbit --ranks 2; expect_status 2; expect_output "program"
run "$launch" --link netns:1gbit --ranks 2 -- /no/such/program; expect_status 2; expect_output "/no/such/program"
run "$launch" --rank 2; expect_status 2; expect_output "--rank"

property "a machine that refuses namespaces gives SKIPPED with its reason and status 3"
mkdir "$work/refusing"
printf '#!/bin/sh\necho "unshare: unshare failed: Operation not permitted" >&2\nexit 1\n' >"$work/refusing/unshare"
chmod +x "$work/refusing/unshare"
run env PATH="$work/refusing:$PATH" "$launch" --probe; expect_status 3; expect_output "SKIPPED: "; expect_output "Operation not permitted"
run env PATH="$work/refusing:$PATH" "$launch" --link netns:1gbit --ranks 2 -- true; expect_status 3; expect_output "SKIPPED: "

"$launch" --probe >"$work/probe" 2>&1 || skip "$(cat "$work/probe")"

property "the program's exit status comes back"
run "$launch" --link netns:1gbit --ranks 2 -- sh -c 'exit 7'; expect_status 7
run "$launch" --link netns:1gbit --ranks 1 -- true; expect_status 0

property "every host has a name of its own, ranks of one host are neighbours, and the link is announced"
run "$launch" --link netns:1gbit --ranks 4 --ranks-per-host 2 -- sh -c 'echo "$OMPI_COMM_WORLD_RANK $(hostname) $THINWIRE_LINK"'
expect_status 0
expect_equal "$(sort <<<"$output" | tr '\n' ';')" "0 lab0 netns:1gbit;1 lab0 netns:1gbit;2 lab1 netns:1gbit;3 lab1 netns:1gbit;" "placement"

property "arguments reach the program as they are"
run "$launch" --link netns:1gbit --ranks 1 -- printf '<%s>' 'a b' '$HOME' "it's"; expect_status 0; expect_output "<a b><\$HOME><it's>"

property "every host's link has the rate asked for"
set_to() { # LINK RANKS WORDS: what each host's token bucket says
  run "$launch" --link "$1" --ranks "$2" -- tc qdisc show dev eth0
  expect_status 0
  expect_equal "$(grep -c "^qdisc tbf .* rate $3 " <<<"$output")" "$2" "hosts of $1 limited to $3"
}
set_to netns:100mbit 2 100Mbit
set_to netns:0.10025gbit 4 100250Kbit
set_to netns:1gbit 2 1Gbit

# How little passes depends on what else the machine does, how much does not: a link that is not limited is ten to a hundred times faster.
rate_between() { # LINK RANKS LEAST MOST: rates of 256 KiB over nominal, one way and with all ranks at once
  run "$launch" --link "$1" --ranks "$2" -- "$doctor" --link-check --bytes 262144 --repetitions 3
  expect_status 0
  awk -v least="$3" -v most="$4" '/way/ && !/^#/ { n++; if ($5 < least || $5 > most) bad = 1 } END { exit !(n == 2 && !bad) }' <<<"$output" ||
    fail "rates of $1 with $2 ranks are not within $3 to $4 of nominal: $output"
}
property "it carries messages, one way and with all ranks at once, and not faster"
rate_between netns:100mbit 2 0.02 1.2
rate_between netns:0.10025gbit 4 0.02 1.2
rate_between netns:1gbit 2 0.01 1.4

# Processes of the lab are found by a word of their own on their command line.
word=lab-test-$$
count() { pgrep -fc "^sleep [0-9]+ $word\$|^$word" || true; }
sleeper=$work/sleeper
printf '#!/bin/bash\nexec -a %s sleep 300\n' "$word" >"$sleeper"
chmod +x "$sleeper"
running() { [ "$(count)" -ge "$1" ]; }
gone() { [ "$(count)" = 0 ]; }
exited() { ! kill -0 "$1" 2>/dev/null; }

for signal in KILL TERM INT; do
  property "SIG$signal to the launcher ends every process of the lab"
  # A shell starts background jobs with SIGINT ignored, which no child could undo: env starts it as a user would.
  env --default-signal=INT "$launch" --link netns:1gbit --ranks 3 -- "$sleeper" >/dev/null 2>&1 &
  lab=$!
  eventually 120 running 3 || fail "the lab did not start"
  kill -s $signal $lab
  wait $lab 2>/dev/null
  eventually 120 gone || fail "$(count) processes are left"
done

property "a rank killed by SIGKILL ends the job"
"$launch" --link netns:1gbit --ranks 3 -- "$sleeper" >/dev/null 2>&1 &
lab=$!
eventually 120 running 3 || fail "the lab did not start"
kill -KILL "$(pgrep -f "^$word" | tail -n 1)"
eventually 120 exited $lab || fail "the job still runs after 120 seconds"
wait $lab
expect_equal $? 137 "exit status"
gone || fail "$(count) processes are left"

property "labs side by side do not meet"
for i in 1 2 3; do
  "$launch" --link netns:100mbit --ranks 2 --ranks-per-host $((1 + i % 2)) -- "$doctor" --mpi-hello >"$work/hello.$i" 2>&1 &
  jobs[i]=$!
done
for i in 1 2 3; do
  wait "${jobs[$i]}" || fail "lab $i ended with status $?: $(cat "$work/hello.$i")"
done

property "nothing of a lab is left on the machine"
expect_equal "$(files)" "$files_before" "files"
expect_equal "$(devices)" "$devices_before" "network devices"

if [ "$(id -u)" = 0 ] && [ -r "$launch" ]; then
  property "an ordinary user may do it, too, where the machine lets users have namespaces"
  as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/tmp)
  cd /
  if "${as_nobody[@]}" unshare -Urnm true 2>/dev/null && "${as_nobody[@]}" test -r "$launch" -a -x "$doctor"; then
    run "${as_nobody[@]}" bash "$launch" --link netns:100mbit --ranks 2 -- "$doctor" --mpi-hello
    expect_status 0
    expect_output "2 ranks"
  else
    echo "   not tried: users may not have namespaces here, or may not read this folder"
  fi
fi
finish
