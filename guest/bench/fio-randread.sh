#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The workload fio-randread: fio reads 4 KiB at a time, 1 GiB in all, from random places of a file
# of SIZE bytes on tmpfs.
#
#   fio-randread.sh prepare|measure|clean SIZE

set -eu
export PATH=/usr/bin
randread() {
	fio --name=randread --filename=/tmp/fio.file --size="$1" --rw=randread --bs=4k --io_size=1g \
		--ioengine=psync --invalidate=0 --norandommap --eta=never "$2" >/tmp/fio.log 2>&1 ||
		{ cat /tmp/fio.log; exit 1; }
}
case $1 in
prepare) randread "$2" --create_only=1 ;;
measure) randread "$2" --group_reporting ;;
clean) rm /tmp/fio.file ;;
esac
