// SPDX-License-Identifier: GPL-2.0-only
/*
 * How pages leave the pool of free pages under KeyIDs: they lose their KeyID
 * and return to the page allocator, when a key ends, when memory is short, and
 * before memory or a CPU goes offline.
 */
#include <linux/cpuhotplug.h>
#include <linux/highmem.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/swap.h>

#include "../internal.h"
#include "../page_alloc.h"
#include "pool.h"

/* Held for reading, or RCU is, while taken pages still have their KeyID. */
DEFINE_STATIC_SRCU(mktme_pool_returning);

/* === Return to the page allocator ======================================= */

/**
 * mktme_pool_restore() - Poison and clear pages again.
 * @page: first page, which has just lost its KeyID, and its contents with it.
 * @order: order of the pages.
 */
void mktme_pool_restore(struct page *page, unsigned int order)
{
	unsigned int i;

	kernel_poison_pages(page, 1 << order);
	if (want_init_on_free())
		for (i = 0; i < 1U << order; i++)
			clear_highpage(page + i);
}

static void mktme_pool_return_page(struct page *page, unsigned int order)
{
	unsigned int i;

	mktme_free_pooled_pages(page, order);
	mktme_pool_restore(page, order);
	if (!mktme_pool_is_poisoned(page, order)) {
		free_prepared_pages(page, order);
		return;
	}
	for (i = 0; i < 1U << order; i++)
		if (!PageHWPoison(page + i))
			free_prepared_pages(page + i, 0);
}

/**
 * mktme_pool_return() - Return pages to the page allocator.
 * @taken: pages taken off the lists; up to POOL_GIVE_BACK.
 * @nid: their node.
 *
 * Return: the number of pages.
 */
unsigned long mktme_pool_return(struct pool_taken *taken, int nid)
{
	unsigned long nr = mktme_pool_taken_nr(taken);
	struct page *page;
	unsigned int size;

	if (!nr)
		return 0;
	for (size = 0; size < POOL_NR_SIZES; size++)
		while ((page = mktme_pool_pop(&taken->lists[size])))
			mktme_pool_return_page(page, mktme_pool_order(size));
	mktme_pool_account(nid, -nr);
	mktme_count_batch(nr);
	return nr;
}

/* === Draining =========================================================== */

/* From one KeyID, or all if it is 0; called under the node's lock. */
static unsigned long mktme_pool_take_from_cpu(struct pool_cpu *cpu,
					      unsigned int keyid,
					      unsigned long max,
					      struct pool_taken *taken)
{
	unsigned long nr = 0;
	unsigned int i;

	for (i = 0; i < MKTME_MAX_KEYIDS && nr < max; i++)
		if (!keyid || i == keyid - 1)
			nr += mktme_pool_move_oldest(&cpu->lists[i],
						     &taken->lists[POOL_SMALL],
						     max - nr);
	cpu->nr -= nr;
	return nr;
}

static unsigned long mktme_pool_take_from_lists(struct pool_node *node,
						unsigned int keyid,
						unsigned long max,
						struct pool_taken *taken)
{
	unsigned long nr = 0;
	unsigned int i, size;

	/*
	 * Huge pages only if there is nothing else: one of them fills a batch.
	 */
	for (size = 0; size < POOL_NR_SIZES && !nr; size++) {
		unsigned int order = mktme_pool_order(size);

		for (i = 0; i < MKTME_MAX_KEYIDS && nr < max; i++) {
			unsigned long some = DIV_ROUND_UP(max - nr, 1UL << order);

			if (keyid && i != keyid - 1)
				continue;
			some = mktme_pool_move_oldest(&node->lists[size][i],
						      &taken->lists[size], some);
			nr += some << order;
		}
	}
	node->nr -= nr;
	return nr;
}

static void mktme_pool_take_oldest(int nid, unsigned int keyid,
				   unsigned long max, struct pool_taken *taken)
{
	struct pool_node *node = mktme_pool_nodes[nid];
	unsigned long nr;
	int i;

	mktme_pool_taken_init(taken);
	if (!node || !mktme_pool_cpus)
		return;
	guard(spinlock_irqsave)(&node->lock);
	nr = mktme_pool_take_from_lists(node, keyid, max, taken);
	for_each_possible_cpu(i) {
		struct pool_cpu *cpu = per_cpu_ptr(mktme_pool_cpus, i);

		if (nr >= max)
			return;
		guard(spinlock)(&cpu->lock);
		if (cpu->nid == nid)
			nr += mktme_pool_take_from_cpu(cpu, keyid, max - nr,
						       taken);
	}
}

/* Returns the number of pages; 0 only if there are none. */
static unsigned long mktme_pool_return_oldest(int nid, unsigned int keyid,
					      unsigned long max)
{
	struct pool_taken taken;

	guard(srcu)(&mktme_pool_returning);
	mktme_pool_take_oldest(nid, keyid, min(max, POOL_GIVE_BACK), &taken);
	return mktme_pool_return(&taken, nid);
}

/*
 * Return @max pages, or all. They are flushed one by one, however many: a full
 * cache flush stalls every CPU, and unprivileged users can cause this. May
 * sleep.
 */
