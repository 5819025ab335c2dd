// SPDX-License-Identifier: GPL-2.0-only
/* Blocks: have memory enter a pool, and leave it. */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/topology.h>

#include <asm/tlbflush.h>

#include <kunit/static_stub.h>

#include "kpkeys.h"
#include "pool.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kpkeys.h>

/* === Requests to the worker ============================================= */

/* Time of the next refill after a failed one, in jiffies. */
static unsigned long *kpkeys_pool_retry_at(const struct kpkeys_pool *pool,
					   unsigned int nid)
{
	return &pool->sync->retry_at[nid < pool->nr_nodes ? nid : 0];
}

/* The pool is created before workqueues. */
static bool kpkeys_has_workqueues(void)
{
	return system_state >= SYSTEM_SCHEDULING;
}

/**
 * kpkeys_pool_ask_for_refill() - Have the worker add pages to a pool.
 * @pool: the pool.
 * @nid: the node that is short of pages.
 */
void kpkeys_pool_ask_for_refill(const struct kpkeys_pool *pool, int nid)
{
	if (kpkeys_has_workqueues() &&
	    time_after_eq(jiffies, READ_ONCE(*kpkeys_pool_retry_at(pool, nid))))
		mod_delayed_work(system_percpu_wq, &pool->sync->work, 0);
}

/**
 * kpkeys_pool_ask_for_trim() - Have the worker give back idle pages later.
 * @pool: the pool.
 */
void kpkeys_pool_ask_for_trim(const struct kpkeys_pool *pool)
{
	if (kpkeys_has_workqueues())
		schedule_delayed_work(&pool->sync->work, HZ);
}

/* === The reserve ======================================================== */

/* Refill the reserve before a split, or after one that added no pages. */
static void kpkeys_reserve_replenish(const struct kpkeys_pool *pool, int nid)
{
	struct kpkeys_pool_state *state = pool->state;
	struct page *page;

	if (state->nr_reserve < KPKEYS_POOL_RESERVE &&
	    kpkeys_pool_node(pool, nid)->nr_clean < KPKEYS_POOL_RESERVE)
		kpkeys_pool_clean(pool, nid);

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);
	while (state->nr_reserve < KPKEYS_POOL_RESERVE) {
		page = kpkeys_node_take(kpkeys_pool_node(pool, nid), 0,
					KPKEYS_KIND_CLEAN, true);
		if (!page)
			break;
		state->reserve[state->nr_reserve++] = page;
	}
}

/* === Growing: the grow mutex is held ==================================== */

static int kpkeys_block_set_key(const struct kpkeys_pool *pool,
				struct page *page, unsigned int nr, int pkey)
{
	int err;

	/* All pages may have been in use when a split took from it last. */
	kpkeys_reserve_replenish(pool, page_to_nid(page));
	scoped_class(kpkeys_pool_level, level, pool) {
		pool->state->tagging = current;
	}
	err = set_memory_pkey((unsigned long)page_address(page), nr, pkey);
	scoped_class(kpkeys_pool_level, level, pool) {
		pool->state->tagging = NULL;
	}

	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	/* Too early in boot: nothing was changed. */
	if (err == -EBUSY)
		return err;

	if (pkey != KPKEYS_PKEY_DEFAULT) {
		/* Even after a failure, some pages may be tagged. */
		kpkeys_stat_add(KPKEYS_STAT_PTPS_TAGGED, nr);
		if (err)
			kpkeys_stat_add(KPKEYS_STAT_TAG_FAILURES, 1);
	} else if (err) {
		kpkeys_stat_add(KPKEYS_STAT_UNTAG_FAILURES, 1);
	} else {
		kpkeys_stat_add(KPKEYS_STAT_PTPS_UNTAGGED, nr);
	}
	if (err)
		kpkeys_pool_count(pool, pkey == KPKEYS_PKEY_DEFAULT ?
			    KPKEYS_POOL_FAILED_UNTAGS : KPKEYS_POOL_FAILED_TAGS);
	return err;
}

