// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kinds: keep track of what the pages of a pool were handed out for, and make
 * them fit for anything else by a flush of all TLBs. See enum kpkeys_kind.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/spinlock.h>

#include "pool.h"

/* Interrupts are disabled while so many pages become clean. */
#define MOST_AT_ONCE	(2 * KPKEYS_BLOCK_PAGES)

/**
 * kpkeys_region_kind() - Get the kind of a page.
 * @region: its region.
 * @i: index of the page in the region.
 *
 * Context: any level; the caller holds the page.
 * Return: the kind.
 */
enum kpkeys_kind kpkeys_region_kind(const struct kpkeys_region *region,
				    unsigned int i)
{
	enum kpkeys_kind kind;

	for (kind = KPKEYS_KIND_TABLE; kind < KPKEYS_NR_KINDS; kind++)
		if (test_bit(i, region->kinds[kind]))
			return kind;
	for (kind = KPKEYS_KIND_TABLE; --kind > KPKEYS_KIND_CLEAN;)
		if (test_bit(i, region->kinds[kind]))
			return kind;
	return KPKEYS_KIND_CLEAN;
}

/**
 * kpkeys_region_set_kind() - Note what pages are handed out for.
 * @region: their region.
 * @first: index of the first page in the region.
 * @nr: number of pages.
 * @kind: the kind.
 *
 * Context: level raised; the pages are unavailable.
 * Return: false if one of them is of another kind. Nothing has changed then,
 * except that clean pages before it may be of this kind now.
 */
bool kpkeys_region_set_kind(struct kpkeys_region *region, unsigned int first,
			    unsigned int nr, enum kpkeys_kind kind)
{
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		if (test_bit(i, region->kinds[kind]))
			continue;
		/* Other pages share the word, and no lock. */
		if (!test_and_clear_bit(i, region->kinds[KPKEYS_KIND_CLEAN]))
			return false;
		set_bit(i, region->kinds[kind]);
	}
	return true;
}

/**
 * kpkeys_region_set_clean() - Note that pages are fit for anything.
 * @region: their region.
 * @first: index of the first page in the region.
 * @nr: number of pages.
 *
 * Context: level raised; nobody else uses the pages.
 */
void kpkeys_region_set_clean(struct kpkeys_region *region, unsigned int first,
			     unsigned int nr)
{
	enum kpkeys_kind kind;
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		for (kind = KPKEYS_KIND_CLEAN + 1; kind < KPKEYS_NR_KINDS; kind++)
			if (test_bit(i, region->kinds[kind]))
				clear_bit(i, region->kinds[kind]);
		set_bit(i, region->kinds[KPKEYS_KIND_CLEAN]);
	}
}

static unsigned int kpkeys_region_begin_flush(struct kpkeys_region *region)
{
	bitmap_andnot(region->flushing, region->avail,
		      region->kinds[KPKEYS_KIND_CLEAN], KPKEYS_BLOCK_PAGES);
	return bitmap_weight(region->flushing, KPKEYS_BLOCK_PAGES);
}

/* Pages that were handed out meanwhile are not among them any more. */
static unsigned int kpkeys_region_end_flush(struct kpkeys_region *region)
{
	unsigned int i, nr = 0;

	for_each_set_bit(i, region->flushing, KPKEYS_BLOCK_PAGES) {
		kpkeys_region_set_clean(region, i, 1);
		nr++;
	}
	bitmap_zero(region->flushing, KPKEYS_BLOCK_PAGES);
	return nr;
}

static unsigned int kpkeys_list_begin_flush(struct list_head *list)
{
	struct kpkeys_region *region;
	unsigned int nr = 0;

	list_for_each_entry(region, list, list) {
		nr += kpkeys_region_begin_flush(region);
		if (nr >= MOST_AT_ONCE)
			break;
	}
	return nr;
}

static unsigned int kpkeys_list_end_flush(struct list_head *list)
{
	struct kpkeys_region *region;
	unsigned int nr = 0;

	list_for_each_entry(region, list, list)
		nr += kpkeys_region_end_flush(region);
	return nr;
}

/**
 * kpkeys_pool_clean() - Make available pages fit for any kind.
 * @pool: the pool.
 * @nid: the node of the pages.
 *
 * Not all, if there are very many.
 *
 * Context: may sleep, interrupts on; the grow mutex is held.
 * Return: how many were not clean before.
 */
unsigned long kpkeys_pool_clean(const struct kpkeys_pool *pool, int nid)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	unsigned long nr = 0;

	scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid)) {
		CLASS(kpkeys_pool_level, level)(pool);
		if (node->nr_clean < node->nr_avail)
			nr = kpkeys_list_begin_flush(&node->partial) +
			     kpkeys_list_begin_flush(&node->empty);
	}
	if (!nr)
		return 0;

	kpkeys_pool_flush();

	guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);
	nr = kpkeys_list_end_flush(&node->partial) +
	     kpkeys_list_end_flush(&node->empty);
	node->nr_clean += nr;
	return nr;
}
