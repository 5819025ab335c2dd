/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Free pages that keep their KeyID, for memory under the same.
 *
 * See Documentation/arch/x86/mktme.rst.
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
 * mktme_prepare_free() - Take the KeyID from pages, unless the pool wants them.
 * @page: the first.
 * @order: how many.
 * @pool: whether mktme_pool_free() follows.
 *
 * Context: any in which pages can be freed; nobody else uses them.
 */
static inline void mktme_prepare_free(struct page *page, unsigned int order,
				      bool pool)
{
	if (mktme_active())
		__mktme_prepare_free(page, order, pool);
}

/**
 * mktme_pool_free() - Keep pages in the pool instead of freeing them.
 * @page: the first, after __free_pages_prepare().
 * @order: how many.
 *
 * Context: any in which pages can be freed.
 * Return: whether they are. If not they have no KeyID, and can be freed.
 */
static inline bool mktme_pool_free(struct page *page, unsigned int order)
{
	return mktme_active() &&
	       __mktme_pool_free(page, order);
}

/**
 * mktme_pool_alloc() - Take a folio from the pool.
 * @vma: the VMA that it is for.
 * @order: its order.
 * @gfp: what the page allocator would be asked for.
 * @nid: the node it should be on.
 * @nodes: those it must be on, or NULL.
 *
 * Context: process.
 * Return: the folio, under the KeyID of the VMA, cleared if that is wanted; NULL
 * if there is none.
 */
static inline struct folio *mktme_pool_alloc(const struct vm_area_struct *vma,
					     unsigned int order, gfp_t gfp,
					     int nid, const nodemask_t *nodes)
{
	unsigned int keyid = vma_keyid(vma);

	return keyid ? __mktme_pool_alloc(keyid, order, gfp, nid, nodes) : NULL;
}

/**
 * mktme_pool_drain() - Let the page allocator have all pages of the pool.
 * @nid: those of this node, or %NUMA_NO_NODE.
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

/* What is counted: pages, where it says nothing else. */
enum mktme_stat {
	MKTME_STAT_ALLOCATED,	/* flushed to get a KeyID */
	MKTME_STAT_FREED,	/* flushed to lose it */
	MKTME_STAT_RANGES,	/* of addresses that were flushed */
	MKTME_STAT_WHOLE,	/* CPUs that flushed all they had cached, for any reason */
	MKTME_STAT_HITS,	/* that came from the pool */
	MKTME_STAT_MISSES,	/* that did not */
	MKTME_STAT_REFUSED,	/* that were freed, and not taken */
	MKTME_STAT_RETURNED,	/* that were taken, and given back */
	MKTME_STAT_BATCHES,	/* in which they were */
	MKTME_STAT_PROGRAMMED,	/* packages, with a key or with none */
	MKTME_NR_STATS
};

#ifdef CONFIG_X86_MKTME_DEBUG
DECLARE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);

static inline void mktme_count(enum mktme_stat stat, unsigned long nr)
{
	this_cpu_add(mktme_stats[stat], nr);
}

extern unsigned long mktme_most_returned;

/* So many pages were given back without a break. */
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
