// SPDX-License-Identifier: GPL-2.0-only
/* A module of somebody else's, built with what linux-headers has. */
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/vmalloc.h>

static int __init hello_init(void)
{
	/* The helpers that write to page tables are inlined in here. */
	pte_t pte = pfn_pte(1, PAGE_KERNEL);
	void *area = vmalloc(PAGE_SIZE);

	if (!area)
		return -ENOMEM;
	memset(area, 1, PAGE_SIZE);
	vfree(area);
	pr_info("hello: loaded%s\n", pte_none(pte) ? "?" : "");
	return 0;
}
module_init(hello_init);

static void __exit hello_exit(void)
{
	pr_info("hello: unloaded\n");
}
module_exit(hello_exit);

MODULE_DESCRIPTION("Test of linux-headers");
MODULE_LICENSE("GPL");
