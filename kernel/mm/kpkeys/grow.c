// SPDX-License-Identifier: GPL-2.0-only
/* Growing: get memory for a pool from the page allocator when it is needed. */
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>

#include <kunit/static_stub.h>

#include "pool.h"

/* One search serves at most so many blocks. */
#define KPKEYS_MOST_BLOCKS	32

/* Pages to add at most: the reserve or other CPUs may take them. */
#define MOST_SMALL_PAGES	(KPKEYS_SMALL_PAGES * (3 + KPKEYS_POOL_RESERVE / 2))

/* === Blocks: the grow mutex is held, but for getting them ================ */

/**
 * kpkeys_pool_get_pages() - Get pages to tag from the page allocator.
 * @nid: preferred node.
 * @gfp: allocation flags.
 * @order: order of the pages.
 *
 * Not static, so that tests can stub it.
 *
 * Context: depends on @gfp.
 * Return: the pages or NULL.
 */
struct page *kpkeys_pool_get_pages(int nid, gfp_t gfp, unsigned int order)
{
	KUNIT_STATIC_STUB_REDIRECT(kpkeys_pool_get_pages, nid, gfp, order);

	return alloc_pages_node(nid, gfp, order);
}

/**
 * kpkeys_blocks_at_once() - How many blocks is a node to get at once?
 * @node: the node.
 *
 * A search visits all page tables: one for each block would be work in
 * proportion to the square of their number.
 *
 * Return: number of blocks; at least one.
 */
unsigned int kpkeys_blocks_at_once(const struct kpkeys_pool_node *node)
{
	KUNIT_STATIC_STUB_REDIRECT(kpkeys_blocks_at_once, node);

	/* Else a bit does not stand for a block. */
	if (KPKEYS_BLOCK_ORDER != KPKEYS_PROTECTED_ORDER)
		return 1;
	return clamp(READ_ONCE(node->nr_blocks) / 16, 1, KPKEYS_MOST_BLOCKS);
}

static unsigned int kpkeys_blocks_get(const struct kpkeys_pool *pool, int nid,
				      gfp_t gfp, struct page **blocks)
{
	unsigned int nr, wanted = kpkeys_blocks_at_once(kpkeys_pool_node(pool, nid));

	for (nr = 0; nr < wanted; nr++) {
		blocks[nr] = kpkeys_pool_get_pages(nid, gfp | __GFP_NOWARN | __GFP_THISNODE,
						   KPKEYS_BLOCK_ORDER);
		if (!blocks[nr])
			break;
	}
	return nr;
}

static unsigned int kpkeys_blocks_split(const struct kpkeys_pool *pool,
					struct page **blocks, unsigned int nr)
{
	unsigned int i, fit = 0;

	for (i = 0; i < nr; i++) {
		split_page(blocks[i], KPKEYS_BLOCK_ORDER);
		if (kpkeys_region_fits(pool, blocks[i], KPKEYS_BLOCK_PAGES))
			blocks[fit++] = blocks[i];
		else
			kpkeys_block_free_pages(blocks[i], KPKEYS_BLOCK_PAGES);
	}
	return fit;
}

static bool kpkeys_blocks_search(const struct kpkeys_pool *pool,
				 struct page **blocks, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		kpkeys_mappings_offer(pool, page_to_pfn(blocks[i]), KPKEYS_BLOCK_PAGES);
	if (kpkeys_mappings_search(pool))
		return true;
	kpkeys_mappings_settle(pool);
	return false;
}

static int kpkeys_block_tag_offered(const struct kpkeys_pool *pool,
				    struct page *block)
{
	/* The search took long, and pointers to the blocks are ordinary data. */
	if (!kpkeys_mappings_offered(pool, page_to_pfn(block)))
		return -EADDRINUSE;
	return kpkeys_block_tag(pool, block, KPKEYS_BLOCK_ORDER, KPKEYS_MIN_SPARE);
}

/* Add blocks, which are consumed; as kpkeys_block_add(), but 0 if one was added. */
static int kpkeys_blocks_add(const struct kpkeys_pool *pool,
			     struct page **blocks, unsigned int nr)
{
	int err = -ERANGE, ret = -ERANGE;
	bool together;
	unsigned int i;

	nr = kpkeys_blocks_split(pool, blocks, nr);
	/* If a process maps one of them, it takes more to know which. */
	together = nr > 1 && kpkeys_blocks_search(pool, blocks, nr);
	for (i = 0; i < nr; i++) {
		err = together ? kpkeys_block_tag_offered(pool, blocks[i]) :
			kpkeys_block_search_and_tag(pool, blocks[i], KPKEYS_BLOCK_ORDER,
						    KPKEYS_MIN_SPARE);
		if (ret)
			ret = err;
		if (err && err != -EADDRINUSE)
			break;
	}
	for (i++; i < nr; i++)
		kpkeys_block_free_pages(blocks[i], KPKEYS_BLOCK_PAGES);
	if (together) {
		kpkeys_mappings_settle(pool);
		kpkeys_pool_report_idle(pool, page_to_nid(blocks[0]));
	}
	return ret;
}

/* === On demand ========================================================== */

