// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools of pages that already carry a protection key: allocation and freeing.
 *
 * Tagging a single page on demand would split the linear map, which takes a
 * page table, which would have to be tagged in turn. It would also flush TLBs,
 * and sleep where page tables are allocated atomically. So blocks.c tags whole
 * blocks, and pages are handed out of them.
 *
 * A page keeps its reference count of one as long as the pool owns it, whether
 * it is handed out or not, so that dropping a speculative reference does not
 * free the page.
 *
 * Data that decides which page is handed out is writable at the level of the
 * pool only. Values from other memory (struct page, CPU and node numbers,
 * locks) are checked against it.
 */
#include <linux/fault-inject.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/nodemask.h>
#include <linux/page_ref.h>
#include <linux/sched/mm.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "../internal.h"
#include "kpkeys.h"
#include "pool.h"

/* === struct page ======================================================== */

/* Do the work of the page allocator, which never sees these pages. */
static bool kpkeys_page_prepare(struct page *page, unsigned int order)
{
	struct ptdesc *pt = page_ptdesc(page);
	unsigned int i;

	page->flags.f &= ~PAGE_FLAGS_CHECK_AT_PREP;
	memset(&pt->pt_list, 0, sizeof(pt->pt_list));
	page->mapping = NULL;
	pt->pt_index = 0;
	page->private = 0;
	page->page_type = UINT_MAX;

	if (!order)
		return true;

	for (i = 1; i < 1 << order; i++) {
		page[i].private = 0;
		/* A speculative reference: this page cannot become a tail. */
		if (!page_ref_freeze(&page[i], 1))
			goto busy;
	}
	prep_compound_page(page, order);
	return true;

busy:
	while (--i)
		page_ref_unfreeze(&page[i], 1);
	return false;
}

static void kpkeys_page_unprepare(struct page *page, unsigned int order)
{
	unsigned int i;

	if (!order)
		return;

	page[1].flags.f &= ~PAGE_FLAGS_SECOND;
#ifdef NR_PAGES_IN_LARGE_FOLIO
	page_folio(page)->_nr_pages = 0;
#endif
	for (i = 1; i < 1 << order; i++) {
		page[i].mapping = NULL;
		clear_compound_head(&page[i]);
		page[i].flags.f &= ~PAGE_FLAGS_CHECK_AT_PREP;
		page_ref_unfreeze(&page[i], 1);
	}
	__ClearPageHead(page);
}

/* === Allocation and freeing ============================================= */

/*
 * Does the pool itself need a page table, to split the linear map? The caller's
 * word does not count: only the task that is changing keys under the grow mutex
 * gets pages of the reserve.
 */
static bool kpkeys_pool_is_splitting(const struct kpkeys_pool *pool)
{
	return in_task() && READ_ONCE(pool->state->tagging) == current;
}

/* vmalloc() forbids sleeping only through the task's PF_MEMALLOC scope. */
static bool kpkeys_pool_may_grow(gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) && !(current->flags & PF_MEMALLOC);
}

/* The node that the policy of the task asks for, as for slab. */
static int kpkeys_pool_wanted_node(void)
{
#ifdef CONFIG_NUMA
	if (unlikely(current->mempolicy))
		return mempolicy_slab_node();
#endif
	return numa_mem_id();
}

static struct page *kpkeys_pool_find_page(const struct kpkeys_pool *pool,
					  gfp_t gfp, unsigned int order,
					  enum kpkeys_kind kind)
{
	int nid, wanted = kpkeys_pool_wanted_node();
	struct page *page;

	if (unlikely(kpkeys_pool_is_splitting(pool)))
		return order ? NULL :
			kpkeys_pool_take_reserve(pool, kind, want_init_on_alloc(gfp));

	page = kpkeys_pool_take(pool, wanted, gfp, order, kind);
	if (READ_ONCE(kpkeys_pool_node(pool, wanted)->nr_clean) <
	    KPKEYS_POOL_LOW)
		kpkeys_pool_ask_for_refill(pool, wanted);
	if (likely(page))
		return page;

	if (kpkeys_pool_may_grow(gfp)) {
		page = kpkeys_pool_grow_and_take(pool, wanted, gfp, order, kind);
		if (page)
			return page;
	}
	for_each_node_state(nid, N_MEMORY) {
		page = kpkeys_pool_take_kept(pool, nid, gfp, order, kind);
		if (page)
			return page;
	}
	return NULL;
}

