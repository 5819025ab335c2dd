// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: track which pages belong to a pool, and which of them are free.
 *
 * All data structures here live in pages of the pool itself. Functions that
 * modify them expect the raised level and the locks that they name; they take
 * no locks and do not allocate.
 */
#include <linux/align.h>
#include <linux/bitmap.h>
#include <linux/kpkeys_mappings.h>
#include <linux/log2.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "pool.h"

static_assert(sizeof(struct kpkeys_region) <= PAGE_SIZE);

/* === The pool's own memory ============================================== */

static void kpkeys_spare_link(struct kpkeys_pool_state *state, void *addr)
{
	*(void **)addr = state->spare;
	state->spare = addr;
	state->nr_spare++;
}

/**
 * kpkeys_spare_push() - Give the pool a page for its own data.
 * @pool: the pool.
 * @addr: the page, tagged with the key of the pool. It is never given back.
 *
 * Context: level raised; the grow mutex is held.
 */
void kpkeys_spare_push(const struct kpkeys_pool *pool, void *addr)
{
	kpkeys_spare_link(pool->state, addr);
	pool->state->nr_own++;
}

/**
 * kpkeys_spare_pop() - Take a page for data of the pool.
 * @pool: the pool.
 *
 * Context: level raised; the grow mutex is held.
 * Return: the page, cleared, or NULL.
 */
void *kpkeys_spare_pop(const struct kpkeys_pool *pool)
{
	struct kpkeys_pool_state *state = pool->state;
	void *addr = state->spare;

	if (addr) {
		state->spare = *(void **)addr;
		state->nr_spare--;
		clear_page(addr);
	}
	return addr;
}

/**
 * kpkeys_spare_adopt() - Make a page that was handed out one of the pool's own.
 * @pool: the pool.
 * @page: the page, of order 0. The caller's word does not count, as the pointer
 *	was in ordinary memory: another page would become writable data that
 *	decides, and be written at the raised level.
 *
 * Context: level raised; the grow mutex is held.
 * Return: false if no such page is in use as data of the pool.
 */
bool kpkeys_spare_adopt(const struct kpkeys_pool *pool, struct page *page)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(pool, page_to_pfn(page), &i);
	if (!region || kpkeys_region_order(region, i) ||
	    kpkeys_region_kind(region, i) != KPKEYS_KIND_DATA ||
	    !test_and_clear_bit(i, region->in_use))
		return false;
	kpkeys_spare_push(pool, page_address(pfn_to_page(region->base + i)));
	return true;
}

static struct kpkeys_region *kpkeys_region_get_unused(const struct kpkeys_pool *pool)
{
	struct kpkeys_pool_state *state = pool->state;
	struct kpkeys_region *region;
	unsigned int i;

	if (list_empty(&state->free_regions)) {
		region = kpkeys_spare_pop(pool);
		if (!region)
			return NULL;
		for (i = 0; i < PAGE_SIZE / sizeof(*region); i++)
			list_add(&region[i].list, &state->free_regions);
	}

	region = list_first_entry(&state->free_regions, typeof(*region), list);
	list_del(&region->list);
	return region;
}

/* === From a page to its region ========================================== */

/**
 * kpkeys_directory_size() - Compute the size of the directory.
 * @pool: the pool.
 *
 * The directory covers max_possible_pfn. Memory that is hot-added above that
 * has no slot and is not used.
 *
 * Context: boot.
 * Return: size of the first level of the directory in bytes.
 */
size_t __init kpkeys_directory_size(struct kpkeys_pool *pool)
{
	unsigned long end = max(max_pfn, max_possible_pfn);
	unsigned long regions = (end >> KPKEYS_BLOCK_ORDER) + 1;

	pool->directory_size = DIV_ROUND_UP(regions, KPKEYS_LEAF_ENTRIES);
	return pool->directory_size * sizeof(*pool->directory);
}

/**
 * kpkeys_region_fits() - Can pages be added to the pool?
 * @pool: the pool.
 * @page: the first page.
 * @nr: number of pages; they do not cross a block boundary.
 *
 * Context: the grow mutex is held.
 * Return: false if the directory does not cover the pages, the region around
 * them belongs to another node, or there is none and no memory for its data:
 * there is if some of the pages can be used for that.
 */
bool kpkeys_region_fits(const struct kpkeys_pool *pool, struct page *page,
			unsigned int nr)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region *region = kpkeys_region_around(pool, pfn);

	if (!kpkeys_directory_covers(pool, pfn))
		return false;
	if (!region)
		return nr > KPKEYS_MIN_SPARE ||
		       pool->state->nr_spare >= KPKEYS_MIN_SPARE;
	return region->nid == page_to_nid(page);
}

