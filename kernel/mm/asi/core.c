// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: converting pageblocks to ordinary or sensitive.
 *
 * Sensitive memory is not in the restricted direct map. A pageblock is either
 * sensitive or ordinary, and the page allocator uses it accordingly. Only a
 * wholly free pageblock is converted:
 *
 * - Sensitive to ordinary: map it. Sensitive memory is cleared before it is
 *   free, so the block holds no data of others. Possible in any context.
 * - Ordinary to sensitive: clear it, because allocations expect clean sensitive
 *   memory; unmap it, and flush all TLBs. The flush sends IPIs, which needs
 *   interrupts enabled. A batch of blocks shares one flush.
 *
 * All memory is ordinary at boot, and becomes sensitive when it is first needed.
 * A reserve of free ordinary pageblocks serves allocations that must not
 * convert.
 */
#define pr_fmt(fmt) "asi: " fmt

#include <linux/asi.h>
#include <linux/cleanup.h>
#include <linux/compaction.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/workqueue.h>

#include <asm/tlbflush.h>

#include "../page_alloc.h"
#include "asi.h"

#define CREATE_TRACE_POINTS
#include <trace/events/asi.h>

/* Runs of free pageblocks per TLB flush. */
#define BATCH		8

/* Bounds on the number of free ordinary pageblocks of a zone. */
#define RESERVE_LOW	2
#define RESERVE_HIGH	16

/* Protects types of unlisted pageblocks, and the restricted direct map. */
static DEFINE_SPINLOCK(asi_lock);

static atomic_long_t asi_events[ASI_NR_EVENTS];

static void asi_count_event(enum asi_event event, long nr)
{
	atomic_long_add(nr, &asi_events[event]);
}

/**
 * asi_event_read() - Read an event counter.
 * @event: the event.
 *
 * Return: number of events since boot.
 */
long asi_event_read(enum asi_event event)
{
	return atomic_long_read(&asi_events[event]);
}

/* === The restricted direct map ========================================== */

/* Memory without an online page is not mapped. */
static bool asi_is_ordinary(unsigned long addr)
{
	unsigned long pfn = PFN_DOWN(__pa(addr));
	struct page *page = pfn_to_online_page(pfn);

	/* There may be page structs beyond the end of the zone. */
	return page && pfn < zone_end_pfn(page_zone(page)) &&
	       !is_migrate_sensitive(asi_get_type(page));
}

static void asi_sync_locked(unsigned long start, unsigned long end)
{
	unsigned long addr;

	for (addr = ALIGN_DOWN(start, PMD_SIZE); addr < end; addr += PMD_SIZE)
		arch_asi_set(addr, asi_is_ordinary(addr));
}

/**
 * asi_sync_direct_map() - Follow a change of the direct map.
 * @start: start of the range.
 * @end: its end.
 *
 * The caller flushes TLBs afterwards.
 *
 * Context: any but NMI.
 */
void asi_sync_direct_map(unsigned long start, unsigned long end)
{
	if (!asi_enabled())
		return;

	guard(spinlock_irqsave)(&asi_lock);
	asi_sync_locked(start, end);
}

/**
 * asi_look() - Get kind and mapping of a block.
 * @page: its first page.
 * @addr: its address in the direct map.
 * @sensitive: receives the kind.
 *
 * Reads both under the lock, so that no conversion is in progress.
 *
 * Context: any but NMI.
 * Return: as arch_asi_get().
 */
enum asi_entry asi_look(struct page *page, unsigned long addr, bool *sensitive)
{
	guard(spinlock_irqsave)(&asi_lock);
	*sensitive = is_migrate_sensitive(asi_get_type(page));
	return arch_asi_get(addr);
}

/* === Conversion ========================================================= */

struct asi_blocks {
	struct page *page;
	unsigned int order;
};

/**
 * asi_clear_pages() - Clear pages that are about to be free.
 * @page: the first one, which the page allocator has prepared.
 * @nr: their number.
 *
 * Context: any; leaves the restricted address space.
 */