/**
 * kpkeys_block_free_pages() - Free pages that have been split.
 * @page: the first page.
 * @nr: number of pages.
 */
void kpkeys_block_free_pages(struct page *page, unsigned int nr)
{
	while (nr--)
		__free_page(page++);
}

/*
 * A page that is not given back: one of those that the node has, or else the
 * next of the @nr pages that enter.
 */
static struct page *kpkeys_block_keep_page(struct kpkeys_pool_node *node,
					   enum kpkeys_kind kind, struct page *page,
					   unsigned int *i, unsigned int nr)
{
	struct page *kept = kpkeys_node_take(node, 0, kind, true);

	if (!kept && *i < nr)
		kept = page + (*i)++;
	return kept;
}

/* Enter tagged pages into the pool, as stuck ones if not @usable. */
static int kpkeys_block_enter(const struct kpkeys_pool *pool, struct page *page,
			      unsigned int order, unsigned int min_spare,
			      bool usable)
{
	struct kpkeys_pool_state *state = pool->state;
	unsigned int i = 0, nr = 1 << order;
	int nid = page_to_nid(page);
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	bool whole = order == KPKEYS_BLOCK_ORDER;
	struct kpkeys_region *region;
	unsigned int first;
	struct page *kept;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	while (usable && state->nr_spare < min_spare) {
		kept = kpkeys_block_keep_page(node, KPKEYS_KIND_DATA, page, &i, nr - 1);
		if (!kept)
			break;
		kpkeys_spare_push(pool, page_address(kept));
	}

	region = kpkeys_region_add(pool, page, nr, whole);
	if (WARN_ON_ONCE(!region))
		return -ENOSPC;

	/* Only now for a single page, which needs a region by itself. */
	while (usable && state->nr_spare < min_spare && nr == 1 && i < nr)
		kpkeys_spare_push(pool, page_address(page + i++));

	first = page_to_pfn(page) - region->base;
	if (whole)
		node->nr_blocks++;
	else
		node->nr_small += nr;

	if (!usable) {
		bitmap_set(region->stuck, first, nr);
		kpkeys_region_enlist(node, region);
		return 0;
	}

	while (state->nr_reserve < KPKEYS_POOL_RESERVE) {
		kept = kpkeys_block_keep_page(node, KPKEYS_KIND_CLEAN, page, &i, nr);
		if (!kept)
			break;
		state->reserve[state->nr_reserve++] = kept;
	}
	kpkeys_region_make_available(node, region, first + i, nr - i);
	region->lasting |= i;
	return 0;
}

/**
 * kpkeys_block_tag() - Tag pages that were searched for, and enter them.
 * @pool: the pool.
 * @page: the first page. They have been split, and are consumed.
 * @order: order of the pages.
 * @min_spare: have at least so many pages for the pool's own data afterwards.
 *
 * Context: may sleep; the grow mutex is held.
 * Return: 0 or the error of changing the key.
 */
int kpkeys_block_tag(const struct kpkeys_pool *pool, struct page *page,
		     unsigned int order, unsigned int min_spare)
{
	unsigned int nr = 1 << order;
	int err;

	err = kpkeys_block_set_key(pool, page, nr, pool->pkey);
	trace_kpkeys_pool_refill(pool->name, page_to_nid(page), page_to_pfn(page),
				 order, err);
	if (!err) {
		kpkeys_pool_count(pool, order == KPKEYS_BLOCK_ORDER ?
					KPKEYS_POOL_BLOCKS_ADDED :
					KPKEYS_POOL_SMALL_ADDED);
		return kpkeys_block_enter(pool, page, order, min_spare, true);
	}

	/* Nothing was changed. */
	if (err == -EBUSY) {
		kpkeys_block_free_pages(page, nr);
		return err;
	}

	if (!kpkeys_block_set_key(pool, page, nr, KPKEYS_PKEY_DEFAULT)) {
		kpkeys_block_free_pages(page, nr);
		return err;
	}

	/* Some pages may be tagged: keep them until they can be given back. */
	if (!kpkeys_block_enter(pool, page, order, 0, false))
		atomic_long_add(nr, &pool->sync->nr_stuck);
	return err;
}

