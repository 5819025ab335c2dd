/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's counters of address spaces, flushes of caches and TLBs, and IPIs. */
#ifndef GUEST_COUNTERS_H
#define GUEST_COUNTERS_H

#include "compiler.h"

#define MAX_COUNTERS	32

struct counters {
	unsigned int nr;
	char names[MAX_COUNTERS][64];
	u64 values[MAX_COUNTERS];
};

/* Read all counters that this kernel has. */
void look(struct counters *counters);

#endif /* GUEST_COUNTERS_H */
