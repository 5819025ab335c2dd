// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pool of free pages that keep their KeyID, so that they can be reused under
 * the same KeyID without a cache flush.
 *
 * Each CPU has lists of pages of its node; each node has lists for the excess
 * of its CPUs, and for huge pages. Freeing and allocating only try to take a
 * lock, and bypass the pool if it is contended. There, the CPU lock nests
 * outside the node lock. Draining waits for the locks in the reverse order, so
 * that no page moves between the lists meanwhile.
 */
#include <linux/cpuhotplug.h>
#include <linux/cpuset.h>
#include <linux/highmem.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mktme.h>
#include <linux/mktme_pool.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/page-isolation.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/swap.h>
#include <linux/topology.h>
#include <linux/vmstat.h>

#include <trace/events/kmem.h>

#include "internal.h"
#include "mktme_pool.h"
#include "page_alloc.h"

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

enum { SMALL, HUGE, NR_SIZES };

/* Lists of a node, shared by all CPUs, indexed by size and KeyID - 1. */
struct pool_node {
	spinlock_t lock;	/* protects all members */
	unsigned long nr;
	struct pool_list lists[NR_SIZES][MKTME_MAX_KEYIDS];
};

/* Pages taken off the lists, to be freed. */
struct taken {
	struct pool_list lists[NR_SIZES];
};

/* mktme_pool=: share of a node's memory in percent; 0 disables the pool. */
unsigned int mktme_pool_percent __read_mostly = 50;

static struct pool_cpu __percpu *pool_cpus;
static struct pool_node *pool_nodes[MAX_NUMNODES];
static atomic_t pool_stopped = ATOMIC_INIT(0);
/* Held for reading, or RCU is, while taken pages still have their KeyID. */
DEFINE_STATIC_SRCU(giving_back);

/* === Lists ============================================================== */

static unsigned int order_of(unsigned int size)
{
	return size == HUGE ? PMD_SHIFT - PAGE_SHIFT : 0;
}

/* Returns NR_SIZES for orders that are not pooled. */
static unsigned int size_of(unsigned int order)
{
	if (!order)
		return SMALL;
	return order == order_of(HUGE) ? HUGE : NR_SIZES;
}

static void init_list(struct pool_list *list)
{
	INIT_LIST_HEAD(&list->pages);
}

static void push(struct pool_list *list, struct page *page)
{
	list_add(&page->lru, &list->pages);
	list->nr++;
}

static struct page *pop(struct pool_list *list)
{
	struct page *page = list_first_entry_or_null(&list->pages, struct page,
						     lru);

	if (page) {
		list_del(&page->lru);
		list->nr--;
	}
	return page;
}

static void move_all(struct pool_list *from, struct pool_list *to)
{
	list_splice_init(&from->pages, &to->pages);
	to->nr += from->nr;
	from->nr = 0;
}

/* Move the oldest pages; returns their number. */
static unsigned long move_oldest(struct pool_list *from, struct pool_list *to,
				 unsigned long max)
{
	unsigned long nr;

	if (max >= from->nr) {
		nr = from->nr;
		move_all(from, to);
		return nr;
	}
	for (nr = 0; nr < max; nr++)
		list_move(from->pages.prev, &to->pages);
	from->nr -= nr;
	to->nr += nr;
	return nr;
}

/* Counts in MemAvailable, and per node as reclaimable. */
static void account(int nid, long nr)
{
	mod_node_page_state(NODE_DATA(nid), NR_KERNEL_MISC_RECLAIMABLE, nr);
}

/* === Return to the page allocator ======================================= */

/* Redo poisoning and clearing, which were lost with the KeyID. */
static void restore(struct page *page, unsigned int order)
{
	unsigned int i;

	kernel_poison_pages(page, 1 << order);
	if (want_init_on_free())
		for (i = 0; i < 1U << order; i++)
			clear_highpage(page + i);
}

static void init_taken(struct taken *taken)
{
	init_list(&taken->lists[SMALL]);
	init_list(&taken->lists[HUGE]);
	taken->lists[SMALL].nr = 0;
	taken->lists[HUGE].nr = 0;
}

static unsigned long nr_taken(const struct taken *taken)
{
	return taken->lists[SMALL].nr +
	       (taken->lists[HUGE].nr << order_of(HUGE));
}