/**
 * kpkeys_region_find() - Find the region that owns a page.
 * @pool: the pool.
 * @pfn: any page frame.
 * @index: receives the index of the page in the region.
 *
 * Context: any level. The region of a page that the caller holds cannot go
 * away; for other pages the answer may be outdated.
 * Return: the region, or NULL if the page does not belong to the pool.
 */
struct kpkeys_region *kpkeys_region_find(const struct kpkeys_pool *pool,
					 unsigned long pfn, unsigned int *index)
{
	struct kpkeys_region *region = kpkeys_region_around(pool, pfn);
	unsigned long i;

	if (!region)
		return NULL;

	/* The descriptor may have been reused for another region. */
	i = pfn - READ_ONCE(region->base);
	if (i >= KPKEYS_BLOCK_PAGES || !test_bit(i, region->owned))
		return NULL;
	*index = i;
	return region;
}

/* Most often it is one bit. */
static __always_inline bool kpkeys_any_bit(const unsigned long *map,
					   unsigned long first, unsigned long stop)
{
	return stop - first == 1 ? test_bit(first, map) :
				   find_next_bit(map, stop, first) < stop;
}

/**
 * kpkeys_pool_protects() - Has a page the key of a pool?
 * @pool: the pool.
 * @pfn: the first page frame.
 * @nr: number of pages.
 *
 * Context: any level. The answer may be outdated unless the caller holds the
 * pages.
 * Return: true if one of them belongs to the pool, or got the key without it.
 */
bool kpkeys_pool_protects(const struct kpkeys_pool *pool, unsigned long pfn,
			  unsigned long nr)
{
	unsigned long end = pfn + nr;

	while (pfn < end) {
		struct kpkeys_region *region = kpkeys_region_around(pool, pfn);
		unsigned long first = pfn % KPKEYS_BLOCK_PAGES;
		unsigned long stop = min(first + end - pfn, KPKEYS_BLOCK_PAGES);

		if (region && (kpkeys_any_bit(region->owned, first, stop) ||
			       kpkeys_any_bit(region->early, first, stop)))
			return true;
		pfn += stop - first;
	}
	return false;
}

static struct kpkeys_region **kpkeys_directory_slot(const struct kpkeys_pool *pool,
						    unsigned long pfn)
{
	unsigned long nr = pfn >> KPKEYS_BLOCK_ORDER;
	struct kpkeys_region ***slot;

	if (!kpkeys_directory_covers(pool, pfn))
		return NULL;

	slot = &pool->directory[nr / KPKEYS_LEAF_ENTRIES];
	if (!*slot) {
		/* Publish the zeroed leaf to lockless readers. */
		smp_store_release(slot, kpkeys_spare_pop(pool));
	}
	return *slot ? *slot + nr % KPKEYS_LEAF_ENTRIES : NULL;
}

/* Find the region around a page, or create it. */
static struct kpkeys_region *kpkeys_region_get(const struct kpkeys_pool *pool,
					       struct page *page, bool whole)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region **slot = kpkeys_directory_slot(pool, pfn);
	struct kpkeys_region *region;

	if (!slot)
		return NULL;

	region = *slot;
	if (!region) {
		region = kpkeys_region_get_unused(pool);
		if (!region)
			return NULL;
		memset(region, 0, sizeof(*region));
		INIT_LIST_HEAD(&region->list);
		region->base = ALIGN_DOWN(pfn, KPKEYS_BLOCK_PAGES);
		region->nid = page_to_nid(page);
		region->whole = whole;
		set_bit(pfn >> KPKEYS_PROTECTED_ORDER, pool->state->protected);
		/* Publish the initialised region to lockless readers. */
		smp_store_release(slot, region);
	}
	return region;
}

/**
 * kpkeys_region_add() - Add pages to their region; create it if need be.
 * @pool: the pool.
 * @page: the first page.
 * @nr: number of pages; they do not cross a block boundary.
 * @whole: the pages are a whole block.
 *
 * The pages become owned, but not available.
 *
 * Context: level raised; the grow mutex is held.
 * Return: the region, not yet in a list if it is new; NULL if the pool has no
 * memory left for its own data.
 */
struct kpkeys_region *kpkeys_region_add(const struct kpkeys_pool *pool,
					struct page *page, unsigned int nr,
					bool whole)
{
	struct kpkeys_region *region = kpkeys_region_get(pool, page, whole);

	if (!region)
		return NULL;

	bitmap_set(region->owned, page_to_pfn(page) - region->base, nr);
	kpkeys_region_set_clean(region, page_to_pfn(page) - region->base, nr);
	region->nr_owned += nr;
	return region;
}