/* Take available pages, or add a block and take of that. */
static struct page *kpkeys_pool_grow_by_block(const struct kpkeys_pool *pool,
					      int nid, gfp_t gfp, unsigned int order,
					      enum kpkeys_kind kind)
{
	struct page *page, *blocks[KPKEYS_MOST_BLOCKS];
	unsigned int nr;
	int err;

	guard(mutex)(&pool->sync->grow);

	/* Another CPU may have added a block meanwhile. */
	page = kpkeys_pool_take(pool, nid, gfp, order, kind);
	if (page)
		return page;

	/* A flush for a few pages would soon be followed by another. */
	if (kpkeys_node_unclean(kpkeys_pool_node(pool, nid)) >= KPKEYS_POOL_LOW &&
	    kpkeys_pool_clean(pool, nid)) {
		page = kpkeys_pool_take(pool, nid, gfp, order, kind);
		if (page)
			return page;
	}

	do {
		/* No reclaim: it may need page tables and the grow mutex. */
		nr = kpkeys_blocks_get(pool, nid, GFP_NOWAIT, blocks);
		if (!nr) {
			if (!kpkeys_pool_clean(pool, nid))
				return NULL;
			break;
		}
		err = kpkeys_blocks_add(pool, blocks, nr);
		if (err && err != -EADDRINUSE)
			return NULL;
	} while (err);
	return kpkeys_pool_take(pool, nid, gfp, order, kind);
}

/* Add pages of order @by, and take of them; *@failed is set if they got no key. */
static struct page *kpkeys_pool_grow_by_few(const struct kpkeys_pool *pool,
					    int nid, gfp_t gfp, unsigned int by,
					    unsigned int order,
					    enum kpkeys_kind kind, bool *failed)
{
	gfp_t plain = gfp & ~(__GFP_ZERO | __GFP_ACCOUNT | __GFP_COMP | GFP_ZONEMASK);
	struct page *page, *pages;
	unsigned int i;
	int err, got;

	for (i = 0, page = NULL; !page && i < MOST_SMALL_PAGES; i += 1 << by) {
		pages = kpkeys_pool_get_pages(nid, plain, by);
		if (!pages)
			break;

		guard(mutex)(&pool->sync->grow);
		got = page_to_nid(pages);
		err = kpkeys_block_add(pool, pages, by, KPKEYS_MIN_SPARE);
		*failed = err && err != -EADDRINUSE;
		if (*failed)
			break;
		if (!err)
			page = kpkeys_pool_take(pool, got, gfp, order, kind);
	}
	return page;
}

/**
 * kpkeys_pool_grow_and_take() - Add pages to a pool and take some of them.
 * @pool: the pool.
 * @nid: preferred node.
 * @gfp: as for kpkeys_pool_alloc().
 * @order: order of the run to take, naturally aligned.
 * @kind: what it is taken for.
 *
 * Context: may sleep.
 * Return: the pages, in the same state as from kpkeys_pool_take(), or NULL.
 */
struct page *kpkeys_pool_grow_and_take(const struct kpkeys_pool *pool, int nid,
				       gfp_t gfp, unsigned int order,
				       enum kpkeys_kind kind)
{
	struct page *page;
	bool failed = false;

	page = kpkeys_pool_grow_by_block(pool, nid, gfp, order, kind);
	if (!page)
		page = kpkeys_pool_grow_by_few(pool, nid, gfp | __GFP_NORETRY | __GFP_NOWARN,
					       KPKEYS_SMALL_ORDER, order, kind, &failed);
	/* Before memory is reclaimed, or a process killed, for what is needed. */
	if (!page)
		page = kpkeys_pool_take_kept(pool, nid, gfp, order, kind);
	if (!page && !failed)
		page = kpkeys_pool_grow_by_few(pool, nid, gfp, order, order, kind, &failed);
	return page;
}

/* === In the background ================================================== */

/**
 * kpkeys_pool_refill_node() - Add pages to a node that has few clean ones.
 * @pool: the pool.
 * @nid: the node.
 *
 * Context: workqueue.
 * Return: false if it should not be tried again soon.
 */
bool kpkeys_pool_refill_node(const struct kpkeys_pool *pool, int nid)
{
	const struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	struct page *blocks[KPKEYS_MOST_BLOCKS];
	bool flushed = false;
	unsigned int nr;
	int err;

	if (READ_ONCE(node->nr_clean) < KPKEYS_POOL_LOW) {
		guard(mutex)(&pool->sync->grow);
		flushed = kpkeys_pool_clean(pool, nid);
	}
	while (READ_ONCE(node->nr_clean) < KPKEYS_POOL_LOW) {
		/* Outside the mutex: reclaim may need page tables. */
		nr = kpkeys_blocks_get(pool, nid, GFP_KERNEL | __GFP_NORETRY, blocks);
		if (!nr)
			blocks[0] = kpkeys_pool_get_pages(nid, GFP_KERNEL | __GFP_NORETRY |
							  __GFP_NOWARN | __GFP_THISNODE,
							  KPKEYS_SMALL_ORDER);
		if (!blocks[0])
			return false;
		guard(mutex)(&pool->sync->grow);
		err = nr ? kpkeys_blocks_add(pool, blocks, nr) :
			kpkeys_block_add(pool, blocks[0], KPKEYS_SMALL_ORDER,
					 KPKEYS_MIN_SPARE);
		if (err)
			return false;
	}
	return !flushed;
}