static void give_back_page(struct page *page, unsigned int order)
{
	mktme_free_pooled_pages(page, order);
	restore(page, order);
	if (!order && PageHWPoison(page))
		return;
	free_prepared_pages(page, order);
}

/* Returns the number of pages, up to POOL_GIVE_BACK. */
static unsigned long give_back(struct taken *taken, int nid)
{
	unsigned long nr = nr_taken(taken);
	struct page *page;
	unsigned int size;

	if (!nr)
		return 0;
	for (size = 0; size < NR_SIZES; size++)
		while ((page = pop(&taken->lists[size])))
			give_back_page(page, order_of(size));
	account(nid, -nr);
	mktme_count_batch(nr);
	return nr;
}

/* === Limit ============================================================== */

/* Limit of the lists of a node; those of its CPUs come on top. */
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
static bool may_keep(const struct page *page)
{
	int type = get_pageblock_migratetype(page);

	return !atomic_read(&pool_stopped) && !is_migrate_isolate(type) &&
	       type != MIGRATE_HIGHATOMIC;
}

static bool has_room(struct pool_node *node, int nid, unsigned long nr)
{
	return READ_ONCE(node->nr) + nr <= mktme_pool_node_limit(nid);
}

/* Number of pages of a KeyID. */
static unsigned long nr_of(const struct pool_node *node, unsigned int i)
{
	return node->lists[SMALL][i].nr +
	       (node->lists[HUGE][i].nr << order_of(HUGE));
}

/* Take pages of the KeyID that has most, if it has more than @keyid. */
static void evict(struct pool_node *node, unsigned int keyid, unsigned long nr,
		  struct taken *taken)
{
	unsigned int i, size, most = keyid - 1;

	for (i = 0; i < MKTME_MAX_KEYIDS; i++)
		if (nr_of(node, i) > nr_of(node, most))
			most = i;
	if (most == keyid - 1)
		return;
	size = node->lists[HUGE][most].nr && node->lists[SMALL][most].nr < nr ?
	       HUGE : SMALL;
	nr = move_oldest(&node->lists[size][most], &taken->lists[size],
			 DIV_ROUND_UP(nr, 1UL << order_of(size)));
	node->nr -= nr << order_of(size);
}

/* Make room for @nr pages of @keyid; called under the lock of the node. */
static bool make_room(struct pool_node *node, int nid, unsigned int keyid,
		      unsigned long nr, struct taken *taken)
{
	if (!has_room(node, nid, nr))
		evict(node, keyid, nr, taken);
	return has_room(node, nid, nr);
}

/* Move all pages of a full CPU to its node; called under the CPU lock. */
static bool spill(struct pool_cpu *cpu, unsigned int keyid, struct taken *taken)
{
	struct pool_node *node = pool_nodes[cpu->nid];
	bool room;
	int i;

	if (!spin_trylock(&node->lock))
		return false;
	room = make_room(node, cpu->nid, keyid, cpu->nr, taken);
	if (room) {
		for (i = 0; i < MKTME_MAX_KEYIDS; i++)
			move_all(&cpu->lists[i], &node->lists[SMALL][i]);
		node->nr += cpu->nr;
		cpu->nr = 0;
	}
	spin_unlock(&node->lock);
	return room;
}

static bool keep_on_cpu(struct page *page, unsigned int keyid, int nid,
			struct taken *taken)
{
	struct pool_cpu *cpu = raw_cpu_ptr(pool_cpus);
	unsigned long flags;
	bool keep;

	if (!spin_trylock_irqsave(&cpu->lock, flags))
		return false;
	if (!cpu->nr)
		cpu->nid = nid;
	keep = may_keep(page) && cpu->nid == nid &&
	       (cpu->nr < POOL_CPU_PAGES || spill(cpu, keyid, taken));
	if (keep) {
		push(&cpu->lists[keyid - 1], page);
		cpu->nr++;
	}
	spin_unlock_irqrestore(&cpu->lock, flags);
	return keep;
}

static bool keep_on_node(struct page *page, unsigned int keyid, int nid,
			 unsigned int size, struct taken *taken)
{
	struct pool_node *node = pool_nodes[nid];
	unsigned long nr = 1UL << order_of(size);
	unsigned long flags;
	bool keep;

	if (!spin_trylock_irqsave(&node->lock, flags))
		return false;
	keep = may_keep(page) && make_room(node, nid, keyid, nr, taken);
	if (keep) {
		push(&node->lists[size][keyid - 1], page);
		node->nr += nr;
	}
	spin_unlock_irqrestore(&node->lock, flags);
	return keep;
}

