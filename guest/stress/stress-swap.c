// SPDX-License-Identifier: GPL-2.0-only
/*
 * Swap on a disk in memory: pages pushed out, shared by fork, unmapped and
 * read back, and at the end fetched by switching the swap off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "stress.h"
#include "swap.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

#define PAGES	128
#define TRIES	5

static enum start start_swap(void)
{
	if (!may_change_machine() || access("/proc/swaps", F_OK) ||
	    access(SWAP_DISK, F_OK))
		return LEFT_OUT;
	if (!swap_on(SWAP_DISK, 0)) {
		perror("stress: swap on " SWAP_DISK);
		return BROKEN;
	}
	return READY;
}

/* How many pages are out; -1 if the kernel does not say. */
static int swapped(const char *m, size_t pages)
{
	const u64 in_swap = 1ULL << 62;
	u64 entries[PAGES];
	size_t size = pages * sizeof(entries[0]), i;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), out = 0;

	if (fd < 0)
		return -1;
	if (pread(fd, entries, size,
		  (unsigned long)m / page * sizeof(entries[0])) != (ssize_t)size)
		out = -1;
	for (i = 0; out >= 0 && i < pages; i++)
		out += !!(entries[i] & in_swap);
	close(fd);
	return out;
}

/* Pages that some CPU is about to put into a list stay: try again. */
static int push_out(char *m, size_t pages)
{
	int i, out = 0;

	for (i = 0; i < TRIES && out < (int)pages / 2; i++) {
		if (!check(!madvise(m, pages * page, MADV_PAGEOUT)))
			return -1;
		out = swapped(m, pages);
		if (!check(out >= 0))
			return -1;
	}
	return out;
}

static bool fork_swapped(char *m, size_t pages, u64 seed)
{
	pid_t pid = fork();

	if (!pid) {
		if (!filled(m, pages, seed))
			_exit(1);
		fill(m, pages, ~seed);
		_exit(filled(m, pages, ~seed) ? 0 : 2);
	}
	return ended_with(pid, 0);
}

static bool op_swap(void)
{
	const size_t quarter = PAGES / 4;
	u64 seed = rnd(~0UL);
	char *m = map(PAGES * page, MAP_PRIVATE);
	bool ok = true;
	int out;

	if (!need(m))
		return false;
	fill(m, PAGES, seed);
	out = push_out(m, PAGES);
	if (out < 0) {
		ok = false;
		goto out;
	}
	missed = !out;
	/* Entries of swap are page table entries, too. */
	ok = need(!mprotect(m, quarter * page, PROT_READ)) &&
	     need(!mprotect(m, quarter * page, PROT_READ | PROT_WRITE)) &&
	     need(!madvise(m, quarter * page, MADV_DONTNEED)) &&
	     check(!*(u64 *)m);
	ok = ok && fork_swapped(m + quarter * page, quarter, seed + quarter);
	ok &= check(filled(m + quarter * page, PAGES - quarter, seed + quarter));
	fill(m, PAGES, ~seed);
	ok &= check(filled(m, PAGES, ~seed));
out:
	unmap(m, PAGES * page);
	return ok;
}

/* Has the kernel, short of memory, put files of the root there instead? */
static bool full(void)
{
	struct sysinfo info;

	return check(!sysinfo(&info)) && info.freeswap * info.mem_unit < PAGES * page;
}

/* Switch it off with pages in it: the kernel looks for them in all tables. */
static bool end_swap(void)
{
	u64 seed = 0x5eed;
	char *m = map(PAGES * page, MAP_PRIVATE);
	bool ok;

	if (!check(m))
		return false;
	fill(m, PAGES, seed);
	ok = check(push_out(m, PAGES) > 0 || full());
	ok &= check(!swapoff(SWAP_DISK));
	ok &= check(!swapped(m, PAGES));
	ok &= check(filled(m, PAGES, seed));
	return unmap(m, PAGES * page) && ok;
}

const struct op swap_op = {
	.name = "swap",
	.run = op_swap,
	.start = start_swap,
	.end = end_swap,
};