/**
 * kpkeys_region_remove() - Remove a region that owns no pages.
 * @pool: the pool.
 * @region: the region; in no list.
 *
 * Context: level raised; the grow mutex is held.
 */
void kpkeys_region_remove(const struct kpkeys_pool *pool,
			  struct kpkeys_region *region)
{
	struct kpkeys_region **slot = kpkeys_directory_slot(pool, region->base);

	WRITE_ONCE(*slot, NULL);
	/* Otherwise the bit may stand for other regions, too. */
	if (KPKEYS_BLOCK_ORDER == KPKEYS_PROTECTED_ORDER)
		clear_bit(region->base >> KPKEYS_PROTECTED_ORDER, pool->state->protected);
	if (region->owners)
		kpkeys_spare_link(pool->state, region->owners);
	list_add(&region->list, &pool->state->free_regions);
}

/**
 * kpkeys_region_set_early() - Note whether a page has a key, but no pool.
 * @pool: the pool of pages with that key.
 * @page: the page.
 * @early: whether it has the key.
 *
 * Context: boot, at the default level.
 */
void __init kpkeys_region_set_early(const struct kpkeys_pool *pool,
				    struct page *page, bool early)
{
	struct kpkeys_region *region;

	guard(mutex)(&pool->sync->grow);
	CLASS(kpkeys_pool_level, level)(pool);
	region = kpkeys_region_get(pool, page, false);
	if (WARN_ON_ONCE(!region))
		return;
	__assign_bit(page_to_pfn(page) - region->base, region->early, early);
	if (!region->nr_owned && bitmap_empty(region->early, KPKEYS_BLOCK_PAGES))
		kpkeys_region_remove(pool, region);
}

/* === Lists of a node: its lock is held, the level is raised ============= */

static unsigned int kpkeys_region_count_clean(const struct kpkeys_region *region,
					      unsigned int first, unsigned int nr)
{
	unsigned int i, clean = 0;

	for (i = first; i < first + nr; i++)
		clean += test_bit(i, region->kinds[KPKEYS_KIND_CLEAN]);
	return clean;
}

static bool kpkeys_region_is_empty(const struct kpkeys_region *region)
{
	return region->whole && region->nr_avail == KPKEYS_BLOCK_PAGES;
}

/*
 * A region from which pages are taken stays in front until it is full, and one
 * to which they come back waits at the end: it may become empty.
 */
static void kpkeys_region_relist(struct kpkeys_pool_node *node,
				 struct kpkeys_region *region, bool was_empty,
				 bool drains)
{
	bool empty = kpkeys_region_is_empty(region);
	struct list_head *list;

	if (region->nr_avail == region->nr_owned)
		region->lasting = false;
	if (empty)
		list = &node->empty;
	else if (region->nr_avail)
		list = &node->partial;
	else
		list = &node->full;

	node->nr_empty += empty;
	node->nr_empty -= was_empty;
	if (drains)
		list_move_tail(&region->list, list);
	else
		list_move(&region->list, list);
}

/**
 * kpkeys_region_enlist() - List a region without available pages.
 * @node: its node.
 * @region: the region.
 *
 * Context: level raised; the lock of the node is held.
 */
void kpkeys_region_enlist(struct kpkeys_pool_node *node,
			  struct kpkeys_region *region)
{
	kpkeys_region_relist(node, region, kpkeys_region_is_empty(region), true);
}

/**
 * kpkeys_region_make_available() - Make pages available for allocation.
 * @node: node of the region.
 * @region: the region.
 * @first: index of the first page in the region.
 * @nr: number of pages.
 *
 * Context: level raised; the lock of the node is held.
 */
void kpkeys_region_make_available(struct kpkeys_pool_node *node,
				  struct kpkeys_region *region,
				  unsigned int first, unsigned int nr)
{
	bool was_empty = kpkeys_region_is_empty(region);

	bitmap_set(region->avail, first, nr);
	region->nr_avail += nr;
	node->nr_avail += nr;
	node->nr_clean += kpkeys_region_count_clean(region, first, nr);
	kpkeys_region_relist(node, region, was_empty, true);
}

/**
 * kpkeys_region_make_unavailable() - Withdraw pages from allocation.
 * @node: node of the region.
 * @region: the region.
 * @first: index of the first page in the region.
 * @nr: number of pages, all of them available.
 *
 * Context: level raised; the lock of the node is held.
 */
void kpkeys_region_make_unavailable(struct kpkeys_pool_node *node,
				    struct kpkeys_region *region,
				    unsigned int first, unsigned int nr)
{
	bool was_empty = kpkeys_region_is_empty(region);

	bitmap_clear(region->avail, first, nr);
	/* It may be freed before the flush is over. */
	bitmap_clear(region->flushing, first, nr);
	region->nr_avail -= nr;
	node->nr_avail -= nr;
	node->nr_clean -= kpkeys_region_count_clean(region, first, nr);
	kpkeys_region_relist(node, region, was_empty, false);
}