void asi_clear_pages(struct page *page, unsigned int nr)
{
	unsigned int i;

	debug_pagealloc_map_pages(page, nr);
	for (i = 0; i < nr; i++)
		clear_page(page_address(page + i));
	debug_pagealloc_unmap_pages(page, nr);
}

static void asi_set_blocks(const struct asi_blocks *b, int migratetype)
{
	unsigned long start = (unsigned long)page_address(b->page);

	guard(spinlock_irqsave)(&asi_lock);
	asi_set_type(b->page, b->order, migratetype);
	asi_sync_locked(start, start + (PAGE_SIZE << b->order));
}

static bool asi_to_ordinary(struct zone *zone, unsigned int order,
			    int migratetype)
{
	struct asi_blocks b;

	b.page = asi_take_free(zone, order, true, &b.order);
	if (!b.page)
		return false;

	asi_set_blocks(&b, migratetype);
	asi_give_free(zone, b.page, b.order);

	trace_asi_pageblock_convert(page_to_pfn(b.page), b.order, false);
	asi_count_event(ASI_TO_ORDINARY, 1 << (b.order - pageblock_order));
	return true;
}

static bool asi_to_sensitive(struct zone *zone, unsigned int order,
			     int migratetype, unsigned int max)
{
	unsigned long start = ULONG_MAX, end = 0;
	struct asi_blocks b[BATCH];
	unsigned int i, nr;

	for (nr = 0; nr < min(max, BATCH); nr++) {
		b[nr].page = asi_take_free(zone, nr ? 0 : order, false,
					   &b[nr].order);
		if (!b[nr].page)
			break;
	}
	if (!nr)
		return false;

	for (i = 0; i < nr; i++) {
		unsigned long addr = (unsigned long)page_address(b[i].page);

		if (asi_clears())
			asi_clear_pages(b[i].page, 1 << b[i].order);
		asi_set_blocks(&b[i], migratetype);
		start = min(start, addr);
		end = max(end, addr + (PAGE_SIZE << b[i].order));
	}
	flush_tlb_kernel_range(start, end);
	asi_count_event(ASI_FLUSHES, 1);

	for (i = 0; i < nr; i++) {
		asi_give_free(zone, b[i].page, b[i].order);
		trace_asi_pageblock_convert(page_to_pfn(b[i].page), b[i].order,
					    true);
		asi_count_event(ASI_TO_SENSITIVE,
				1 << (b[i].order - pageblock_order));
	}
	return true;
}

/* === The reserve ======================================================== */

static void asi_reserve_work(struct work_struct *work)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		/* ZONE_MOVABLE only serves movable allocations. */
		bool movable = zone_idx(zone) == ZONE_MOVABLE;
		unsigned int low = movable ? 0 : RESERVE_LOW;
		unsigned int high = movable ? 0 : RESERVE_HIGH;
		unsigned int nr = asi_count_free(zone, false, high + 1);

		while (nr < low &&
		       asi_to_ordinary(zone, pageblock_order,
				       MIGRATE_UNMOVABLE))
			nr = asi_count_free(zone, false, low);
		/* There may be free memory but no wholly free block. */
		if (nr < low)
			wakeup_kcompactd(zone->zone_pgdat, pageblock_order,
					 zone_idx(zone));
		if (nr > high)
			asi_to_sensitive(zone, pageblock_order, MIGRATE_MOVABLE,
					 BATCH);
	}
}

static DECLARE_DELAYED_WORK(asi_reserve_dwork, asi_reserve_work);

/* Deferred, because the caller may hold any lock. */
static void asi_check_reserve(void)
{
	if (!delayed_work_pending(&asi_reserve_dwork))
		schedule_delayed_work(&asi_reserve_dwork, 1);
}

/* === Used by the page allocator ========================================= */

/**
 * __asi_account_holes() - asi_account_holes() with isolation enabled.
 * @zone: the zone, whose lock is held.
 * @migratetype: type of the pages.
 * @nr_pages: how many more are free.
 *
 * Context: any but NMI.
 */
