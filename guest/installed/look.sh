#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What an installed kernel does in the system that it was installed in, for redoubt/ship/deb/installed.py.

status=0
# A line of its own, whatever somebody asks for on this terminal.
say() {
	printf '\n@installed: %s\n' "$*"
}
must() {
	"$@" || { say "failed: $*"; status=1; }
}

# Lines of the kernel would get between ours.
dmesg -n 1
say "release=$(uname -r)"
say "root=$(findmnt -n -o SOURCE,FSTYPE /)"
systemctl --failed --plain --no-legend | while read -r unit rest; do
	say "unit=$unit"
done
must insmod /root/hello.ko
must rmmod hello
say "module=$(dmesg | grep -c 'hello: .*loaded$')"
must mountpoint -q /sys/kernel/debug
must cat /sys/kernel/debug/kpkeys/check
say "headers=$(readlink -f "/lib/modules/$(uname -r)/build")"
# What the kernel had to complain about meanwhile.
dmesg --level=emerg,alert,crit,err,warn
printf '\n@redoubt: exit=%s\n' "$status"
sync
systemctl poweroff --force --force
sleep 60
