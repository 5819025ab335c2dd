/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lists of the pool of free pages under KeyIDs. Private to mm/mktme.
 *
 * Each CPU has lists of pages of its node; each node has lists for the excess
 * of its CPUs, and for huge pages. Freeing and allocating only try to take a
 * lock, and bypass the pool if it is contended. There, the CPU lock nests
 * outside the node lock. Draining waits for the locks in the reverse order, so
 * that no page moves between the lists meanwhile.
 */
#ifndef __MM_MKTME_POOL_H
#define __MM_MKTME_POOL_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>

/* Pages that a CPU keeps before they spill to its node. */
#define POOL_CPU_PAGES	64
/* Pages that a CPU takes from its node at once. */
#define POOL_BATCH	32
/* Pages that are flushed and returned without a break: one huge page. */
#define POOL_GIVE_BACK	(PMD_SIZE / PAGE_SIZE)
/* Pages of a node that reclaim sees at a time. */
#define POOL_RECLAIM	(16 * POOL_GIVE_BACK)

/* LIFO of pages of one KeyID and order; some may still be cached. */
struct pool_list {
	struct list_head pages;
	unsigned long nr;
};

/* Lists of a CPU: order-0 pages of one node, indexed by KeyID - 1. */
struct pool_cpu {
	spinlock_t lock;	/* protects all members */
	int nid;
	unsigned long nr;
	struct pool_list lists[MKTME_MAX_KEYIDS];
};

enum { POOL_SMALL, POOL_HUGE, POOL_NR_SIZES };

/* Lists of a node, shared by all CPUs, indexed by size and KeyID - 1. */
struct pool_node {
	spinlock_t lock;	/* protects all members */
	unsigned long nr;
	struct pool_list lists[POOL_NR_SIZES][MKTME_MAX_KEYIDS];
};

/* Pages taken off the lists, to be freed. */
struct pool_taken {
	struct pool_list lists[POOL_NR_SIZES];
};

extern unsigned int mktme_pool_percent;
extern atomic_t mktme_pool_stopped;
extern struct pool_cpu __percpu *mktme_pool_cpus;
extern struct pool_node *mktme_pool_nodes[MAX_NUMNODES];

/* === pool.c ============================================================= */

unsigned long mktme_pool_node_limit(int nid);

/* === pool_drain.c ======================================================= */

void mktme_pool_restore(struct page *page, unsigned int order);
unsigned long mktme_pool_return(struct pool_taken *taken, int nid);
int mktme_pool_register_drain(void);

/* === Lists ============================================================== */

static inline unsigned int mktme_pool_order(unsigned int size)
{
	return size == POOL_HUGE ? PMD_SHIFT - PAGE_SHIFT : 0;
}

/* Returns POOL_NR_SIZES for orders that are not pooled. */
static inline unsigned int mktme_pool_size(unsigned int order)
{
	if (!order)
		return POOL_SMALL;
	return order == mktme_pool_order(POOL_HUGE) ? POOL_HUGE : POOL_NR_SIZES;
}

static inline void mktme_pool_list_init(struct pool_list *list)
{
	INIT_LIST_HEAD(&list->pages);
}

static inline void mktme_pool_push(struct pool_list *list, struct page *page)
{
	list_add(&page->lru, &list->pages);
	list->nr++;
}

static inline struct page *mktme_pool_newest(struct pool_list *list)
{
	return list_first_entry_or_null(&list->pages, struct page, lru);
}

static inline struct page *mktme_pool_pop(struct pool_list *list)
{
	struct page *page = mktme_pool_newest(list);

	if (page) {
		list_del(&page->lru);
		list->nr--;
	}
	return page;
}

static inline void mktme_pool_move_all(struct pool_list *from,
				       struct pool_list *to)
{
	list_splice_init(&from->pages, &to->pages);
	to->nr += from->nr;
	from->nr = 0;
}

/* Move the oldest pages; returns their number. */
static inline unsigned long mktme_pool_move_oldest(struct pool_list *from,
						   struct pool_list *to,
						   unsigned long max)
{
	unsigned long nr;

	if (max >= from->nr) {
		nr = from->nr;
		mktme_pool_move_all(from, to);
		return nr;
	}
	for (nr = 0; nr < max; nr++)
		list_move(from->pages.prev, &to->pages);
	from->nr -= nr;
	to->nr += nr;
	return nr;
}

/* A memory error is noted in the page that has it, also if that is free. */
static inline bool mktme_pool_is_poisoned(const struct page *page,
					  unsigned int order)
{
	unsigned int nr = 1U << order;

	while (nr--)
		if (PageHWPoison(page + nr))
			return true;
	return false;
}

/* Counts in MemAvailable, and per node as reclaimable. */
static inline void mktme_pool_account(int nid, long nr)
{
	mod_node_page_state(NODE_DATA(nid), NR_KERNEL_MISC_RECLAIMABLE, nr);
}

static inline void mktme_pool_taken_init(struct pool_taken *taken)
{
	mktme_pool_list_init(&taken->lists[POOL_SMALL]);
	mktme_pool_list_init(&taken->lists[POOL_HUGE]);
	taken->lists[POOL_SMALL].nr = 0;
	taken->lists[POOL_HUGE].nr = 0;
}

static inline unsigned long mktme_pool_taken_nr(const struct pool_taken *taken)
{
	return taken->lists[POOL_SMALL].nr +
	       (taken->lists[POOL_HUGE].nr << mktme_pool_order(POOL_HUGE));
}

#endif /* __MM_MKTME_POOL_H */