/* Can the pages be handed out as this kind? */
static bool kpkeys_run_fits(const struct kpkeys_region *region,
			    unsigned int first, unsigned int nr,
			    enum kpkeys_kind kind)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		if (!test_bit(i, region->avail) ||
		    (!test_bit(i, region->kinds[kind]) &&
		     !test_bit(i, region->kinds[KPKEYS_KIND_CLEAN])))
			return false;
	return true;
}

/* Index of a naturally aligned run of available pages, or -1. */
static int kpkeys_region_find_available(const struct kpkeys_region *region,
					unsigned int order,
					enum kpkeys_kind kind)
{
	unsigned int nr = 1 << order;
	unsigned int i;

	if (order) {
		for_each_set_bit(i, region->avail, KPKEYS_BLOCK_PAGES)
			if (IS_ALIGNED(i, nr) && kpkeys_run_fits(region, i, nr, kind))
				return i;
		return -1;
	}

	/* Clean pages are for those who find nothing else. */
	i = find_first_and_bit(region->avail, region->kinds[kind],
			       KPKEYS_BLOCK_PAGES);
	if (i >= KPKEYS_BLOCK_PAGES)
		i = find_first_and_bit(region->avail,
				       region->kinds[KPKEYS_KIND_CLEAN],
				       KPKEYS_BLOCK_PAGES);
	return i < KPKEYS_BLOCK_PAGES ? i : -1;
}

/* Others leave so many pages of a region for pages that last. */
#define KEPT_FOR_LASTING	(KPKEYS_BLOCK_PAGES / 2)

static bool kpkeys_region_serves(const struct kpkeys_region *region, bool lasting,
				 bool is_first_choice)
{
	if (is_first_choice)
		return region->lasting == lasting;
	return lasting || !region->lasting || region->nr_avail > KEPT_FOR_LASTING;
}

/**
 * kpkeys_node_take() - Take available pages of a node.
 * @node: the node.
 * @order: order of the run, naturally aligned.
 * @kind: what they are taken for; KPKEYS_KIND_CLEAN if that is not known yet.
 * @lasting: they may never be given back.
 *
 * Regions are to become empty, so those that are partly used come first, and
 * among them those that drain last. Pages that last have regions of their own:
 * one is enough to keep all of a block.
 *
 * Context: level raised; the lock of the node is held.
 * Return: the pages, or NULL.
 */
struct page *kpkeys_node_take(struct kpkeys_pool_node *node,
			      unsigned int order, enum kpkeys_kind kind,
			      bool lasting)
{
	struct list_head *lists[] = { &node->partial, &node->empty, &node->partial };
	struct kpkeys_region *region;
	int i, first;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(region, lists[i], list) {
			if (!kpkeys_region_serves(region, lasting, !i))
				continue;
			first = kpkeys_region_find_available(region, order, kind);
			if (first < 0)
				continue;
			kpkeys_region_make_unavailable(node, region, first,
						       1 << order);
			region->lasting |= lasting;
			return pfn_to_page(region->base + first);
		}
	}
	return NULL;
}

/**
 * kpkeys_node_gather() - Have pages that are taken next share a block.
 * @node: the node.
 *
 * Pages that were taken and put back in turn leave a table here and there, and
 * each keeps a block. The block that has most of them goes on; the others may
 * become empty.
 *
 * Context: level raised; the lock of the node is held.
 * Return: false if there is no choice.
 */
bool kpkeys_node_gather(struct kpkeys_pool_node *node)
{
	struct kpkeys_region *region, *fullest = NULL;
	unsigned int nr = 0;

	list_for_each_entry(region, &node->partial, list) {
		if (!region->whole || region->lasting)
			continue;
		nr++;
		if (!fullest || region->nr_avail < fullest->nr_avail)
			fullest = region;
	}
	if (nr < 2)
		return false;
	list_move(&fullest->list, &node->partial);
	return true;
}

/**
 * kpkeys_region_order() - Get the order that a page was handed out with.
 * @region: the region.
 * @first: index of the page in the region.
 *
 * The order in struct page may have been forged.
 *
 * Context: any level; the caller holds the page.
 * Return: the order.
 */
unsigned int kpkeys_region_order(const struct kpkeys_region *region,
				 unsigned int first)
{
	unsigned int end = min(first + (1 << KPKEYS_MAX_ORDER),
			       KPKEYS_BLOCK_PAGES);
	unsigned int nr = find_next_zero_bit(region->inner, end, first + 1) -
			  first;

	return ilog2(nr);
}