void __asi_account_holes(struct zone *zone, int migratetype, long nr_pages)
{
	if (migratetype < MIGRATE_PCPTYPES && !is_migrate_sensitive(migratetype))
		WRITE_ONCE(zone->nr_ordinary_holes,
			   zone->nr_ordinary_holes + nr_pages);
}

static bool asi_may_flush(gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) && !irqs_disabled();
}

/**
 * __asi_convert() - asi_convert() with isolation enabled.
 * @zone: the zone.
 * @order: order of the allocation.
 * @gfp: flags of the allocation.
 * @migratetype: type of the allocation.
 *
 * Context: depends on @gfp; no lock of the page allocator is held.
 * Return: true if the allocation should be retried.
 */
bool __asi_convert(struct zone *zone, unsigned int order, gfp_t gfp,
		   int migratetype)
{
	bool done;

	if (!gfpflags_allow_spinning(gfp) || in_nmi())
		return false;

	if (!is_migrate_sensitive(migratetype)) {
		done = asi_to_ordinary(zone, order, migratetype);
		asi_check_reserve();
	} else if (asi_may_flush(gfp)) {
		done = asi_to_sensitive(zone, order, migratetype, 1);
		/* More will be needed: a batch of them shares one flush. */
		asi_check_reserve();
	} else {
		asi_count_event(ASI_REFUSED, 1);
		asi_check_reserve();
		return false;
	}
	if (!done)
		asi_count_event(ASI_EXHAUSTED, 1);
	return done;
}

/* Only a whole block can become sensitive. */
static bool asi_may_fit(unsigned long pfn, unsigned long start_pfn,
			unsigned long end_pfn)
{
	return is_migrate_sensitive(asi_get_type(pfn_to_page(pfn))) ||
	       (pfn >= start_pfn && pfn + pageblock_nr_pages <= end_pfn &&
		!irqs_disabled());
}

static void asi_fit(struct page *page)
{
	const struct asi_blocks b = { .page = page, .order = pageblock_order };

	if (is_migrate_sensitive(asi_get_type(page)))
		return;
	if (asi_clears())
		asi_clear_pages(page, pageblock_nr_pages);
	asi_set_blocks(&b, MIGRATE_MOVABLE);
	trace_asi_pageblock_convert(page_to_pfn(page), pageblock_order, true);
	asi_count_event(ASI_TO_SENSITIVE, 1);
}

/**
 * __asi_make_fit() - Make all pageblocks of a range sensitive.
 * @start_pfn: start of the range, all of which is free and isolated.
 * @end_pfn: its end.
 *
 * Context: may sleep.
 * Return: false if one cannot be, as others use a part of it.
 */
bool __asi_make_fit(unsigned long start_pfn, unsigned long end_pfn)
{
	unsigned long first = pageblock_start_pfn(start_pfn), pfn;

	for (pfn = first; pfn < end_pfn; pfn += pageblock_nr_pages)
		if (!asi_may_fit(pfn, start_pfn, end_pfn))
			return false;
	for (pfn = first; pfn < end_pfn; pfn += pageblock_nr_pages) {
		asi_fit(pfn_to_page(pfn));
		cond_resched();
	}
	flush_tlb_kernel_range((unsigned long)pfn_to_kaddr(first),
			       (unsigned long)pfn_to_kaddr(end_pfn));
	asi_count_event(ASI_FLUSHES, 1);
	return true;
}

/**
 * __asi_block_init() - asi_block_init() with isolation enabled.
 * @page: first page of the block.
 *
 * Context: interrupts on, because TLBs may be flushed.
 */
void __asi_block_init(struct page *page)
{
	unsigned long addr = (unsigned long)page_address(page);
	unsigned long end = addr + (PAGE_SIZE << pageblock_order);
	bool mapped = false;

	scoped_guard(spinlock_irqsave, &asi_lock) {
		unsigned long pmd;

		for (pmd = addr; pmd < end; pmd += PMD_SIZE)
			mapped |= arch_asi_get(pmd) != ASI_UNMAPPED;
		asi_sync_locked(addr, end);
	}
	if (mapped)
		flush_tlb_kernel_range(addr, end);
}

