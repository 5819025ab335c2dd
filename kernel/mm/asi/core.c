// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: pageblocks that become ordinary or sensitive.
 *
 * Sensitive memory is not in the restricted direct map. A pageblock is of one
 * kind, and the page allocator uses it for that alone. Only one that is free as
 * a whole becomes one of the other kind:
 *
 * - Sensitive to ordinary: it is mapped. It has nothing of others, as what is
 *   sensitive is cleared when it is freed. That can be done anywhere.
 * - Ordinary to sensitive: it is cleared, for it to be clean as other sensitive
 *   memory is; it is unmapped, and all TLBs are flushed. That needs all CPUs,
 *   hence interrupts. Several at a time cost no more.
 *
 * For those who may not convert any some free pageblocks are ordinary.
 */
#define pr_fmt(fmt) "asi: " fmt

#include <linux/asi.h>
#include <linux/cleanup.h>
#include <linux/compaction.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/kvm_types.h>
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

/* Runs of free pageblocks that share a flush. */
#define BATCH		8

/* Free ordinary pageblocks of a zone: keep so many, and no more than that. */
#define RESERVE_LOW	2
#define RESERVE_HIGH	16

DEFINE_STATIC_KEY_FALSE_RO(asi_key);
EXPORT_SYMBOL_FOR_KVM(asi_key);

/*
 * What is freed is cleared long before anybody relies on it, which is when it is
 * known what is sensitive: keys do not change everywhere at the same time.
 */
DEFINE_STATIC_KEY_FALSE_RO(asi_clear_key);
EXPORT_SYMBOL_GPL(asi_clear_key);
DEFINE_STATIC_KEY_FALSE_RO(asi_clean_key);

/* Types of pageblocks that are on no list, and the restricted direct map. */
static DEFINE_SPINLOCK(asi_lock);

static atomic_long_t events[ASI_NR_EVENTS];

static void count_event(enum asi_event event, long nr)
{
	atomic_long_add(nr, &events[event]);
}

/**
 * asi_event_read() - How often something happened since boot.
 * @event: what.
 *
 * Return: the number.
 */
long asi_event_read(enum asi_event event)
{
	return atomic_long_read(&events[event]);
}

/* === The restricted direct map ========================================== */

/* What nobody knows about is not mapped. */
static bool is_ordinary(unsigned long addr)
{
	unsigned long pfn = PFN_DOWN(__pa(addr));
	struct page *page = pfn_to_online_page(pfn);

	/* Behind the end of memory there may be descriptors as well. */
	return page && pfn < zone_end_pfn(page_zone(page)) &&
	       !is_migrate_sensitive(asi_get_type(page));
}

static void sync_locked(unsigned long start, unsigned long end)
{
	unsigned long addr;

	for (addr = ALIGN_DOWN(start, PMD_SIZE); addr < end; addr += PMD_SIZE)
		arch_asi_set(addr, is_ordinary(addr));
}

/**
 * asi_sync_direct_map() - Tell that the direct map has changed.
 * @start: start of the range.
 * @end: its end.
 *
 * To be called before the caller flushes TLBs.
 *
 * Context: any but NMI.
 */
void asi_sync_direct_map(unsigned long start, unsigned long end)
{
	if (!asi_enabled())
		return;

	guard(spinlock_irqsave)(&asi_lock);
	sync_locked(start, end);
}

