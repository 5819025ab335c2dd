#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Run one test of test_progs, by the name of which this is called, and say its results as KTAP does.

mounted() {
	grep -q " $2 " /proc/mounts || mount -t "$1" "$1" "$2"
}

mounted bpf /sys/fs/bpf
mounted tracefs /sys/kernel/tracing
ip link set lo up

# Its watchdog knows nothing of emulation: the time limit for all programs is enough.
said=$(mktemp)
./test_progs -w 0 --no-error-summary -a "${0##*/}" >"$said" 2>&1
status=$?
sed -E 's,^#[0-9]+/([0-9]+) +[^/]*/(.*):OK$,ok \1 \2,
	s,^#[0-9]+/([0-9]+) +[^/]*/(.*):SKIP.*$,ok \1 \2 # SKIP,
	s,^#[0-9]+/([0-9]+) +[^/]*/(.*):FAIL$,not ok \1 \2,' "$said"
# A test without parts that skips itself, or was not built.
grep -qE "^#[0-9]+ +${0##*/}:SKIP" "$said" && exit 4
exit $status