/* If the pool does not want a page, its KeyID is dropped first. */
static bool wants(const struct page *page, unsigned int order)
{
	if (size_of(order) == NR_SIZES || !pool_nodes[page_to_nid(page)] ||
	    !pool_cpus || PageHWPoison(page) || !READ_ONCE(mktme_pool_percent))
		return false;
	return !order || !folio_test_has_hwpoisoned(page_folio(page));
}

void __mktme_prepare_free(struct page *page, unsigned int order, bool pool)
{
	/* Checked first, because most pages have no KeyID. */
	if (__page_keyid(page) && !(pool && wants(page, order)))
		__mktme_free_pages(page, order);
}

bool __mktme_pool_free(struct page *page, unsigned int order)
{
	unsigned int keyid = __page_keyid(page), size = size_of(order);
	int nid = page_to_nid(page);
	struct taken taken;
	bool keep;

	if (!keyid)
		return false;
	guard(rcu)();
	init_taken(&taken);
	if (size == SMALL && nid == numa_mem_id())
		keep = keep_on_cpu(page, keyid, nid, &taken);
	else
		keep = keep_on_node(page, keyid, nid, size, &taken);
	give_back(&taken, nid);
	if (keep) {
		account(nid, 1L << order);
		/*
		 * With the last reference gone, forget_key() drains the pool.
		 */
		mktme_keyid_put_pages(keyid, 1U << order);
		return true;
	}
	mktme_count(MKTME_STAT_REFUSED, 1UL << order);
	__mktme_free_pages(page, order);
	restore(page, order);
	return false;
}

/* === Allocating ========================================================= */

/* Index of a KeyID's lists; that of another KeyID with the injected bug. */
static unsigned int list_of(unsigned int keyid)
{
	if (mktme_bug(MKTME_BUG_POOL))
		return ((keyid - 1) ^ 1) % MKTME_MAX_KEYIDS;
	return keyid - 1;
}

/* An unmapped huge page can be used as order-0 pages. */
static void split_huge(struct pool_node *node, unsigned int i)
{
	struct page *page = pop(&node->lists[HUGE][i]);
	unsigned int nr;

	if (page)
		for (nr = HPAGE_PMD_NR; nr; nr--)
			push(&node->lists[SMALL][i], page + nr - 1);
}

static struct page *take_from_node(struct pool_node *node, unsigned int i,
				   unsigned int size)
{
	struct page *page;

	if (size == SMALL && !node->lists[SMALL][i].nr)
		split_huge(node, i);
	page = pop(&node->lists[size][i]);
	if (page)
		node->nr -= 1UL << order_of(size);
	return page;
}

/* Called under both locks. */
static void refill(struct pool_cpu *cpu, struct pool_node *node, unsigned int i)
{
	struct page *page;
	unsigned int nr;

	for (nr = 0; nr < POOL_BATCH; nr++) {
		page = take_from_node(node, i, SMALL);
		if (!page)
			break;
		/* Keep the order: oldest last. */
		list_add_tail(&page->lru, &cpu->lists[i].pages);
		cpu->lists[i].nr++;
		cpu->nr++;
	}
}

static struct page *take_small(unsigned int i, int nid)
{
	struct pool_cpu *cpu = raw_cpu_ptr(pool_cpus);
	struct pool_node *node = pool_nodes[nid];
	struct page *page = NULL;
	unsigned long flags;

	if (!spin_trylock_irqsave(&cpu->lock, flags))
		return NULL;
	if (!cpu->nr)
		cpu->nid = nid;
	if (cpu->nid == nid) {
		if (!cpu->lists[i].nr && spin_trylock(&node->lock)) {
			refill(cpu, node, i);
			spin_unlock(&node->lock);
		}
		page = pop(&cpu->lists[i]);
		if (page)
			cpu->nr--;
	}
	spin_unlock_irqrestore(&cpu->lock, flags);
	return page;
}

static struct page *take_other(unsigned int i, int nid, unsigned int size)
{
	struct pool_node *node = pool_nodes[nid];
	struct page *page;
	unsigned long flags;

	if (!spin_trylock_irqsave(&node->lock, flags))
		return NULL;
	page = take_from_node(node, i, size);
	spin_unlock_irqrestore(&node->lock, flags);
	return page;
}