/**
 * asi_look() - What kind of a block is it, and is it mapped?
 * @page: its first page.
 * @addr: where it is in the direct map.
 * @sensitive: receives the kind.
 *
 * Both at the same time: no conversion is under way.
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

struct blocks {
	struct page *page;
	unsigned int order;
};

static void clear_blocks(const struct blocks *b)
{
	unsigned int i, nr = 1 << b->order;

	if (!asi_clears())
		return;

	debug_pagealloc_map_pages(b->page, nr);
	for (i = 0; i < nr; i++)
		clear_page(page_address(b->page + i));
	debug_pagealloc_unmap_pages(b->page, nr);
}

static void set_blocks(const struct blocks *b, int migratetype)
{
	unsigned long start = (unsigned long)page_address(b->page);

	guard(spinlock_irqsave)(&asi_lock);
	asi_set_type(b->page, b->order, migratetype);
	sync_locked(start, start + (PAGE_SIZE << b->order));
}

static bool to_ordinary(struct zone *zone, unsigned int order, int migratetype)
{
	struct blocks b;

	b.page = asi_take_free(zone, order, true, &b.order);
	if (!b.page)
		return false;

	set_blocks(&b, migratetype);
	asi_give_free(zone, b.page, b.order);

	trace_asi_pageblock_convert(page_to_pfn(b.page), b.order, false);
	count_event(ASI_TO_ORDINARY, 1 << (b.order - pageblock_order));
	return true;
}

static bool to_sensitive(struct zone *zone, unsigned int order, int migratetype,
			 unsigned int max)
{
	unsigned long start = ULONG_MAX, end = 0;
	struct blocks b[BATCH];
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

		clear_blocks(&b[i]);
		set_blocks(&b[i], migratetype);
		start = min(start, addr);
		end = max(end, addr + (PAGE_SIZE << b[i].order));
	}
	flush_tlb_kernel_range(start, end);
	count_event(ASI_FLUSHES, 1);

	for (i = 0; i < nr; i++) {
		asi_give_free(zone, b[i].page, b[i].order);
		trace_asi_pageblock_convert(page_to_pfn(b[i].page), b[i].order,
					    true);
		count_event(ASI_TO_SENSITIVE,
			    1 << (b[i].order - pageblock_order));
	}
	return true;
}

/* === The reserve ======================================================== */

static void reserve_work(struct work_struct *work)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		unsigned int nr;

		/* All of it can be moved, so nobody needs other memory there. */
		if (zone_idx(zone) == ZONE_MOVABLE)
			continue;

		nr = asi_count_free(zone, false, RESERVE_HIGH + 1);
		while (nr < RESERVE_LOW &&
		       to_ordinary(zone, pageblock_order, MIGRATE_UNMOVABLE))
			nr = asi_count_free(zone, false, RESERVE_LOW);
		/* Memory may be free, and no block of it as a whole. */
		if (nr < RESERVE_LOW)
			wakeup_kcompactd(zone->zone_pgdat, pageblock_order,
					 zone_idx(zone));
		if (nr > RESERVE_HIGH)
			to_sensitive(zone, pageblock_order, MIGRATE_MOVABLE,
				     BATCH);
	}
}

static DECLARE_DELAYED_WORK(reserve_dwork, reserve_work);

/* Later, as it may be asked for under any lock. */
static void look_after_reserve(void)
{
	if (!delayed_work_pending(&reserve_dwork))
		schedule_delayed_work(&reserve_dwork, 1);
}

/* === For the page allocator ============================================= */

static bool may_flush(gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) && !irqs_disabled();
}

/**
 * __asi_convert() - As asi_convert(), if isolation is enabled.
 * @zone: where.
 * @order: what is to be allocated.
 * @gfp: how.
 * @migratetype: of what type.
 *
 * Context: as @gfp says, with no lock of the page allocator held.
 * Return: true if it is worth another try.
 */
bool __asi_convert(struct zone *zone, unsigned int order, gfp_t gfp,
		   int migratetype)
{
	bool done;

	if (!gfpflags_allow_spinning(gfp) || in_nmi())
		return false;

	if (!is_migrate_sensitive(migratetype)) {
		done = to_ordinary(zone, order, migratetype);
		look_after_reserve();
	} else if (may_flush(gfp)) {
		done = to_sensitive(zone, order, migratetype, 1);
	} else {
		count_event(ASI_REFUSED, 1);
		look_after_reserve();
		return false;
	}
	if (!done)
		count_event(ASI_EXHAUSTED, 1);
	return done;
}

