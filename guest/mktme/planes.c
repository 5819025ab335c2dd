// SPDX-License-Identifier: GPL-2.0-only
/*
 * Secrets under KeyIDs, to be looked for from outside of the machine.
 *
 * planes SEED KEYIDS: keeps one under each KeyID from 0 to KEYIDS, and then
 * none. Waits after each, for somebody to stop the machine and look.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"
#include "files.h"
#include "keyids.h"
#include "pattern.h"

#define COMPACT		"/proc/sys/vm/compact_memory"
#define MAX_KEYIDS	63
#define MASK		0x5555555555555555ULL
/* Time for whoever is to stop the machine to see that it can be. */
#define LOOK_S		5

/*
 * No word is ever in a register, which the kernel would save in memory of its
 * own: each is in memory in disguise, and loses that there.
 */
static void unmask(volatile u64 *at)
{
#ifdef __x86_64__
	asm("xorq %1, %0" : "+m" (*at) : "r" (MASK));
#else
	*at ^= MASK;
#endif
}

static void *keep(u64 seed, unsigned int keyid)
{
	volatile u64 *to = mmap(NULL, PATTERN_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (to == MAP_FAILED)
		fail("mmap");
	if (keyid && encrypt((void *)to, PATTERN_SIZE, keyid))
		fail("KeyID %u", keyid);
	for (i = 0; i < PATTERN_WORDS; i++)
		to[i] = pattern_word_masked(seed, keyid, i, MASK);
	for (i = 0; i < PATTERN_WORDS; i++)
		unmask(to + i);
	return (void *)to;
}

static void wait_after(const char *what)
{
	printf("@planes: %s\n", what);
	sleep(LOOK_S);
}

int main(int argc, char **argv)
{
	void *kept[MAX_KEYIDS + 1];
	unsigned int keyid, last;
	u64 seed;

	if (argc != 3 || (last = strtoul(argv[2], NULL, 10)) > MAX_KEYIDS) {
		fprintf(stderr, "usage: planes SEED KEYIDS\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = strtoull(argv[1], NULL, 16);

	for (keyid = 0; keyid <= last; keyid++)
		kept[keyid] = keep(seed, keyid);
	wait_after("kept");
	for (keyid = 0; keyid <= last; keyid++)
		if (munmap(kept[keyid], PATTERN_SIZE))
			fail("munmap");
	/* Each CPU holds some of them back, which compaction takes first. */
	if (!write_text(COMPACT, "1"))
		fail(COMPACT);
	wait_after("freed");
	return 0;
}
