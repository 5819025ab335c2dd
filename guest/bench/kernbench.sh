#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The workload kernbench, in a guest with Debian's compiler: "tinyconfig", and what of the kernel
# is in init/, with all that comes before. That is a few objects of a kernel, as a whole one takes
# hours on an emulated machine; half of the time is in compilers, and there are hundreds of shells.
#
#   kernbench.sh prepare|run|end

set -eu
export PATH=/usr/bin KBUILD_BUILD_USER=bench KBUILD_BUILD_HOST=guest
export KBUILD_BUILD_TIMESTAMP=2026-01-01
tree=/linux built=/tmp/kernbench
case $1 in
prepare)
	# Files that the host has are slow to open; those of an archive are in memory.
	if grep -q ' / hostfs ' /proc/mounts; then
		[ -e /tmp/linux ] || cp -a $tree /tmp/linux
	fi
	;;
run)
	[ ! -e /tmp/linux ] || tree=/tmp/linux
	make -s -C $tree O=$built tinyconfig init/ >/tmp/kernbench.log 2>&1 ||
		{ cat /tmp/kernbench.log; exit 1; }
	;;
end)
	rm -r $built
	;;
esac