/* === Memory hotplug ===================================================== */

static int asi_memory_notify(struct notifier_block *nb, unsigned long action,
			     void *data)
{
	struct memory_notify *change = data;
	unsigned long start = (unsigned long)pfn_to_kaddr(change->start_pfn);
	unsigned long end = start + PFN_PHYS(change->nr_pages);

	switch (action) {
	case MEM_GOING_ONLINE:
		return notifier_from_errno(arch_asi_populate(start, end));
	case MEM_ONLINE:
	case MEM_CANCEL_OFFLINE:
		scoped_guard(spinlock_irqsave, &asi_lock)
			asi_sync_locked(start, end);
		break;
	case MEM_OFFLINE:
	case MEM_CANCEL_ONLINE:
		/*
		 * The range's page tables are about to be freed: drop
		 * references.
		 */
		scoped_guard(spinlock_irqsave, &asi_lock)
			for (; start < end; start += PMD_SIZE)
				arch_asi_set(start, false);
		flush_tlb_all();
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block asi_memory_nb = {
	.notifier_call = asi_memory_notify,
};

/* === Boot =============================================================== */

/* Returns false if a pageblock is in too many zones. */
static bool __init asi_settle_zone(struct zone *zone)
{
	unsigned long pfn, end = zone_end_pfn(zone);

	for (pfn = zone->zone_start_pfn; pfn < end;
	     pfn = pageblock_end_pfn(pfn)) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || page_zone(page) != zone)
			continue;
		if (!asi_settle_block(zone, pfn))
			return false;
		scoped_guard(spinlock_irqsave, &asi_lock) {
			unsigned long addr = (unsigned long)page_address(page);

			asi_sync_locked(addr, addr + PAGE_SIZE);
		}
	}
	asi_recount_holes(zone);
	return true;
}

static const char * __init asi_start(void)
{
	struct zone *zone;
	const char *why;

	if (page_group_by_mobility_disabled)
		return "there is too little memory to group it by mobility";
	if (pageblock_order < PMD_ORDER)
		return "pageblocks are smaller than what one entry maps";

	why = arch_asi_init();
	if (why)
		return why;

	arch_asi_choose_flushes();
	/* Poison replaces data as well, and is verified. */
	if (!page_poisoning_enabled_static())
		static_branch_enable(&asi_clear_key);
	/* From here no pageblock can become mixed; settle those that are. */
	static_branch_enable(&asi_key);
	drain_all_pages(NULL);
	for_each_populated_zone(zone) {
		if (!asi_settle_zone(zone)) {
			static_branch_disable(&asi_key);
			return "a pageblock is in more than two zones";
		}
	}
	/*
	 * Other CPUs may have freed pages of a block to their movable lists
	 * just before the block became unmovable. Draining reads the type
	 * again.
	 */
	drain_all_pages(NULL);
	if (asi_clears()) {
		asi_dirty_init();
		static_branch_enable(&asi_clean_key);
	}
	register_memory_notifier(&asi_memory_nb);
	asi_check_reserve();
	return NULL;
}

/**
 * asi_init() - Start to separate sensitive memory from ordinary memory.
 *
 * Memory in use by now belongs to the kernel. All is ordinary, also what is
 * free, because clearing it takes time that grows with the machine.
 *
 * Context: boot, after all memory was handed to the page allocator, and before
 * there are processes.
 */
void __init asi_init(void)
{
	const char *why = asi_requested() ? asi_start() : asi_refused();

	if (why) {
		static_branch_disable(&asi_clear_key);
		pr_warn("inactive: %s\n", why);
	} else if (asi_requested()) {
		pr_info("on: user mode is entered with a restricted address space, and %s flushed\n",
			arch_asi_flushes());
	}
}