/**
 * kpkeys_block_search_and_tag() - Add pages to a pool that have been split.
 * @pool: the pool.
 * @page: the first page. They are consumed.
 * @order: order of the pages.
 * @min_spare: have at least so many pages for the pool's own data afterwards.
 *
 * Context: may sleep; the grow mutex is held.
 * Return: as kpkeys_block_add().
 */
int kpkeys_block_search_and_tag(const struct kpkeys_pool *pool,
				struct page *page, unsigned int order,
				unsigned int min_spare)
{
	int err = -EADDRINUSE;

	kpkeys_mappings_offer(pool, page_to_pfn(page), 1 << order);
	if (kpkeys_mappings_search(pool))
		err = kpkeys_block_tag(pool, page, order, min_spare);
	else
		kpkeys_pool_count(pool, KPKEYS_POOL_REFUSED);
	kpkeys_mappings_settle(pool);
	kpkeys_pool_report_idle(pool, page_to_nid(page));
	return err;
}

/**
 * kpkeys_block_add() - Add pages to a pool.
 * @pool: the pool.
 * @page: the first page, which has just been allocated. It is consumed.
 * @order: order of the pages.
 * @min_spare: have at least so many pages for the pool's own data afterwards.
 *
 * Context: may sleep; the grow mutex is held.
 * Return: 0; -EADDRINUSE if a process maps one of the pages, which are left to
 * it; -ERANGE if the pool cannot have them; or the error of changing the key.
 */
int kpkeys_block_add(const struct kpkeys_pool *pool, struct page *page,
		     unsigned int order, unsigned int min_spare)
{
	split_page(page, order);

	if (!kpkeys_region_fits(pool, page, 1 << order)) {
		kpkeys_block_free_pages(page, 1 << order);
		return -ERANGE;
	}
	return kpkeys_block_search_and_tag(pool, page, order, min_spare);
}

/* === Memory with another key: the grow mutex is held ==================== */

/* Have the pool note pages that it never hands out. */
static int kpkeys_block_enter_other(const struct kpkeys_pool *pool,
				    struct page *page, unsigned int order)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, page_to_nid(page));
	bool whole = order == KPKEYS_BLOCK_ORDER;
	struct kpkeys_region *region;
	unsigned int i;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, page_to_nid(page)));
	CLASS(kpkeys_pool_level, level)(pool);

	region = kpkeys_region_add(pool, page, 1 << order, whole);
	if (WARN_ON_ONCE(!region))
		return -ENOSPC;
	kpkeys_region_enlist(node, region);
	pool->state->nr_other += 1 << order;
	if (whole) {
		node->nr_blocks++;
		kpkeys_pool_count(pool, KPKEYS_POOL_BLOCKS_ADDED);
		return 0;
	}
	node->nr_small += 1 << order;
	for (i = 0; i < 1 << order; i += KPKEYS_SMALL_PAGES)
		kpkeys_pool_count(pool, KPKEYS_POOL_SMALL_ADDED);
	return 0;
}

/* The pool cannot use the pages for what it has to note about them. */
static bool kpkeys_pool_has_spare(const struct kpkeys_pool *pool, int nid)
{
	struct page *page;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);
	while (pool->state->nr_spare < KPKEYS_MIN_SPARE) {
		page = kpkeys_node_take(kpkeys_pool_node(pool, nid), 0,
					KPKEYS_KIND_DATA, true);
		if (!page)
			return false;
		kpkeys_spare_push(pool, page_address(page));
	}
	return true;
}

