// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments of a process on x86: kept when others run in between, copied by fork,
 * and in a table that grows. With page table isolation the kernel maps it by
 * page tables of the process that are in its own half.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#ifdef __x86_64__
#include <asm/ldt.h>

#define WRITE_ENTRY	0x11
/* A selector of the LDT, with privilege level 3. */
#define SELECTOR(n)	(((n) << 3) | 7)

/* With a null pointer there is nothing behind it. */
static bool set_segment(unsigned int n, const u64 *start)
{
	struct user_desc entry = {
		.entry_number = n,
		.base_addr = (unsigned long)start,
		.limit = sizeof(*start) - 1,
		.seg_32bit = !!start,
		.read_exec_only = !start,
		.seg_not_present = !start,
		.useable = !!start,
	};

	/* An error comes back as 32 bits, which libc does not take for one. */
	int ret = syscall(SYS_modify_ldt, WRITE_ENTRY, &entry, sizeof(entry));

	if (ret < -1)
		errno = -ret;
	return !ret;
}

static void load_segment(unsigned int selector)
{
	asm volatile("mov %0, %%gs" : : "r" (selector) : "memory");
}

static u64 read_segment(void)
{
	u64 value;

	asm volatile("mov %%gs:0, %0" : "=r" (value) : : "memory");
	return value;
}

static enum start start_ldt(void)
{
	return set_segment(0, NULL) ? READY : LEFT_OUT;
}

static bool op_ldt(void)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	u64 *value = map(page, MAP_PRIVATE | MAP_32BIT);
	unsigned int n = rnd(8);
	bool ok = false;
	pid_t pid;

	if (!need(value))
		return false;
	*value = rnd(~0UL);
	if (!need(set_segment(n, value)))
		goto out;
	load_segment(SELECTOR(n));
	ok = check(read_segment() == *value);
	nanosleep(&moment, NULL);
	ok &= check(read_segment() == *value);

	pid = fork();
	if (!pid)
		_exit(read_segment() == *value ? 0 : 1);
	ok &= need(pid > 0) && ended_with(pid, 0);

	/* More than a page of them. */
	ok &= need(set_segment(LDT_ENTRIES - 1 - n, value));
	ok &= check(read_segment() == *value);
	load_segment(0);
	ok &= need(set_segment(n, NULL));
out:
	return unmap(value, page) && ok;
}

#else

static enum start start_ldt(void)
{
	return LEFT_OUT;
}

static bool op_ldt(void)
{
	return false;
}

#endif

const struct op ldt_op = {
	.name = "ldt",
	.run = op_ldt,
	.start = start_ldt,
};