static unsigned long mktme_pool_drain_nr(int nid, unsigned int keyid,
					 unsigned long max)
{
	unsigned long nr = 0, some;

	do {
		some = mktme_pool_return_oldest(nid, keyid, max - nr);
		nr += some;
		cond_resched();
	} while (some && nr < max);
	return nr;
}

static unsigned long mktme_pool_node_pages(int nid)
{
	unsigned long nr = 0;
	int i;

	if (!mktme_pool_nodes[nid] || !mktme_pool_cpus)
		return 0;
	nr = READ_ONCE(mktme_pool_nodes[nid]->nr);
	for_each_possible_cpu(i) {
		struct pool_cpu *cpu = per_cpu_ptr(mktme_pool_cpus, i);

		if (READ_ONCE(cpu->nid) == nid)
			nr += READ_ONCE(cpu->nr);
	}
	return nr;
}

void __mktme_pool_drain(int nid)
{
	int i;

	might_sleep();
	/* Bounded, although pages may be freed meanwhile. */
	for_each_node_state(i, N_MEMORY)
		if (nid == NUMA_NO_NODE || i == nid)
			mktme_pool_drain_nr(i, 0, mktme_pool_node_pages(i));
}

/**
 * mktme_pool_drain_keyid() - Remove all pages of a KeyID from the pool.
 * @keyid: the KeyID.
 *
 * On return the pool has no such page, and none is on its way out, except for
 * pages that were freed meanwhile.
 *
 * Context: may sleep.
 */
void mktme_pool_drain_keyid(unsigned int keyid)
{
	int nid;

	might_sleep();
	for_each_node_state(nid, N_MEMORY)
		mktme_pool_drain_nr(nid, keyid, ULONG_MAX);
	/* Wait for others that have taken pages out. */
	synchronize_srcu(&mktme_pool_returning);
	synchronize_rcu();
}

/**
 * mktme_pool_stop() - Keep the pool empty until mktme_pool_start().
 * @nid: a node whose pages are gone when this returns.
 *
 * Context: may sleep.
 */
void mktme_pool_stop(int nid)
{
	might_sleep();
	atomic_inc(&mktme_pool_stopped);
	mktme_pool_drain_nr(nid, 0, ULONG_MAX);
}

/**
 * mktme_pool_start() - Allow pages in the pool again.
 */
void mktme_pool_start(void)
{
	atomic_dec(&mktme_pool_stopped);
}

/**
 * mktme_pool_pages() - Count the pages of the pool.
 *
 * Return: number of pages, possibly outdated.
 */
unsigned long mktme_pool_pages(void)
{
	unsigned long nr = 0;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		nr += mktme_pool_node_pages(nid);
	return nr;
}

/* === Reclaim ============================================================ */

/* Bounded: reclaim would scan half of a large pool while its caller waits. */
static unsigned long mktme_pool_count_pages(struct shrinker *shrinker,
					    struct shrink_control *sc)
{
	return min(mktme_pool_node_pages(sc->nid), POOL_RECLAIM) ?
		: SHRINK_EMPTY;
}

static unsigned long mktme_pool_scan_pages(struct shrinker *shrinker,
					   struct shrink_control *sc)
{
	unsigned long nr = mktme_pool_return_oldest(sc->nid, 0, sc->nr_to_scan);

	mm_account_reclaimed_pages(nr);
	return nr ? : SHRINK_STOP;
}

/* Called after reclaim has failed, and again if this is not enough. */
static int mktme_pool_before_oom(struct notifier_block *block,
				 unsigned long unused, void *data)
{
	unsigned long *freed = data, nr = 0;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		nr += mktme_pool_drain_nr(nid, 0, POOL_RECLAIM);
	*freed += nr;
	return NOTIFY_OK;
}

static struct notifier_block mktme_pool_oom_block = {
	.notifier_call = mktme_pool_before_oom,
};

static int mktme_pool_cpu_is_dead(unsigned int nr)
{
	struct pool_cpu *cpu = per_cpu_ptr(mktme_pool_cpus, nr);
	struct pool_taken taken;

	guard(srcu)(&mktme_pool_returning);
	mktme_pool_taken_init(&taken);
	scoped_guard(spinlock_irqsave, &cpu->lock)
		mktme_pool_take_from_cpu(cpu, 0, ULONG_MAX, &taken);
	mktme_pool_return(&taken, cpu->nid);
	return 0;
}

/**
 * mktme_pool_register_drain() - Let reclaim, OOM and CPU hotplug drain the pool.
 *
 * Context: boot.
 * Return: 0, -ENOMEM or -EBUSY.
 */
int __init mktme_pool_register_drain(void)
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE,
						   "mktme-pool");

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = mktme_pool_count_pages;
	shrinker->scan_objects = mktme_pool_scan_pages;
	/* Refilling the pool costs flushes, but no I/O. */
	shrinker->seeks = 0;
	shrinker->batch = POOL_GIVE_BACK;
	shrinker_register(shrinker);
	register_oom_notifier(&mktme_pool_oom_block);
	return cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/mktme:pool",
					 NULL, mktme_pool_cpu_is_dead) < 0 ?
		-EBUSY : 0;
}