/**
 * __asi_range_fits() - Is a range for sensitive memory?
 * @start_pfn: start of the range.
 * @end_pfn: its end.
 *
 * Return: true if all of it is.
 */
bool __asi_range_fits(unsigned long start_pfn, unsigned long end_pfn)
{
	unsigned long pfn;

	for (pfn = pageblock_start_pfn(start_pfn); pfn < end_pfn;
	     pfn += pageblock_nr_pages)
		if (!is_migrate_sensitive(asi_get_type(pfn_to_page(pfn))))
			return false;
	return true;
}

/**
 * __asi_block_init() - As asi_block_init(), if isolation is enabled.
 * @page: first page of the block.
 *
 * Context: with interrupts, as TLBs may be flushed.
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
		sync_locked(addr, end);
	}
	if (mapped)
		flush_tlb_kernel_range(addr, end);
}

/* === Memory that comes and goes ========================================= */

static int memory_changes(struct notifier_block *nb, unsigned long action,
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
			sync_locked(start, end);
		break;
	case MEM_OFFLINE:
	case MEM_CANCEL_ONLINE:
		/* Nobody is to find tables there that are about to go. */
		scoped_guard(spinlock_irqsave, &asi_lock)
			for (; start < end; start += PMD_SIZE)
				arch_asi_set(start, false);
		flush_tlb_all();
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block memory_nb = {
	.notifier_call = memory_changes,
};

/* === Boot =============================================================== */

static bool requested __ro_after_init;
static const char *refused __ro_after_init;

static int __init early_asi(char *arg)
{
	return kstrtobool(arg, &requested);
}
early_param("asi", early_asi);

/**
 * asi_requested() - Is it on the command line?
 *
 * For what is to be decided before asi_enabled() can be true.
 *
 * Context: any, from early parameters on.
 * Return: true if so.
 */
bool asi_requested(void)
{
	return requested;
}

/**
 * asi_refuse() - Do without, as if it had not been asked for.
 * @why: in words, for the log.
 *
 * Context: boot, before a process has page tables.
 */
void __init asi_refuse(const char *why)
{
	requested = false;
	refused = why;
}

/**
 * asi_clear_init() - Have all memory be clean that is freed from now on.
 *
 * Context: boot, when it is known whether it is poisoned, and before memory is
 * handed to the page allocator.
 */
void __init asi_clear_init(void)
{
	/* Poison has nothing of others either, and is looked at. */
	if (requested && !page_poisoning_enabled_static())
		static_branch_enable(&asi_clear_key);
}

/* Returns false if a pageblock cannot be told to be of one kind. */
static bool __init settle_zone(struct zone *zone)
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

			sync_locked(addr, addr + PAGE_SIZE);
		}
	}
	return true;
}

static const char * __init start(void)
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
	/* From now on no block gets both kinds; which have, is found here. */
	static_branch_enable(&asi_key);
	drain_all_pages(NULL);
	for_each_populated_zone(zone) {
		if (!settle_zone(zone)) {
			static_branch_disable(&asi_key);
			return "a pageblock is in several zones";
		}
	}
	/*
	 * Other CPUs may have freed pages of a block to their lists of movable
	 * ones just before it became unmovable. Its type is read anew here.
	 */
	drain_all_pages(NULL);
	if (asi_clears())
		static_branch_enable(&asi_clean_key);
	register_memory_notifier(&memory_nb);
	look_after_reserve();
	return NULL;
}

/**
 * asi_init() - Tell sensitive memory from other memory from now on.
 *
 * What is in use by now is the kernel's, and ordinary.
 *
 * Context: boot, when all memory has been handed to the page allocator, and
 * before there are processes.
 */
void __init asi_init(void)
{
	const char *why = requested ? start() : refused;

	if (why) {
		static_branch_disable(&asi_clear_key);
		pr_warn("inactive: %s\n", why);
	} else if (requested) {
		pr_info("on: user mode is entered with a restricted address space, and %s flushed\n",
			arch_asi_flushes());
	}
}
