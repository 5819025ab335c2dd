#!/usr/bin/busybox ash
# SPDX-License-Identifier: GPL-2.0-only
#
# Rounds of stress-ng, while the checker runs again and again, memory is swapped to a disk in
# memory, modules come and go and CPUs go off and on: each as far as the kernel has it.
#
#   busybox ash stress.sh SECONDS ROUND_S LIMIT_S CHECK_S CHECK ROUND...
#
# SECONDS   no round begins after that; ROUND_S is for each, and after LIMIT_S it is ended
# CHECK     the file of the checker, read every CHECK_S seconds; "-" if there is none
# ROUND     what stress-ng is asked for, in one argument. When all had their turn they start over,
#           and the next call of this script goes on where this one ends
#
# When a round is done its words are put on the console behind "| ", and operations of its report
# behind ": ", each round in one piece. Other figures are left out: no more than User-Mode
# Linux can buffer, as it may wait for ever for its host to take the rest.

set -u
seconds=$1 round_s=$2 limit_s=$3 check_s=$4 check=$5
shift 5
# Some stressors fill /tmp and /dev/shm: not to the last page, and what is kept stands elsewhere.
kept=/run/stress work=/tmp/stress
ram=/dev/ram0 disk=/dev/ram1 files=$kept/files
hugepages=/proc/sys/vm/nr_hugepages
busybox=/usr/bin/busybox
export PATH=/bin:/usr/bin:$kept/bin
$busybox mkdir -p $kept/bin && $busybox --install -s $kept/bin || exit 125
rm -f $kept/stop
mount -o remount,size=25% /tmp
[ ! -d /dev/shm ] || mount -o remount,size=10% /dev/shm

# On a serial port a letter can get lost to the kernel: warnings and worse only.
dmesg -n 5
# Whoever is killed when memory runs out, it is none of these.
echo -1000 >/proc/self/oom_score_adj

uptime_s() {
	read -r up _ </proc/uptime
	echo "${up%%.*}"
}

# In one write, which nothing gets between.
show() {
	/bin/cat "$1"
}

checks() {
	local done=0 refused=0
	while sleep "$check_s"; [ ! -e $kept/stop ]; do
		if /bin/cat "$check" >$kept/walk; then
			done=$((done + 1))
			show $kept/walk
		else
			refused=$((refused + 1))
		fi
	done
	echo "@stress-ng: checks=$done refused=$refused"
}

# Sets used_kb to what is in swap.
look_at_swap() {
	local name used _
	used_kb=0
	while read -r name _ _ used _; do
		[ "$name" != $ram ] || used_kb=$used
	done </proc/swaps
}

# Modules are loaded and unloaded, CPUs but the first switched off and on; also, what is in swap.
changes() {
	local modules=0 cpus=0 failed=0 most_kb=0 one name
	while [ ! -e $kept/stop ]; do
		for one in /lib/modules/*.ko; do
			[ -e "$one" ] || continue
			name=${one##*/}
			if insmod "$one" && rmmod "${name%.ko}"; then
				modules=$((modules + 1))
			else
				failed=$((failed + 1))
			fi
		done
		for one in /sys/devices/system/cpu/cpu[1-9]*/online; do
			[ -e "$one" ] || continue
			if echo 0 >"$one" && sleep 1 && echo 1 >"$one"; then
				cpus=$((cpus + 1))
			else
				failed=$((failed + 1))
			fi
		done
		if [ -n "$swap" ]; then
			look_at_swap
			[ "$used_kb" -le $most_kb ] || most_kb=$used_kb
		fi
		sleep 1
	done
	echo "@stress-ng: modules=$modules cpus=$cpus failed=$failed swap_kb=$most_kb"
}

# Keep the words of stress-ng and of its report that are worth showing.
digest() {
	sed -E -e '/^(stressor)? +|^[a-z0-9-]+ +[0-9]|: using .* per stressor/d' \
		-e '/^(setting|dispatching|note:|miscellaneous)/d; s/^/| /' "$1"
	# Output that was cut short ended within a line.
	echo
	[ ! -e "$2" ] || sed -n -E '/^metrics:/,$s/^(.*(stressor|bogo-ops):.*|\.\.\.)$/: \1/p' "$2"
	echo
}

# One round: its number, and what is asked for.
round() {
	local began status
	echo "@stress-ng: begin $1 $2"
	rm -rf $work $kept/yaml
	mkdir -p $work
	began=$(uptime_s)
	(
		echo 0 >/proc/self/oom_score_adj
		# Unquoted: it is several words.
		exec timeout -k 30 "$limit_s" stress-ng $2 --timeout "${round_s}s" --verify \
			--oom-avoid --keep-name --log-brief --metrics --yaml $kept/yaml \
			--temp-path $work
	) >$kept/said 2>&1 </dev/null
	status=$?
	[ $(($(uptime_s) - began)) -lt "$limit_s" ] || status=late
	killall -q -9 stress-ng
	{
		digest $kept/said $kept/yaml
		echo "@stress-ng: end $1 status=$status"
	} >$kept/show
	show $kept/show
}

# Files on a disk in memory, if the kernel has a file system for one: it can swap to them.
if [ -b $disk ] && grep -q ext2 /proc/filesystems; then
	mkdir -p $files
	grep -q "^$disk " /proc/mounts ||
		{ mke2fs $disk >/dev/null 2>&1 && mount -t ext2 $disk $files; }
	work=$files/stress
fi

swap=
if [ -b $ram ] && [ -e /proc/swaps ]; then
	mkswap $ram >/dev/null && swapon $ram && swap=$ram
fi
[ ! -e $hugepages ] || echo 8 >$hugepages

[ "$check" = - ] || checks &
changes &

number=0
[ ! -e $kept/next ] || read -r number <$kept/next
rounds=$#
began=$(uptime_s)
while [ $(($(uptime_s) - began)) -lt "$seconds" ]; do
	eval "words=\${$((number % rounds + 1))}"
	number=$((number + 1))
	round $number "$words"
done
echo $number >$kept/next

touch $kept/stop
wait
rm -rf $work
[ ! -e $hugepages ] || echo 0 >$hugepages
# Swapped pages come back, and may be too much for memory.
if [ -n "$swap" ] && ! swapoff $swap; then
	echo "@stress-ng: swap stays"
	exit 1
fi
echo "@stress-ng: over"
