// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting until nobody else uses the core of this CPU.
 *
 * On a machine that is shared a fixed piece of work takes a third longer for
 * seconds, and then does not. The sample of a benchmark that falls into such a
 * time says nothing. So the same piece of work is timed before and after each
 * sample, by the counter of the CPU that goes at a constant rate: the rule does
 * not look at what is measured.
 */
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "quiet.h"

#define WORDS		2048	/* what fits into the nearest cache */
#define PASSES		20
#define TOLERANCE	10	/* percent */
#define PAUSE_US	20000
#define MAX_PAUSES	600	/* in the whole run: then it is as it is */

static u64 best;		/* cycles; 0 if not known */
static unsigned int pauses;

static u64 work_once(void)
{
	static volatile u64 words[WORDS];
	u64 begin = cpu_counter(), a = 0, b = 0;
	size_t pass, i;

	for (pass = 0; pass < PASSES; pass++) {
		for (i = 0; i < WORDS; i += 2) {
			a += words[i];
			b ^= words[i + 1];
		}
	}
	words[0] = a & b;
	return cpu_counter() - begin;
}

/* The least of a few: a tick in between is nobody else. */
static u64 work(void)
{
	u64 least = work_once(), next;
	int i;

	for (i = 0; i < 4; i++) {
		next = work_once();
		if (next < least)
			least = next;
	}
	if (!best || least < best)
		best = least;
	return least;
}

/* Begin with the cycles that earlier runs needed at best, or 0. */
void quiet_start(u64 known)
{
	best = known;
	pauses = 0;
	work();
}

/* Is it quiet? */
bool quiet_still(void)
{
	return work() * 100 <= best * (100 + TOLERANCE);
}

/* Wait until it is; false if the patience for this run is at its end. */
bool quiet_wait(void)
{
	while (!quiet_still()) {
		if (pauses++ >= MAX_PAUSES)
			return false;
		usleep(PAUSE_US);
	}
	return pauses < MAX_PAUSES;
}

/* The cycles that the work takes when it is quiet. */
u64 quiet_best(void)
{
	return best;
}