static int kpkeys_block_set_keys(const struct kpkeys_pool *pool, struct page *page,
				 unsigned int nr, int first_pkey, int pkey)
{
	int err;

	if (first_pkey == pkey)
		return kpkeys_block_set_key(pool, page, nr, pkey);
	err = kpkeys_block_set_key(pool, page, 1, first_pkey);
	return err ? : kpkeys_block_set_key(pool, page + 1, nr - 1, pkey);
}

/**
 * kpkeys_block_add_other() - Give pages another key, and have a pool watch them.
 * @pool: the pool. It refuses other mappings of the pages.
 * @page: the first page, which has just been allocated. It is consumed.
 * @order: order of the pages; above 0 if their keys differ.
 * @first_pkey: the key of the first, for good.
 * @pkey: that of the others.
 *
 * Context: may sleep; the grow mutex is held.
 * Return: as kpkeys_block_add(), or -ENOMEM.
 */
int kpkeys_block_add_other(const struct kpkeys_pool *pool, struct page *page,
			   unsigned int order, int first_pkey, int pkey)
{
	unsigned int nr = 1 << order;
	int err = -ENOMEM;

	split_page(page, order);
	if (!kpkeys_pool_has_spare(pool, page_to_nid(page)) ||
	    !kpkeys_region_fits(pool, page, 1)) {
		kpkeys_block_free_pages(page, nr);
		return err;
	}

	kpkeys_mappings_offer(pool, page_to_pfn(page), nr);
	if (!kpkeys_mappings_search(pool)) {
		kpkeys_pool_count(pool, KPKEYS_POOL_REFUSED);
		err = -EADDRINUSE;
	} else {
		err = kpkeys_block_set_keys(pool, page, nr, first_pkey, pkey);
		if (!err)
			err = kpkeys_block_enter_other(pool, page, order);
		else if (err == -EBUSY ||
			 !kpkeys_block_set_key(pool, page, nr, KPKEYS_PKEY_DEFAULT))
			kpkeys_block_free_pages(page, nr);
		else if (!kpkeys_block_enter(pool, page, order, 0, false))
			atomic_long_add(nr, &pool->sync->nr_stuck);
	}
	kpkeys_mappings_settle(pool);
	return err;
}

/**
 * kpkeys_block_set_objects() - Note that pages have objects, and nothing else.
 * @pool: the pool.
 * @page: the first page, from kpkeys_block_add_other().
 * @order: order of the pages.
 *
 * Context: the grow mutex is held.
 */
void kpkeys_block_set_objects(const struct kpkeys_pool *pool, struct page *page,
			      unsigned int order)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(pool, page_to_pfn(page), &i);
	CLASS(kpkeys_pool_level, level)(pool);
	bitmap_set(region->objects, i, 1 << order);
}

/* === Shrinking: the grow mutex is held ================================== */

/**
 * kpkeys_pool_flush() - Flush all TLBs before pages leave the pool.
 *
 * Ordinary data (mm_cpumask, tlb_gen) decided which CPUs were flushed when a
 * table was freed. A CPU that was left out would take what the next owner of
 * the page writes for entries. Not static, so that tests can stub it.
 *
 * Context: process context, interrupts on.
 */
void kpkeys_pool_flush(void)
{
	KUNIT_STATIC_STUB_REDIRECT(kpkeys_pool_flush);

	arch_kpkeys_flush_tlbs();
}

/**
 * kpkeys_pool_report_idle() - Tell the system what can be given back.
 * @pool: the pool.
 * @nid: the node.
 *
 * Empty blocks count as reclaimable in /proc/meminfo, and so as available.
 *
 * Context: any, at the default level.
 */
