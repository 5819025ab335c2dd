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

#include "kpkeys.h"
#include "pool.h"

static bool kpkeys_region_link(struct kpkeys_region *region, unsigned int i,
			       int level)
{
	if (!test_bit(i, region->kinds[KPKEYS_KIND_TABLE + level]) ||
	    test_and_set_bit(i, region->linked))
		return false;

	/* Freeing ends the use before it looks for a link. */
	if (test_bit(i, region->in_use))
		return true;
	clear_bit(i, region->linked);
	return false;
}

/**
 * kpkeys_note_link() - Note that an entry is going to point to a page table.
 * @process: whether the entry belongs to a process.
 * @pfn: page frame of the table.
 * @level: its enum pgtable_level.
 *
 * See kpkeys_link_table(), which is inlined into modules.
 *
 * Context: level raised.
 * Return: false if the entry must not be written.
 */
bool kpkeys_note_link(bool process, unsigned long pfn, int level)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, pfn, &i);
	if (process)
		return region && kpkeys_region_link(region, i, level);

	/* Early tables do not belong to the pool, and are never freed. */
	if (region)
		set_bit(i, region->linked);
	return true;
}
EXPORT_SYMBOL_GPL(kpkeys_note_link);

/**
 * kpkeys_forget_link() - Note that no entry points to a page table any more.
 * @pfn: page frame of the table, or any other.
 *
 * See kpkeys_unlink_table().
 *
 * Context: level raised.
 */
void kpkeys_forget_link(unsigned long pfn)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, pfn, &i);
	if (region && test_bit(i, region->linked))
		clear_bit(i, region->linked);
}
EXPORT_SYMBOL_GPL(kpkeys_forget_link);

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

/**
 * kpkeys_refuse_link() - Report a page that must not become a page table.
 * @pfn: its page frame.
 * @level: the enum pgtable_level that it would be of.
 *
 * As with a refused mapping, the current task is killed: it would find the
 * entry empty again and again.
 *
 * Context: any, at the default level.
 */
void kpkeys_refuse_link(unsigned long pfn, int level)
{
	kpkeys_violation_refused("page frame 0x%lx as a page table of level %d",
				 pfn, level);
	if (level != PGTABLE_LEVEL_PTE)
		panic("kpkeys: an entry without the table below it\n");
	if (in_task() && current->mm && !kpkeys_violation_is_expected())
		force_fatal_sig(SIGKILL);
}
EXPORT_SYMBOL_GPL(kpkeys_refuse_link);
