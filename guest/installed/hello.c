// SPDX-License-Identifier: GPL-2.0-only
/* A module of somebody else's, built with what linux-headers has. */
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/vmalloc.h>

static int __init hello_init(void)
{
	pte_t *table = vzalloc(PAGE_SIZE);
	bool written;

	if (!table)
		return -ENOMEM;
	/* The writer of page tables is inlined here, with all that it needs. */
	set_pte(table, pfn_pte(1, PAGE_KERNEL));
	written = pte_pfn(*table) == 1;
	vfree(table);
	if (!written)
		return -EIO;
	pr_info("hello: loaded\n");
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