static struct page *take(unsigned int keyid, unsigned int size, int nid)
{
	unsigned int i = list_of(keyid);

	if (!pool_nodes[nid] || !pool_cpus)
		return NULL;
	if (size == SMALL && nid == numa_mem_id())
		return take_small(i, nid);
	return take_other(i, nid, size);
}

/*
 * Serve movable allocations only. So the pool only has movable pages, and does
 * not let unmovable memory into areas reserved for movable memory.
 */
static bool may_have(gfp_t gfp, int nid, const nodemask_t *nodes)
{
	return gfp_zone(gfp) == ZONE_MOVABLE && !(gfp & __GFP_ACCOUNT) &&
	       (!nodes || node_isset(nid, *nodes)) &&
	       cpuset_zone_allowed(NODE_DATA(nid)->node_zones,
				   gfp | __GFP_HARDWALL);
}

/* As get_page_from_freelist() and prep_new_page() do. */
static struct folio *prepare(struct page *page, unsigned int order, gfp_t gfp)
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
	unsigned int size = size_of(order);
	struct page *page = NULL;

	/* Fails if the key is being forgotten. */
	if (!mktme_keyid_get_pages(keyid, 1U << order))
		return NULL;
	gfp = current_gfp_context(gfp);
	if (size != NR_SIZES && may_have(gfp, nid, nodes))
		page = take(keyid, size, nid);
	if (page) {
		account(nid, -(1L << order));
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
	return prepare(page, order, gfp);
}

/* === Draining =========================================================== */

/* From one KeyID, or all if it is 0; called under the node's lock. */
static unsigned long take_from_cpu(struct pool_cpu *cpu, unsigned int keyid,
				   unsigned long max, struct taken *taken)
{
	unsigned long nr = 0;
	unsigned int i;

	for (i = 0; i < MKTME_MAX_KEYIDS && nr < max; i++)
		if (!keyid || i == keyid - 1)
			nr += move_oldest(&cpu->lists[i], &taken->lists[SMALL],
					  max - nr);
	cpu->nr -= nr;
	return nr;
}

static unsigned long take_from_lists(struct pool_node *node, unsigned int keyid,
				     unsigned long max, struct taken *taken)
{
	unsigned long nr = 0;
	unsigned int i, size;

	/*
	 * Huge pages only if there is nothing else: one of them fills a batch.
	 */
	for (size = 0; size < NR_SIZES && !nr; size++) {
		unsigned int order = order_of(size);

		for (i = 0; i < MKTME_MAX_KEYIDS && nr < max; i++)
			if (!keyid || i == keyid - 1)
				nr += move_oldest(&node->lists[size][i],
						  &taken->lists[size],
						  DIV_ROUND_UP(max - nr, 1UL << order)) << order;
	}
	node->nr -= nr;
	return nr;
}

static void take_oldest(int nid, unsigned int keyid, unsigned long max,
			struct taken *taken)
{
	struct pool_node *node = pool_nodes[nid];
	unsigned long nr;
	int i;

	init_taken(taken);
	if (!node || !pool_cpus)
		return;
	guard(spinlock_irqsave)(&node->lock);
	nr = take_from_lists(node, keyid, max, taken);
	for_each_possible_cpu(i) {
		struct pool_cpu *cpu = per_cpu_ptr(pool_cpus, i);

		if (nr >= max)
			return;
		guard(spinlock)(&cpu->lock);
		if (cpu->nid == nid)
			nr += take_from_cpu(cpu, keyid, max - nr, taken);
	}
}

/* Returns the number of pages; 0 only if there are none. */
static unsigned long give_back_oldest(int nid, unsigned int keyid,
				      unsigned long max)
{
	struct taken taken;

	guard(srcu)(&giving_back);
	take_oldest(nid, keyid, min(max, POOL_GIVE_BACK), &taken);
	return give_back(&taken, nid);
}

/*
 * Return @max pages, or all. They are flushed one by one, however many: a full
 * cache flush stalls every CPU, and unprivileged users can cause this. May
 * sleep.
 */
static unsigned long drain(int nid, unsigned int keyid, unsigned long max)
{
	unsigned long nr = 0, some;

	do {
		some = give_back_oldest(nid, keyid, max - nr);
		nr += some;
		cond_resched();
	} while (some && nr < max);
	return nr;
}

