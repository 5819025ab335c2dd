#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Run the kernel's tools/testing/selftests: those of mm by their own runner. The results of a
# category are put on the console when it is done, so that no message of the kernel gets into them.
#
#   selftests.sh SECONDS LEFT-OUT CATEGORY...
#
# SECONDS      for each program
# LEFT-OUT     programs with their arguments, with commas between
# CATEGORY     of run_vmtests.sh, or a list in lists/: "others" is what that does not run, and the
#              rest are directories of other tests

check=/sys/kernel/debug/kpkeys/check
export SELFTEST_S=$1
export PATH=/usr/bin:/usr/sbin:/bin
out=/tmp/selftests
cd /selftests || exit 125

# All that busybox can be, but the shell: that is bash.
busybox --install -s /usr/bin 2>/dev/null
busybox rm -f /usr/bin/sh /usr/bin/bash
[ -e /usr/bin/tr ] || exit 125

tr , '\n' <<<"$2" >left-out
shift 2

each() {
	local number=0 test status
	for test in $(<"lists/$1"); do
		echo "# running ./$test"
		"./$test" 2>&1 | sed 's/^/# /'
		status=${PIPESTATUS[0]}
		number=$((number + 1))
		case $status in
		0) echo "ok $number $test" ;;
		4) echo "ok $number $test # SKIP" ;;
		*) echo "not ok $number $test # exit=$status" ;;
		esac
	done
}

# A disk for the tests to swap to.
if [ -b /dev/ram0 ]; then
	mkswap /dev/ram0 >/dev/null && swapon /dev/ram0
fi

# Puts together again what a test has just split, if that takes it long enough.
khugepaged=/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
[ ! -e "$khugepaged" ] || echo 1000000000 >"$khugepaged"

for category; do
	if [ -e "lists/$category" ]; then
		each "$category"
	else
		./run_vmtests.sh -t "$category"
	fi >"$out" 2>&1 </dev/null
	echo "@selftests: category $category"
	cat "$out"
	echo
	echo "@selftests: done $category"
done

# Are all page tables still protected, after all that?
[ ! -e "$check" ] || cat "$check"
