// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite the attacker's own page-table entry by a BPF program that the verifier
 * should have refused.
 */
#include <stddef.h>

#include "common.h"

int main(int argc, char **argv)
{
	struct own_page page = own_page(argc > 1 ? argv[1] : NULL);

	vuln_bpf_write(page.addr, page.forged);
	own_page_use(&page);

	/* Cover the tracks: the page is not this process's to free at exit. */
	vuln_bpf_write(page.addr, page.value);
	own_page_sync(&page);
	return 0;
}
