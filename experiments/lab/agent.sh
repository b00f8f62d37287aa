#!/bin/sh
# Open MPI's remote shell inside a lab: agent ADDRESS COMMAND... runs COMMAND on the host with that address.
host=$((${1##*.} - 1))
shift
exec nsenter --net=/run/thinwire-lab/net.$host --uts=/run/thinwire-lab/uts.$host sh -c "$*"