void kpkeys_pool_report_idle(const struct kpkeys_pool *pool, unsigned int nid)
{
	atomic_long_t *idle = &pool->sync->idle[nid < pool->nr_nodes ? nid : 0];
	long nr = READ_ONCE(kpkeys_pool_node(pool, nid)->nr_empty) *
		  KPKEYS_BLOCK_PAGES;
	long before;

	if (nr == atomic_long_read(idle))
		return;
	before = atomic_long_xchg(idle, nr);
	mod_node_page_state(NODE_DATA(nid), NR_KERNEL_MISC_RECLAIMABLE,
			    nr - before);
}

/* Forget pages that are already untagged. Their node is locked. */
static void kpkeys_block_disown(const struct kpkeys_pool *pool,
				struct kpkeys_region *region,
				unsigned int first, unsigned int nr)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, region->nid);

	bitmap_clear(region->stuck, first, nr);
	bitmap_clear(region->owned, first, nr);
	region->nr_owned -= nr;
	if (region->whole)
		node->nr_blocks--;
	else
		node->nr_small -= nr;
	if (!region->nr_owned) {
		list_del_init(&region->list);
		if (bitmap_empty(region->early, KPKEYS_BLOCK_PAGES))
			kpkeys_region_remove(pool, region);
	}
}

/*
 * Have nobody take the pages any more, and look whether somebody has. They are
 * unavailable already, but the lock that said so is in ordinary memory.
 */
static bool kpkeys_block_withdraw(const struct kpkeys_pool *pool,
				  struct kpkeys_region *region,
				  unsigned int first, unsigned int nr)
{
	unsigned int end = first + nr;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, region->nid));
	CLASS(kpkeys_pool_level, level)(pool);
	bitmap_set(region->stuck, first, nr);
	/* The same order as in kpkeys_page_set_in_use(), the other way round. */
	smp_mb();
	return find_next_bit(region->in_use, end, first) >= end &&
	       find_next_bit(region->linked, end, first) >= end;
}

/* Untag and free pages that are already unavailable. */
static int kpkeys_block_release(const struct kpkeys_pool *pool,
				struct kpkeys_region *region,
				unsigned int first, unsigned int order)
{
	struct page *page = pfn_to_page(region->base + first);
	unsigned int nr = 1 << order;
	bool whole = region->whole;
	int nid = region->nid;
	int err;

	if (!kpkeys_block_withdraw(pool, region, first, nr)) {
		kpkeys_violation_refused("%u page frames from 0x%lx given back, but in use",
					 nr, page_to_pfn(page));
		return -EBUSY;
	}

	err = kpkeys_block_set_key(pool, page, nr, KPKEYS_PKEY_DEFAULT);
	trace_kpkeys_pool_give_back(pool->name, nid, page_to_pfn(page), order,
				    err);
	kpkeys_reserve_replenish(pool, nid);

	scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid)) {
		CLASS(kpkeys_pool_level, level)(pool);

		if (err)
			bitmap_set(region->stuck, first, nr);
		else
			kpkeys_block_disown(pool, region, first, nr);
	}

	if (err)
		return err;

	kpkeys_pool_flush();
	kpkeys_pool_count(pool, whole ? KPKEYS_POOL_BLOCKS_RETURNED :
			    KPKEYS_POOL_SMALL_RETURNED);
	kpkeys_block_free_pages(page, nr);
	return 0;
}

/* Withdraw an idle block from allocation. */
static struct kpkeys_region *kpkeys_block_claim_whole(const struct kpkeys_pool *pool,
						      int nid,
						      unsigned int keep)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	struct kpkeys_region *region;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	/* Blocks that are added at once must not be given back at once. */
	if (keep)
		keep = max(keep, kpkeys_blocks_at_once(node));
	if (node->nr_empty <= keep)
		return NULL;
	region = list_last_entry(&node->empty, typeof(*region), list);
	kpkeys_region_make_unavailable(node, region, 0, KPKEYS_BLOCK_PAGES);
	return region;
}

/*
 * The part of a small block to give back at once: all of it, or one page if the
 * pool does not have all. @which are pages of the region, @first one of these.
 */