static unsigned long node_pages(int nid)
{
	unsigned long nr = 0;
	int i;

	if (!pool_nodes[nid] || !pool_cpus)
		return 0;
	nr = READ_ONCE(pool_nodes[nid]->nr);
	for_each_possible_cpu(i) {
		struct pool_cpu *cpu = per_cpu_ptr(pool_cpus, i);

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
			drain(i, 0, node_pages(i));
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
		drain(nid, keyid, ULONG_MAX);
	/* Wait for others that have taken pages out. */
	synchronize_srcu(&giving_back);
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
	atomic_inc(&pool_stopped);
	drain(nid, 0, ULONG_MAX);
}

/**
 * mktme_pool_start() - Allow pages in the pool again.
 */
void mktme_pool_start(void)
{
	atomic_dec(&pool_stopped);
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
		nr += node_pages(nid);
	return nr;
}

/* === Reclaim ============================================================ */

/* Bounded: reclaim would scan half of a large pool while its caller waits. */
static unsigned long count_pages(struct shrinker *shrinker,
				 struct shrink_control *sc)
{
	return min(node_pages(sc->nid), POOL_RECLAIM) ? : SHRINK_EMPTY;
}

static unsigned long scan_pages(struct shrinker *shrinker,
				struct shrink_control *sc)
{
	unsigned long nr = give_back_oldest(sc->nid, 0, sc->nr_to_scan);

	mm_account_reclaimed_pages(nr);
	return nr ? : SHRINK_STOP;
}

/*
 * Called before the OOM killer, after reclaim has failed. Called again if this
 * is not enough.
 */
static int before_oom(struct notifier_block *block, unsigned long unused,
		      void *data)
{
	unsigned long *freed = data, nr = 0;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		nr += drain(nid, 0, POOL_RECLAIM);
	*freed += nr;
	return NOTIFY_OK;
}

static struct notifier_block oom_block = { .notifier_call = before_oom };

static int cpu_is_dead(unsigned int nr)
{
	struct pool_cpu *cpu = per_cpu_ptr(pool_cpus, nr);
	struct taken taken;

	guard(srcu)(&giving_back);
	init_taken(&taken);
	scoped_guard(spinlock_irqsave, &cpu->lock)
		take_from_cpu(cpu, 0, ULONG_MAX, &taken);
	give_back(&taken, cpu->nid);
	return 0;
}

static int __init register_users(void)
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE,
						   "mktme-pool");

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = count_pages;
	shrinker->scan_objects = scan_pages;
	/* Refilling the pool costs flushes, but no I/O. */
	shrinker->seeks = 0;
	shrinker->batch = POOL_GIVE_BACK;
	shrinker_register(shrinker);
	register_oom_notifier(&oom_block);
	return cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/mktme:pool",
					 NULL, cpu_is_dead) < 0 ? -EBUSY : 0;
}

/* === Boot =============================================================== */

static int __init parse_pool(char *text)
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
early_param("mktme_pool", parse_pool);

/* On failure the node has no pool. */
static void __init make_node(int nid)
{
	struct pool_node *node = kzalloc_node(sizeof(*node), GFP_KERNEL, nid);
	int i;

	if (!node)
		return;
	spin_lock_init(&node->lock);
	for (i = 0; i < MKTME_MAX_KEYIDS; i++) {
		init_list(&node->lists[SMALL][i]);
		init_list(&node->lists[HUGE][i]);
	}
	pool_nodes[nid] = node;
}

/* debug_pagealloc would have to unmap free pages in two direct maps. */
static int __init mktme_pool_init(void)
{
	int nid, nr, i, err;

	if (debug_pagealloc_enabled())
		mktme_pool_percent = 0;
	if (!mktme_nr_keyids() || !mktme_pool_percent)
		return 0;
	pool_cpus = alloc_percpu(struct pool_cpu);
	if (!pool_cpus)
		return -ENOMEM;
	for_each_possible_cpu(nr) {
		struct pool_cpu *cpu = per_cpu_ptr(pool_cpus, nr);

		spin_lock_init(&cpu->lock);
		for (i = 0; i < MKTME_MAX_KEYIDS; i++)
			init_list(&cpu->lists[i]);
	}
	for_each_node_state(nid, N_MEMORY)
		make_node(nid);
	err = register_users();
	if (err)
		mktme_pool_percent = 0;
	return err;
}
core_initcall(mktme_pool_init);
