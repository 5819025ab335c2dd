// SPDX-License-Identifier: GPL-2.0-only
/*
 * Links: note for each page of the pool whether an entry points to it.
 *
 * A second entry of a process would give the table to two owners, one of which
 * may be the attacker's. A table that is freed while an entry points to it gets
 * a second owner from the pool.
 *
 * Tables of the kernel are noted as well, lest they be freed, but not refused:
 * some are linked twice on purpose.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/kpkeys_links.h>
#include <linux/mm.h>
#include <linux/panic.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>

#include "kpkeys.h"
#include "pool.h"

/*
 * The level is raised. Inlined, as an interrupted caller would find a return
 * address, and what tells whether to lower, on its stack.
 */
static __always_inline bool kpkeys_region_link(struct kpkeys_region *region,
					       unsigned int i, int level)
{
	if (!test_bit(i, region->owned) ||
	    !test_bit(i, region->kinds[KPKEYS_KIND_TABLE + level]) ||
	    test_and_set_bit(i, region->linked))
		return false;

	/* Freeing ends the use before it looks for a link. */
	if (test_bit(i, region->in_use))
		return true;
	clear_bit(i, region->linked);
	return false;
}

/*
 * As with a refused mapping, the current task is killed: it would find the
 * entry empty again and again. A caller that links to a variable fills the
 * table through it, as when a huge page is split, and cannot go on.
 */
static void kpkeys_refuse_link(unsigned long pfn, int level, const void *entry)
{
	kpkeys_violation_refused("page frame 0x%lx as a page table of level %d",
				 pfn, level);
	if (level != PGTABLE_LEVEL_PTE || object_is_on_stack(entry))
		panic("kpkeys: an entry without the table below it\n");
	if (in_task() && current->mm && !kpkeys_violation_is_expected())
		force_fatal_sig(SIGKILL);
}

/**
 * __kpkeys_link_table() - Have an entry point to a page table, and note that.
 * @process: whether the entry belongs to a process.
 * @entry: the entry, or NULL to note it only.
 * @value: the value to write.
 * @pfn: page frame of the table.
 * @level: its enum pgtable_level.
 *
 * See kpkeys_link_table(), which is inlined into modules.
 *
 * Context: any in which the entry may be written.
 */
void __kpkeys_link_table(bool process, void *entry, u64 value,
			 unsigned long pfn, int level)
{
	struct kpkeys_region *region;
	bool linked = !process;
	unsigned int i;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, pfn, &i);
	scoped_guard(kpkeys_hardened_pgtables) {
		if (process)
			linked = region && kpkeys_region_link(region, i, level);
		else if (region) /* early tables have none, and are never freed */
			set_bit(i, region->linked);
		if (linked && entry)
			WRITE_ONCE(*(u64 *)entry, value);
	}
	if (unlikely(!linked))
		kpkeys_refuse_link(pfn, level, entry);
}
EXPORT_SYMBOL_GPL(__kpkeys_link_table);

/**
 * __kpkeys_clear_link() - Have an entry point to a page table no more.
 * @entry: the entry, or NULL if it does not already.
 * @value: the value to write.
 * @pfn: page frame of the table, or any other.
 *
 * See kpkeys_clear_link() and kpkeys_unlink_table().
 *
 * Context: any in which the entry may be written.
 */
void __kpkeys_clear_link(void *entry, u64 value, unsigned long pfn)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, pfn, &i);

	guard(kpkeys_hardened_pgtables)();
	if (entry)
		WRITE_ONCE(*(u64 *)entry, value);
	if (region && test_bit(i, region->linked))
		clear_bit(i, region->linked);
}
EXPORT_SYMBOL_GPL(__kpkeys_clear_link);

/**
 * kpkeys_is_linked() - Does an entry point to a page table?
 * @page: the table, which the caller holds.
 *
 * Return: true if so.
 */
bool kpkeys_is_linked(struct page *page)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, page_to_pfn(page), &i);
	return region && test_bit(i, region->linked);
}
