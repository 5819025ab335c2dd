/* SPDX-License-Identifier: GPL-2.0-only */
/* Attacks that have a handler in the kernel return to a level that it was not at. */
#ifndef GUEST_ATTACKS_RAISE_H
#define GUEST_ATTACKS_RAISE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common.h"

/* State shared by both processes of a try and the one that tries again. */
struct raise {
	unsigned int first;	/* candidate to begin with */
	volatile unsigned int tried;	/* the one that was used, if one was */
	volatile unsigned int round;
	volatile unsigned int idle;	/* the one in which no frame is looked for */
	volatile bool busy;	/* the system call is being made */
	bool refused;		/* the write, when it was its turn */
	volatile pid_t helper;	/* has to be killed if its parent cannot die */
	struct kpkeys_vuln_write write;	/* the one that is to be raised */
	/*
	 * Writes of one system call. They tell in memory of the attacker how
	 * far it has got, which does no harm; others put ones in that do.
	 */
	struct kpkeys_vuln_write *list;
	volatile u64 progress;
	u64 progress_addr;	/* where the kernel sees that */
};

/**
 * struct raising - one way to have a frame that waits
 * @masks: bits of a word that may be the flag, the likeliest first
 * @words: how many words below the frame may have it
 * @writes: length of the list
 * @begin: once, or NULL
 * @prepare: in each process whose frame is to be altered
 * @wait: until it is time for the system call, or NULL
 * @make: make the system call; returns whether none of its writes was refused
 * @alter: in the other process, until that is killed
 */
struct raising {
	u64 masks[3];
	unsigned int words;
	size_t writes;
	void (*begin)(void);
	void (*prepare)(struct raise *r);
	void (*wait)(struct raise *r);
	bool (*make)(struct raise *r);
	void (*alter)(struct raise *r, pid_t victim);
};

int attack_by_raising(const struct raising *way, const char *path);
bool alter_frame(struct raise *r, pid_t victim, const struct kpkeys_vuln_frame *f);

#endif /* GUEST_ATTACKS_RAISE_H */
