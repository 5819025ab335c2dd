// SPDX-License-Identifier: GPL-2.0-only
/* A planted address space isolation bug, for checkers to find. */
#include <linux/asi.h>
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>

#include "internal.h"

int kpkeys_vuln_asi_map(void __user *arg)
{
	struct page *page;
	u64 vaddr;

	if (!asi_enabled())
		return -EOPNOTSUPP;
	if (copy_from_user(&vaddr, arg, sizeof(vaddr)))
		return -EFAULT;
	if (get_user_pages_fast(vaddr, 1, 0, &page) != 1)
		return -EFAULT;
	arch_asi_set((unsigned long)page_address(page) & PMD_MASK, true);
	put_page(page);
	return 0;
}