static unsigned int kpkeys_small_order(const unsigned long *which,
				       unsigned int first)
{
	bool all = IS_ALIGNED(first, KPKEYS_SMALL_PAGES) &&
		   bitmap_read(which, first, KPKEYS_SMALL_PAGES) ==
			BIT(KPKEYS_SMALL_PAGES) - 1;

	return all ? KPKEYS_SMALL_ORDER : 0;
}

/* Withdraw an idle small block, or a page of one, from allocation. */
static struct kpkeys_region *kpkeys_block_claim_small(const struct kpkeys_pool *pool,
						      int nid,
						      unsigned int keep,
						      unsigned int *first,
						      unsigned int *order)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	struct kpkeys_region *region;
	unsigned long idle;
	unsigned int i;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	if (keep && node->nr_avail < KPKEYS_POOL_LOW + KPKEYS_SMALL_PAGES)
		return NULL;

	list_for_each_entry(region, &node->partial, list) {
		if (region->whole)
			continue;
		for (i = 0; i < KPKEYS_BLOCK_PAGES; i += KPKEYS_SMALL_PAGES) {
			idle = bitmap_read(region->avail, i, KPKEYS_SMALL_PAGES);
			if (!idle || idle != bitmap_read(region->owned, i, KPKEYS_SMALL_PAGES))
				continue;
			*first = i + __ffs(idle);
			*order = kpkeys_small_order(region->avail, *first);
			kpkeys_region_make_unavailable(node, region, *first, 1 << *order);
			return region;
		}
	}
	return NULL;
}

static struct kpkeys_region *kpkeys_block_find_stuck(const struct kpkeys_pool *pool,
						     int nid,
						     unsigned int *first)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	struct list_head *lists[] = { &node->full, &node->partial };
	struct kpkeys_region *region;
	int i;

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(region, lists[i], list) {
			*first = find_first_bit(region->stuck,
						KPKEYS_BLOCK_PAGES);
			if (*first < KPKEYS_BLOCK_PAGES)
				return region;
		}
	}
	return NULL;
}

static unsigned long kpkeys_block_release_stuck(const struct kpkeys_pool *pool,
						int nid)
{
	struct kpkeys_region *region;
	unsigned long freed = 0;
	unsigned int first, order;

	while (atomic_long_read(&pool->sync->nr_stuck)) {
		region = kpkeys_block_find_stuck(pool, nid, &first);
		if (!region)
			break;
		order = region->whole ? KPKEYS_BLOCK_ORDER :
			kpkeys_small_order(region->stuck, first);
		if (kpkeys_block_release(pool, region, first, order))
			break;
		atomic_long_sub(1 << order, &pool->sync->nr_stuck);
		freed += 1 << order;
	}
	return freed;
}

static unsigned long kpkeys_block_release_idle(const struct kpkeys_pool *pool,
					       int nid, unsigned int keep)
{
	struct kpkeys_region *region;
	unsigned long freed = 0;
	unsigned int first, order;

	for (;;) {
		order = KPKEYS_BLOCK_ORDER;
		first = 0;
		region = kpkeys_block_claim_whole(pool, nid, keep);
		if (!region) {
			region = kpkeys_block_claim_small(pool, nid, keep, &first,
							  &order);
		}
		if (!region)
			break;
		if (kpkeys_block_release(pool, region, first, order)) {
			atomic_long_add(1 << order, &pool->sync->nr_stuck);
			break;
		}
		freed += 1 << order;
	}
	return freed;
}

