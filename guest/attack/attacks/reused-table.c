// SPDX-License-Identifier: GPL-2.0-only
/*
 * As freed-table, but with memory of the size that a pool of page tables takes
 * from the page allocator: it does come back as page tables, and what refuses
 * the write is their key.
 */
#include "objects.h"

#define OBJECTS	KPKEYS_VULN_OBJS

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	struct window window;

	window = objects_window(OBJECTS, info->shift[KPKEYS_VULN_PMD] -
					 info->shift[KPKEYS_VULN_PTE]);
	objects_free_in_use();
	if (!attack_by_window(&window, argc > 1 ? argv[1] : NULL))
		out_of_reach("no block came back as page tables");
	return 0;
}
