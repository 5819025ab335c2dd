// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pool of free pages that keep their KeyID, so that they can be reused under
 * the same KeyID without a cache flush. Here pages are freed to the pool and
 * allocated from it.
 */
#include <linux/cpuset.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>

#include <trace/events/kmem.h>

#include "../internal.h"
#include "../page_alloc.h"
#include "pool.h"

/* mktme_pool=: share of a node's memory in percent; 0 disables the pool. */
unsigned int mktme_pool_percent __read_mostly = 65;

/* Number of mktme_pool_stop() without mktme_pool_start() yet. */
atomic_t mktme_pool_stopped = ATOMIC_INIT(0);

struct pool_cpu __percpu *mktme_pool_cpus;
struct pool_node *mktme_pool_nodes[MAX_NUMNODES];

/* === Limit ============================================================== */

/**
 * mktme_pool_node_limit() - Get the limit of the lists of a node.
 * @nid: the node.
 *
 * Return: number of pages; those on lists of CPUs come on top.
 */
unsigned long mktme_pool_node_limit(int nid)
{
	unsigned long managed = 0;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		managed += zone_managed_pages(&NODE_DATA(nid)->node_zones[i]);
	return managed / 100 * READ_ONCE(mktme_pool_percent);
}

/* === Freeing ============================================================ */

/* Called under a node or CPU lock, which mktme_pool_stop() waits for. */
static bool mktme_pool_may_keep(const struct page *page)
{
	int type = get_pageblock_migratetype(page);

	return !atomic_read(&mktme_pool_stopped) && !is_migrate_isolate(type) &&
	       type != MIGRATE_HIGHATOMIC;
}

static bool mktme_pool_has_room(struct pool_node *node, int nid,
				unsigned long nr)
{
	return READ_ONCE(node->nr) + nr <= mktme_pool_node_limit(nid);
}

/* Number of pages of a KeyID. */
static unsigned long mktme_pool_nr_of(const struct pool_node *node,
				      unsigned int i)
{
	return node->lists[POOL_SMALL][i].nr +
	       (node->lists[POOL_HUGE][i].nr << mktme_pool_order(POOL_HUGE));
}

/* Take pages of the KeyID that has most, if it has more than @keyid. */
static void mktme_pool_evict(struct pool_node *node, unsigned int keyid,
			     unsigned long nr, struct pool_taken *taken)
{
	unsigned int i, size, most = keyid - 1;

	for (i = 0; i < MKTME_MAX_KEYIDS; i++)
		if (mktme_pool_nr_of(node, i) > mktme_pool_nr_of(node, most))
			most = i;
	if (most == keyid - 1)
		return;
	size = node->lists[POOL_HUGE][most].nr &&
	       node->lists[POOL_SMALL][most].nr < nr ? POOL_HUGE : POOL_SMALL;
	nr = DIV_ROUND_UP(nr, 1UL << mktme_pool_order(size));
	nr = mktme_pool_move_oldest(&node->lists[size][most],
				    &taken->lists[size], nr);
	node->nr -= nr << mktme_pool_order(size);
}

/* Make room for @nr pages of @keyid; called under the lock of the node. */
static bool mktme_pool_make_room(struct pool_node *node, int nid,
				 unsigned int keyid, unsigned long nr,
				 struct pool_taken *taken)
{
	if (!mktme_pool_has_room(node, nid, nr))
		mktme_pool_evict(node, keyid, nr, taken);
	return mktme_pool_has_room(node, nid, nr);
}

/* Move all pages of a full CPU to its node; called under the CPU lock. */
static bool mktme_pool_spill(struct pool_cpu *cpu, unsigned int keyid,
			     struct pool_taken *taken)
{
	struct pool_node *node = mktme_pool_nodes[cpu->nid];
	bool room;
	int i;

	if (!spin_trylock(&node->lock))
		return false;
	room = mktme_pool_make_room(node, cpu->nid, keyid, cpu->nr, taken);
	if (room) {
		for (i = 0; i < MKTME_MAX_KEYIDS; i++)
			mktme_pool_move_all(&cpu->lists[i],
					    &node->lists[POOL_SMALL][i]);
		node->nr += cpu->nr;
		cpu->nr = 0;
	}
	spin_unlock(&node->lock);
	return room;
}

static bool mktme_pool_keep_on_cpu(struct page *page, unsigned int keyid,
				   int nid, struct pool_taken *taken)
{
	struct pool_cpu *cpu = raw_cpu_ptr(mktme_pool_cpus);
	unsigned long flags;
	bool keep;

	if (!spin_trylock_irqsave(&cpu->lock, flags))
		return false;
	if (!cpu->nr)
		cpu->nid = nid;
	keep = mktme_pool_may_keep(page) && cpu->nid == nid &&
	       (cpu->nr < POOL_CPU_PAGES ||
		mktme_pool_spill(cpu, keyid, taken));
	if (keep) {
		mktme_pool_push(&cpu->lists[keyid - 1], page);
		cpu->nr++;
	}
	spin_unlock_irqrestore(&cpu->lock, flags);
	return keep;
}

