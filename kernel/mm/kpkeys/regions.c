// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: which pages belong to a pool, and which of them are free.
 *
 * Everything here lives in pages of the pool itself. Functions that change
 * something are called at the level of the pool, which has them inlined guards
 * of its own; they take no locks and do not allocate.
 */
#include <linux/align.h>
#include <linux/bitmap.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "pool.h"

#define LEAF_ENTRIES	(PAGE_SIZE / sizeof(struct kpkeys_region *))

static_assert(sizeof(struct kpkeys_region) <= PAGE_SIZE);

/* === The pool's own memory ============================================== */

/**
 * kpkeys_spare_push() - Give the pool a page for its own data.
 * @pool: the pool.
 * @addr: the page, which has the key of the pool. It stays with it forever.
 *
 * Context: level raised; the grow mutex is held.
 */
void kpkeys_spare_push(const struct kpkeys_pool *pool, void *addr)
{
	struct kpkeys_pool_state *state = pool->state;

	*(void **)addr = state->spare;
	state->spare = addr;
	state->nr_spare++;
}

static void *spare_pop(struct kpkeys_pool_state *state)
{
	void *addr = state->spare;

	if (addr) {
		state->spare = *(void **)addr;
		state->nr_spare--;
		clear_page(addr);
	}
	return addr;
}

static struct kpkeys_region *get_descriptor(struct kpkeys_pool_state *state)
{
	struct kpkeys_region *region;
	unsigned int i;

	if (list_empty(&state->free_regions)) {
		region = spare_pop(state);
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
 * kpkeys_directory_size() - Set how much memory the directory has to cover.
 * @pool: the pool.
 *
 * Memory that is added later, above what the machine has now, has no place in
 * the directory and is not used.
 *
 * Context: boot.
 * Return: bytes that the first step of the directory takes.
 */
size_t __init kpkeys_directory_size(struct kpkeys_pool *pool)
{
	unsigned long regions = (max_pfn >> KPKEYS_BLOCK_ORDER) + 1;

	pool->directory_size = DIV_ROUND_UP(regions, LEAF_ENTRIES);
	return pool->directory_size * sizeof(*pool->state->directory);
}

/**
 * kpkeys_region_find() - Find the region that covers a page.
 * @pool: the pool.
 * @pfn: any page frame.
 *
 * Context: any, any level. The region of a page that the caller holds cannot go
 * away; of others the answer may be outdated.
 * Return: the region, or NULL.
 */
struct kpkeys_region *kpkeys_region_find(const struct kpkeys_pool *pool,
					 unsigned long pfn)
{
	unsigned long nr = pfn >> KPKEYS_BLOCK_ORDER;
	struct kpkeys_region **leaf;

	if (nr / LEAF_ENTRIES >= pool->directory_size)
		return NULL;

	leaf = READ_ONCE(pool->state->directory[nr / LEAF_ENTRIES]);
	return leaf ? READ_ONCE(leaf[nr % LEAF_ENTRIES]) : NULL;
}

static struct kpkeys_region **directory_slot(const struct kpkeys_pool *pool,
					     unsigned long pfn)
{
	unsigned long nr = pfn >> KPKEYS_BLOCK_ORDER;
	struct kpkeys_region ***slot;

	if (nr / LEAF_ENTRIES >= pool->directory_size)
		return NULL;

	slot = &pool->state->directory[nr / LEAF_ENTRIES];
	if (!*slot)
		WRITE_ONCE(*slot, spare_pop(pool->state));
	return *slot ? *slot + nr % LEAF_ENTRIES : NULL;
}

/**
 * kpkeys_region_add() - Enter pages into their region, making it if need be.
 * @pool: the pool.
 * @page: the first.
 * @nr: how many; they do not cross the boundary of a block.
 * @whole: they are the whole block.
 *
 * The pages are owned then, but not available.
 *
 * Context: level raised; the grow mutex is held.
 * Return: the region, with an empty list if it is new; or NULL if the pool's
 * own memory is used up or the directory does not reach so far.
 */
struct kpkeys_region *kpkeys_region_add(const struct kpkeys_pool *pool,
					struct page *page, unsigned int nr,
					bool whole)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region **slot = directory_slot(pool, pfn);
	struct kpkeys_region *region;

	if (!slot)
		return NULL;

	region = *slot;
	if (!region) {
		region = get_descriptor(pool->state);
		if (!region)
			return NULL;
		memset(region, 0, sizeof(*region));
		INIT_LIST_HEAD(&region->list);
		region->base = ALIGN_DOWN(pfn, KPKEYS_BLOCK_PAGES);
		region->nid = page_to_nid(page);
		region->whole = whole;
		smp_store_release(slot, region);
	}

	bitmap_set(region->owned, pfn - region->base, nr);
	region->nr_owned += nr;
	return region;
}

/**
 * kpkeys_region_remove() - Forget a region that owns nothing any more.
 * @pool: the pool.
 * @region: the region; in no list.
 *
 * Context: level raised; the grow mutex is held.
 */
void kpkeys_region_remove(const struct kpkeys_pool *pool,
			  struct kpkeys_region *region)
{
	struct kpkeys_region **slot = directory_slot(pool, region->base);

	WRITE_ONCE(*slot, NULL);
	list_add(&region->list, &pool->state->free_regions);
}

/**
 * kpkeys_region_take() - Take available pages out of a region.
 * @region: the region.
 * @order: how many, naturally aligned.
 *
 * Context: level raised; the lock of the node is held.
 * Return: index of the first page in the region, or -1 if there are none.
 */
int kpkeys_region_take(struct kpkeys_region *region, unsigned int order)
{
	unsigned int nr = 1 << order;
	unsigned int i;

	for_each_set_bit(i, region->avail, KPKEYS_BLOCK_PAGES) {
		if (!IS_ALIGNED(i, nr) ||
		    find_next_zero_bit(region->avail, i + nr, i) < i + nr)
			continue;
		bitmap_clear(region->avail, i, nr);
		region->nr_avail -= nr;
		return i;
	}
	return -1;
}
