/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Free pages that keep their KeyID, for reuse under the same KeyID. See
 * Documentation/arch/x86/mktme.rst.
 */
#ifndef _LINUX_MKTME_POOL_H
#define _LINUX_MKTME_POOL_H

#include <linux/gfp_types.h>
#include <linux/mktme.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>

#ifdef CONFIG_X86_MKTME

void __mktme_prepare_free(struct page *page, unsigned int order, bool pool);
bool __mktme_pool_free(struct page *page, unsigned int order);
struct folio *__mktme_pool_alloc(unsigned int keyid, unsigned int order,
				 gfp_t gfp, int nid, const nodemask_t *nodes);
void __mktme_pool_drain(int nid);
void mktme_pool_stop(int nid);
void mktme_pool_start(void);
void mktme_pool_drain_keyid(unsigned int keyid);
unsigned long mktme_pool_pages(void);

/**
 * mktme_prepare_free() - Drop the KeyID of pages that are not pooled.
 * @page: first page.
 * @order: order of the pages.
 * @pool: whether mktme_pool_free() follows.
 *
 * Context: any in which pages can be freed; the caller owns the pages.
 */
static inline void mktme_prepare_free(struct page *page, unsigned int order,
				      bool pool)
{
	if (mktme_active())
		__mktme_prepare_free(page, order, pool);
}

/**
 * mktme_pool_free() - Keep pages in the pool instead of freeing them.
 * @page: first page, after __free_pages_prepare().
 * @order: order of the pages.
 *
 * Context: any in which pages can be freed.
 * Return: true if kept; otherwise they have no KeyID and can be freed.
 */
static inline bool mktme_pool_free(struct page *page, unsigned int order)
{
	return mktme_active() &&
	       __mktme_pool_free(page, order);
}

/**
 * mktme_pool_alloc() - Allocate a folio from the pool.
 * @vma: the VMA that the folio is for.
 * @order: its order.
 * @gfp: flags, as for the page allocator.
 * @nid: the node.
 * @nodes: allowed nodes, or NULL.
 *
 * Context: process.
 * Return: the folio under the KeyID of the VMA, cleared if @gfp says so; or
 * NULL.
 */
static inline struct folio *mktme_pool_alloc(const struct vm_area_struct *vma,
					     unsigned int order, gfp_t gfp,
					     int nid, const nodemask_t *nodes)
{
	unsigned int keyid = vma_keyid(vma);

	return keyid ? __mktme_pool_alloc(keyid, order, gfp, nid, nodes) : NULL;
}

/**
 * mktme_pool_drain() - Return all pages of the pool to the page allocator.
 * @nid: the node, or %NUMA_NO_NODE for all.
 *
 * Context: may sleep.
 */
static inline void mktme_pool_drain(int nid)
{
	if (mktme_active())
		__mktme_pool_drain(nid);
}

#else /* CONFIG_X86_MKTME */

static inline void mktme_prepare_free(struct page *page, unsigned int order,
				      bool pool) { }

static inline bool mktme_pool_free(struct page *page, unsigned int order)
{
	return false;
}

static inline struct folio *mktme_pool_alloc(const struct vm_area_struct *vma,
					     unsigned int order, gfp_t gfp,
					     int nid, const nodemask_t *nodes)
{
	return NULL;
}

static inline void mktme_pool_drain(int nid) { }
static inline void mktme_pool_stop(int nid) { }
static inline void mktme_pool_start(void) { }

#endif /* CONFIG_X86_MKTME */

/* Statistics; in pages unless stated otherwise. */
enum mktme_stat {
	MKTME_STAT_ALLOCATED,	/* flushed to get a KeyID */
	MKTME_STAT_FREED,	/* flushed to lose their KeyID */
	MKTME_STAT_RANGES,	/* address ranges flushed */
	MKTME_STAT_WHOLE,	/* flushes of a CPU's whole cache */
	MKTME_STAT_HITS,	/* allocated from the pool */
	MKTME_STAT_MISSES,	/* not found in the pool */
	MKTME_STAT_REFUSED,	/* freed, but not kept by the pool */
	MKTME_STAT_RETURNED,	/* returned to the page allocator */
	MKTME_STAT_BATCHES,	/* number of batches in MKTME_STAT_RETURNED */
	MKTME_STAT_PROGRAMMED,	/* packages programmed, with or without a key */
	MKTME_NR_STATS
};

#ifdef CONFIG_X86_MKTME_DEBUG
DECLARE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);

static inline void mktme_count(enum mktme_stat stat, unsigned long nr)
{
	this_cpu_add(mktme_stats[stat], nr);
}

extern unsigned long mktme_most_returned;

/* Count a batch of pages that is returned without rescheduling. */
static inline void mktme_count_batch(unsigned long nr)
{
	mktme_count(MKTME_STAT_RETURNED, nr);
	mktme_count(MKTME_STAT_BATCHES, 1);
	if (nr > READ_ONCE(mktme_most_returned))
		WRITE_ONCE(mktme_most_returned, nr);
}
#else
static inline void mktme_count(enum mktme_stat stat, unsigned long nr) { }
static inline void mktme_count_batch(unsigned long nr) { }
#endif

#endif /* _LINUX_MKTME_POOL_H */