static bool mktme_pool_keep_on_node(struct page *page, unsigned int keyid,
				    int nid, unsigned int size,
				    struct pool_taken *taken)
{
	struct pool_node *node = mktme_pool_nodes[nid];
	unsigned long nr = 1UL << mktme_pool_order(size);
	unsigned long flags;
	bool keep;

	if (!spin_trylock_irqsave(&node->lock, flags))
		return false;
	keep = mktme_pool_may_keep(page) &&
	       mktme_pool_make_room(node, nid, keyid, nr, taken);
	if (keep) {
		mktme_pool_push(&node->lists[size][keyid - 1], page);
		node->nr += nr;
	}
	spin_unlock_irqrestore(&node->lock, flags);
	return keep;
}

/* If the pool does not want a page, its KeyID is dropped first. */
static bool mktme_pool_wants(const struct page *page, unsigned int order)
{
	if (mktme_pool_size(order) == POOL_NR_SIZES ||
	    !mktme_pool_nodes[page_to_nid(page)] || !mktme_pool_cpus ||
	    PageHWPoison(page) || !READ_ONCE(mktme_pool_percent))
		return false;
	return !order || !folio_test_has_hwpoisoned(page_folio(page));
}

void __mktme_prepare_free(struct page *page, unsigned int order, bool pool)
{
	/* Checked first, because most pages have no KeyID. */
	if (__page_keyid(page) && !(pool && mktme_pool_wants(page, order)))
		__mktme_free_pages(page, order);
}

bool __mktme_pool_free(struct page *page, unsigned int order)
{
	unsigned int keyid = __page_keyid(page), size = mktme_pool_size(order);
	int nid = page_to_nid(page);
	struct pool_taken taken;
	bool keep;

	if (!keyid)
		return false;
	guard(rcu)();
	mktme_pool_taken_init(&taken);
	if (size == POOL_SMALL && nid == numa_mem_id())
		keep = mktme_pool_keep_on_cpu(page, keyid, nid, &taken);
	else
		keep = mktme_pool_keep_on_node(page, keyid, nid, size, &taken);
	mktme_pool_return(&taken, nid);
	if (keep) {
		mktme_pool_account(nid, 1L << order);
		/*
		 * With the last reference gone, the end of the key drains the pool.
		 */
		mktme_keyid_put_pages(keyid, 1U << order);
		return true;
	}
	mktme_count(MKTME_STAT_REFUSED, 1UL << order);
	__mktme_free_pages(page, order);
	mktme_pool_restore(page, order);
	return false;
}

/* === Allocating ========================================================= */

/* An unmapped huge page can be used as order-0 pages. */
static void mktme_pool_split_huge(struct pool_node *node, unsigned int i)
{
	struct page *page = mktme_pool_pop(&node->lists[POOL_HUGE][i]);
	unsigned int nr;

	if (page)
		for (nr = HPAGE_PMD_NR; nr; nr--)
			mktme_pool_push(&node->lists[POOL_SMALL][i],
					page + nr - 1);
}

static struct page *mktme_pool_take_from_node(struct pool_node *node,
					      unsigned int i, unsigned int size)
{
	struct pool_list *huge = &node->lists[POOL_HUGE][i];
	struct page *page;

	if (size == POOL_SMALL && !node->lists[POOL_SMALL][i].nr)
		mktme_pool_split_huge(node, i);
	/* The other pages of a huge one are of use still. */
	while (size == POOL_HUGE && huge->nr &&
	       mktme_pool_is_poisoned(mktme_pool_newest(huge), HPAGE_PMD_ORDER))
		mktme_pool_split_huge(node, i);
	page = mktme_pool_pop(&node->lists[size][i]);
	if (page)
		node->nr -= 1UL << mktme_pool_order(size);
	return page;
}

/* Called under both locks. */
static void mktme_pool_refill(struct pool_cpu *cpu, struct pool_node *node,
			      unsigned int i)
{
	struct page *page;
	unsigned int nr;

	for (nr = 0; nr < POOL_BATCH; nr++) {
		page = mktme_pool_take_from_node(node, i, POOL_SMALL);
		if (!page)
			break;
		/* Keep the order: oldest last. */
		list_add_tail(&page->lru, &cpu->lists[i].pages);
		cpu->lists[i].nr++;
		cpu->nr++;
	}
}

static struct page *mktme_pool_take_small(unsigned int i, int nid)
{
	struct pool_cpu *cpu = raw_cpu_ptr(mktme_pool_cpus);
	struct pool_node *node = mktme_pool_nodes[nid];
	struct page *page = NULL;
	unsigned long flags;

	if (!spin_trylock_irqsave(&cpu->lock, flags))
		return NULL;
	if (!cpu->nr)
		cpu->nid = nid;
	if (cpu->nid == nid) {
		if (!cpu->lists[i].nr && spin_trylock(&node->lock)) {
			mktme_pool_refill(cpu, node, i);
			spin_unlock(&node->lock);
		}
		page = mktme_pool_pop(&cpu->lists[i]);
		if (page)
			cpu->nr--;
	}
	spin_unlock_irqrestore(&cpu->lock, flags);
	return page;
}

