/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel counts of address spaces, of flushes of caches and TLBs, and of IPIs. */
#ifndef GUEST_COUNTERS_H
#define GUEST_COUNTERS_H

#include "compiler.h"

#define MAX_COUNTERS	32

struct counters {
	unsigned int nr;
	char names[MAX_COUNTERS][64];
	u64 values[MAX_COUNTERS];
};

/* All of them. What this kernel does not count is not among them. */
void look(struct counters *counters);

#endif /* GUEST_COUNTERS_H */