/**
 * kpkeys_pool_alloc() - Allocate pages with the key of a pool.
 * @pool: the pool.
 * @gfp: honours __GFP_ZERO and __GFP_ACCOUNT, without which the pages may never
 *	be given back; without blocking allowed, only pages that the pool already
 *	has are used.
 * @order: at most KPKEYS_MAX_ORDER.
 * @kind: what the pages are for.
 *
 * Context: any in which pages may be allocated, at the default level.
 * Return: the page, of order @order and with a reference count of one, or NULL.
 */
struct page *kpkeys_pool_alloc(const struct kpkeys_pool *pool, gfp_t gfp,
			       unsigned int order, enum kpkeys_kind kind)
{
	struct kpkeys_region *region;
	struct page *page;
	unsigned int i;

	if (WARN_ON_ONCE_GFP(order > KPKEYS_MAX_ORDER, gfp))
		return NULL;

	gfp &= gfp_allowed_mask;
	might_alloc(gfp);
	page = should_fail_alloc_page(gfp, order) ?
		NULL : kpkeys_pool_find_page(pool, gfp, order, kind);
	if (unlikely(!page)) {
		kpkeys_pool_count(pool, KPKEYS_POOL_FAILED_ALLOCS);
		return NULL;
	}

	if (!kpkeys_page_prepare(page, order))
		goto err_put;

	if (memcg_kmem_online() && (gfp & __GFP_ACCOUNT) &&
	    unlikely(__memcg_kmem_charge_page(page, gfp, order))) {
		kpkeys_page_unprepare(page, order);
		goto err_put;
	}
	return page;

err_put:
	kpkeys_pool_count(pool, KPKEYS_POOL_FAILED_ALLOCS);
	region = kpkeys_region_find(pool, page_to_pfn(page), &i);
	kpkeys_pool_put(pool, region, i, order);
	return NULL;
}

/**
 * kpkeys_pool_free() - Free pages from kpkeys_pool_alloc().
 * @pool: the pool.
 * @page: the page. It keeps its key.
 *
 * Context: any in which pages may be freed, at the default level.
 * Return: false if the page does not belong to this pool.
 */
bool kpkeys_pool_free(const struct kpkeys_pool *pool, struct page *page)
{
	struct kpkeys_region *region;
	unsigned int first, order;

	region = kpkeys_region_find(pool, page_to_pfn(page), &first);
	if (!region)
		return false;

	order = kpkeys_region_order(region, first);
	if (!test_bit(first, region->in_use) || order != compound_order(page))
		goto bad_free;
	if (test_bit(first, region->linked)) {
		kpkeys_pool_count(pool, KPKEYS_POOL_BAD_FREES);
		kpkeys_violation_refused("page frame 0x%lx freed, a page table in use",
					 page_to_pfn(page));
		return true;
	}

	if (memcg_kmem_online() && PageMemcgKmem(page))
		__memcg_kmem_uncharge_page(page, order);
	kpkeys_page_unprepare(page, order);

	if (!kpkeys_pool_put(pool, region, first, order))
		goto bad_free;

	if (kpkeys_node_is_idle(kpkeys_pool_node(pool, region->nid)))
		kpkeys_pool_ask_for_trim(pool);
	return true;

bad_free:
	kpkeys_pool_count(pool, KPKEYS_POOL_BAD_FREES);
	WARN(1, "kpkeys: page 0x%lx of pool %s freed, but not in use\n",
	     page_to_pfn(page), pool->name);
	return true;
}

/**
 * kpkeys_pool_owns() - Does a page belong to a pool?
 * @pool: the pool.
 * @page: any page.
 *
 * The answer may be outdated unless the caller holds the page.
 *
 * Return: true if it is handed out, free, or part of the pool's own data.
 */
bool kpkeys_pool_owns(const struct kpkeys_pool *pool, struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	unsigned int i;

	return kpkeys_region_find(pool, pfn, &i) ||
	       pfn - page_to_pfn(virt_to_page(pool->state)) <
	       pool->state_size >> PAGE_SHIFT;
}