static unsigned long kpkeys_pool_trim_locked(const struct kpkeys_pool *pool,
					     unsigned int keep)
{
	struct kpkeys_pool_node *node;
	unsigned long freed = 0, kept;
	unsigned int cpu;
	bool scattered;
	int nid;

	for_each_possible_cpu(cpu)
		kpkeys_pool_drain_cpu(pool, cpu);
	for_each_node_state(nid, N_MEMORY) {
		freed += kpkeys_block_release_stuck(pool, nid);
		freed += kpkeys_block_release_idle(pool, nid, keep);

		node = kpkeys_pool_node(pool, nid);
		scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid)) {
			CLASS(kpkeys_pool_level, level)(pool);
			kept = min3(node->nr_empty, keep, KPKEYS_IDLE_BLOCKS);
			node->trim_at = node->nr_avail + KPKEYS_BLOCK_PAGES *
				(KPKEYS_IDLE_BLOCKS - kept + kpkeys_blocks_at_once(node) - 1);
			scattered = kpkeys_node_gather(node);
		}
		/* Else a table of each level is taken where there is one of that level. */
		if (scattered && kpkeys_node_unclean(node) >= KPKEYS_POOL_LOW)
			kpkeys_pool_clean(pool, nid);
		kpkeys_pool_report_idle(pool, nid);
	}
	return freed;
}

/**
 * kpkeys_pool_trim() - Give back memory that is not in use.
 * @pool: the pool.
 * @keep: number of empty blocks that each node keeps; 0 also gives back small
 *	blocks below the low watermark.
 *
 * Context: may sleep.
 * Return: number of pages given back.
 */
unsigned long kpkeys_pool_trim(const struct kpkeys_pool *pool,
			       unsigned int keep)
{
	guard(mutex)(&pool->sync->grow);
	return kpkeys_pool_trim_locked(pool, keep);
}

/**
 * kpkeys_pool_count_idle() - Estimate the yield of kpkeys_pool_scan_idle().
 * @pool: the pool.
 *
 * Return: number of pages, or SHRINK_EMPTY.
 */
unsigned long kpkeys_pool_count_idle(const struct kpkeys_pool *pool)
{
	/* A cached page may be all that keeps a block. */
	unsigned long nr = atomic_long_read(&pool->sync->nr_stuck) +
			   kpkeys_pool_cached(pool);
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		const struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
		unsigned long empty = READ_ONCE(node->nr_empty);
		unsigned long avail = READ_ONCE(node->nr_avail);
		unsigned long keep = kpkeys_blocks_at_once(node);

		if (empty > keep)
			nr += (empty - keep) * KPKEYS_BLOCK_PAGES;
		if (avail > KPKEYS_POOL_LOW)
			nr += min(READ_ONCE(node->nr_small),
				  avail - KPKEYS_POOL_LOW);
	}
	return nr ? : SHRINK_EMPTY;
}

/**
 * kpkeys_pool_scan_idle() - Give back idle memory from the shrinker.
 * @pool: the pool.
 *
 * Context: reclaim; does not wait for the grow mutex.
 * Return: number of pages given back, or SHRINK_STOP.
 */
unsigned long kpkeys_pool_scan_idle(const struct kpkeys_pool *pool)
{
	unsigned long freed;

	/* Reclaim may have been entered by a refill of this pool. */
	if (!mutex_trylock(&pool->sync->grow))
		return SHRINK_STOP;
	freed = kpkeys_pool_trim_locked(pool, 1);
	mutex_unlock(&pool->sync->grow);
	return freed ? : SHRINK_STOP;
}

/* === In the background ================================================== */

/**
 * kpkeys_pool_background() - Refill a pool, or give back idle memory.
 * @pool: the pool.
 *
 * Context: workqueue.
 */
void kpkeys_pool_background(const struct kpkeys_pool *pool)
{
	bool idle = false;
	int nid;

	for_each_node_state(nid, N_NORMAL_MEMORY) {
		const struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);

		if (!kpkeys_pool_refill_node(pool, nid))
			WRITE_ONCE(*kpkeys_pool_retry_at(pool, nid), jiffies + HZ);
		idle |= kpkeys_node_is_idle(node);
	}
	if (idle)
		kpkeys_pool_trim(pool, 1);
}