static struct page *mktme_pool_take_other(unsigned int i, int nid,
					  unsigned int size)
{
	struct pool_node *node = mktme_pool_nodes[nid];
	struct page *page;
	unsigned long flags;

	if (!spin_trylock_irqsave(&node->lock, flags))
		return NULL;
	page = mktme_pool_take_from_node(node, i, size);
	spin_unlock_irqrestore(&node->lock, flags);
	return page;
}

static struct page *mktme_pool_take(unsigned int keyid, unsigned int size,
				    int nid)
{
	unsigned int i = keyid - 1;

	if (!mktme_pool_nodes[nid] || !mktme_pool_cpus)
		return NULL;
	if (size == POOL_SMALL && nid == numa_mem_id())
		return mktme_pool_take_small(i, nid);
	return mktme_pool_take_other(i, nid, size);
}

/*
 * Serve movable allocations only. So the pool only has movable pages, and does
 * not let unmovable memory into areas reserved for movable memory.
 */
static bool mktme_pool_may_serve(gfp_t gfp, int nid, const nodemask_t *nodes)
{
	return gfp_zone(gfp) == ZONE_MOVABLE && !(gfp & __GFP_ACCOUNT) &&
	       (!nodes || node_isset(nid, *nodes)) &&
	       cpuset_zone_allowed(NODE_DATA(nid)->node_zones,
				   gfp | __GFP_HARDWALL);
}

/* As get_page_from_freelist() and prep_new_page() do. */
static struct folio *mktme_pool_prepare(struct page *page, unsigned int order,
					gfp_t gfp)
{
	gfp |= __GFP_COMP;
	post_alloc_hook(page, order, gfp, ALLOC_DEFAULT);
	if (order)
		prep_compound_page(page, order);
	clear_page_pfmemalloc(page);
	trace_mm_page_alloc(page, order, gfp, MIGRATE_MOVABLE);
	set_page_refcounted(page);
	return page_rmappable_folio(page);
}

struct folio *__mktme_pool_alloc(unsigned int keyid, unsigned int order,
				 gfp_t gfp, int nid, const nodemask_t *nodes)
{
	unsigned int size = mktme_pool_size(order);
	struct page *page = NULL;

	/* Fails if the key is being forgotten. */
	if (!mktme_keyid_get_pages(keyid, 1U << order))
		return NULL;
	gfp = current_gfp_context(gfp);
	if (size != POOL_NR_SIZES && mktme_pool_may_serve(gfp, nid, nodes))
		page = mktme_pool_take(keyid, size, nid);
	if (page) {
		mktme_pool_account(nid, -(1L << order));
		/* As in the page allocator, poisoned pages are not reused. */
		if (PageHWPoison(page))
			page = NULL;
	}
	if (!page) {
		mktme_keyid_put_pages(keyid, 1U << order);
		mktme_count(MKTME_STAT_MISSES, 1UL << order);
		return NULL;
	}
	mktme_count(MKTME_STAT_HITS, 1UL << order);
	return mktme_pool_prepare(page, order, gfp);
}

/* === Boot =============================================================== */

static int __init mktme_pool_parse(char *text)
{
	unsigned int percent;

	if (text && !strcmp(text, "off"))
		mktme_pool_percent = 0;
	else if (text && !kstrtouint(text, 10, &percent) && percent <= 75)
		mktme_pool_percent = percent;
	else
		return -EINVAL;
	return 0;
}
early_param("mktme_pool", mktme_pool_parse);

/* On failure the node has no pool. */
static void __init mktme_pool_make_node(int nid)
{
	struct pool_node *node = kzalloc_node(sizeof(*node), GFP_KERNEL, nid);
	int i;

	if (!node)
		return;
	spin_lock_init(&node->lock);
	for (i = 0; i < MKTME_MAX_KEYIDS; i++) {
		mktme_pool_list_init(&node->lists[POOL_SMALL][i]);
		mktme_pool_list_init(&node->lists[POOL_HUGE][i]);
	}
	mktme_pool_nodes[nid] = node;
}

/* debug_pagealloc would have to unmap free pages in two direct maps. */
static int __init mktme_pool_init(void)
{
	int nid, nr, i, err;

	if (debug_pagealloc_enabled())
		mktme_pool_percent = 0;
	if (!mktme_nr_keyids() || !mktme_pool_percent)
		return 0;
	mktme_pool_cpus = alloc_percpu(struct pool_cpu);
	if (!mktme_pool_cpus)
		return -ENOMEM;
	for_each_possible_cpu(nr) {
		struct pool_cpu *cpu = per_cpu_ptr(mktme_pool_cpus, nr);

		spin_lock_init(&cpu->lock);
		for (i = 0; i < MKTME_MAX_KEYIDS; i++)
			mktme_pool_list_init(&cpu->lists[i]);
	}
	for_each_node_state(nid, N_MEMORY)
		mktme_pool_make_node(nid);
	err = mktme_pool_register_drain();
	if (err)
		mktme_pool_percent = 0;
	return err;
}
core_initcall(mktme_pool_init);
