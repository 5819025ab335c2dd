// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many pages are flushed from the caches, if all anonymous memory is
 * encrypted?
 *
 * flushes N: counts what each operation does, done N times or as often as takes
 * about as long: first with nothing in the pool of free pages, and then again.
 * Meant for a machine with one CPU on which nothing else runs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler.h"
#include "counters.h"
#include "fail.h"
#include "files.h"
#include "work.h"

#define COMPACT		"/proc/sys/vm/compact_memory"
#define THP		"/sys/kernel/mm/transparent_hugepage/enabled"
#define MB		(1UL << 20)
#define HUGE		(2 * MB)
#define SLOTS		64

static unsigned int times;

static void fault(void)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		munmap(faulted_in(PAGE), PAGE);
}

static void cow_fault(void)
{
	copy_on_write((size_t)times * PAGE);
}

static void fork_exec(void)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		run_program("/bin/flushes", 0);
}

/* See buildlike.c. */
static void build(void)
{
	run_program(BUILD, times);
}

/* === Churn: what is allocated is freed again ============================ */

static u64 next_random(u64 *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 33;
}

/* Allocate and free all sizes up to 512 KB, in any order: some 16 MB at a time. */
static void churn_mixed(void)
{
	struct { char *at; size_t size; } slots[SLOTS] = { 0 };
	u64 state = 1;
	unsigned int i;

	for (i = 0; i < times + SLOTS; i++) {
		unsigned int slot = i < times ? next_random(&state) % SLOTS :
						i - times;

		if (slots[slot].at)
			munmap(slots[slot].at, slots[slot].size);
		slots[slot].at = NULL;
		if (i >= times)
			continue;
		slots[slot].size = (next_random(&state) % 128 + 1) * PAGE;
		slots[slot].at = faulted_in(slots[slot].size);
	}
}

/* By malloc(), which keeps some, and gives back the heap's end only. */
static void churn_malloc(void)
{
	char *slots[SLOTS] = { 0 };
	u64 state = 1;
	unsigned int i;

	for (i = 0; i < times * SLOTS; i++) {
		unsigned int slot = next_random(&state) % SLOTS;
		size_t size = 1UL << (next_random(&state) % 15 + 5);

		free(slots[slot]);
		slots[slot] = malloc(size);
		if (!slots[slot])
			fail("malloc");
		touch(slots[slot], size);
	}
	for (i = 0; i < SLOTS; i++)
		free(slots[i]);
}

static void all_and_nothing(size_t size)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		munmap(faulted_in(size), size);
}

static void churn_32mb(void)
{
	all_and_nothing(32 * MB);
}

static void churn_huge(void)
{
	unsigned int i;

	for (i = 0; i < times; i++) {
		char *at = map_huge(16 * MB);

		touch(at, 16 * MB);
		munmap(at, 16 * MB);
	}
}

/* The one has no use for what the other has freed, unless it is split. */
static void churn_huge_and_small(void)
{
	unsigned int i;

	for (i = 0; i < times; i++) {
		char *at = map_huge(16 * MB);

		touch(at, 16 * MB);
		munmap(at, 16 * MB);
		munmap(faulted_in(16 * MB), 16 * MB);
	}
}

/* A part of the machine's memory. */
static size_t eighths(unsigned int nr)
{
	return (size_t)sysconf(_SC_PHYS_PAGES) / 8 * nr * PAGE;
}

static void churn_3_8(void)
{
	all_and_nothing(eighths(3));
}

/* More than the pool can have. */
static void churn_5_8(void)
{
	all_and_nothing(eighths(5));
}

static void fill_file(size_t size)
{
	static char buffer[64 * PAGE];
	int fd = memfd_create("flushes", MFD_CLOEXEC);
	size_t done;

	if (fd < 0)
		fail("memfd");
	for (done = 0; done < size; done += sizeof(buffer))
		if (write(fd, buffer, sizeof(buffer)) != (ssize_t)sizeof(buffer))
			fail("memfd");
	close(fd);
}

/* Files, which are not encrypted, want what the pool has. */
static void pressure(void)
{
	unsigned int i;

	for (i = 0; i < times; i++) {
		munmap(faulted_in(32 * MB), 32 * MB);
		fill_file(eighths(5));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
	/* Done once for so many times of others. */
	unsigned int per;
} operations[] = {
	{ "fault", fault, 1 },
	{ "cow-fault", cow_fault, 2 },
	{ "fork-exec", fork_exec, 10 },
	{ "build-like", build, 200 },
	{ "churn-mixed", churn_mixed, 10 },
	{ "churn-malloc", churn_malloc, 10 },
	{ "churn-32mb", churn_32mb, 1000 },
	{ "churn-huge", churn_huge, 1000 },
	{ "churn-huge-and-small", churn_huge_and_small, 1000 },
	{ "churn-3/8", churn_3_8, 1000 },
	{ "churn-5/8", churn_5_8, 1000 },
	{ "pressure", pressure, 2500 },
};

/* Counts one run of what is to be done. */
static void count(size_t which, const char *phase)
{
	static struct counters before, after;
	unsigned int i;
	u64 instructions;

	fflush(stdout);
	look(&before);
	look(&before);
	/* The emulator has it count instructions. */
	instructions = cpu_counter();
	operations[which].run();
	instructions = cpu_counter() - instructions;
	look(&after);
	printf("@flushes: operation=%s phase=%s times=%u instructions=%llu",
	       operations[which].name, phase, times, instructions);
	for (i = 0; i < after.nr; i++)
		printf(" %s=%lld", after.names[i],
		       (long long)(after.values[i] - before.values[i]));
	printf("\n");
}

int main(int argc, char *argv[])
{
	unsigned int all;
	size_t i;

	if (argc != 2) {
		fprintf(stderr, "usage: flushes N\n");
		return 2;
	}
	all = strtoul(argv[1], NULL, 10);
	if (!all)
		return 0;

	/* On a machine with little memory the kernel has decided to have none. */
	if (!write_text(THP, "madvise"))
		fail(THP);
	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		times = all < operations[i].per ? 1 : all / operations[i].per;
		if (!write_text(COMPACT, "1"))
			fail(COMPACT);
		count(i, "first");
		count(i, "again");
	}
	return 0;
}
