#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The workload kernbench: "tinyconfig", and what of the kernel is in init/, with all that comes
# before. A whole kernel takes hours on an emulated machine. Half of it is tinyconfig, which builds
# its own programs and runs the compiler hundreds of times; a seventh are the objects of init/.
#
#   kernbench.sh prepare|measure|clean

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
measure)
	[ ! -e /tmp/linux ] || tree=/tmp/linux
	make -s -C $tree O=$built tinyconfig init/ >/tmp/kernbench.log 2>&1 ||
		{ cat /tmp/kernbench.log; exit 1; }
	;;
clean)
	rm -r $built
	;;
esac
