// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools of pages that carry a protection key already.
 *
 * Tagging a page when it is needed would split the linear map, which needs a
 * page table, which would have to be tagged; it flushes TLBs; and it may sleep
 * where page tables are allocated that must not. So whole blocks are tagged,
 * and pages handed out of them.
 *
 * A page keeps its reference count of one for as long as the pool owns it,
 * handed out or not: whoever takes a speculative reference and drops it does
 * not free the page.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/memcontrol.h>
#include <linux/nodemask.h>
#include <linux/page_ref.h>
#include <linux/shrinker.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/topology.h>

#include <kunit/static_stub.h>

#include "../internal.h"
#include "kpkeys.h"
#include "pool.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kpkeys.h>

/* Available pages of a node below which a block is added in the background. */
#define LOW_WATERMARK	64

/* Pages kept for the pool's own data: a descriptor and a leaf for one refill. */
#define MIN_SPARE	2

/* Idle blocks that are no reason to give memory back. */
#define IDLE_BLOCKS	2

static void count(const struct kpkeys_pool *pool, enum kpkeys_pool_event event)
{
	atomic_long_inc(&pool->sync->events[event]);
}

static spinlock_t *node_lock(const struct kpkeys_pool *pool, int nid)
{
	return &pool->sync->node_lock[nid];
}

/* The pool is older than workqueues. */
static bool has_workqueues(void)
{
	return system_state >= SYSTEM_SCHEDULING;
}

static void ask_for_refill(const struct kpkeys_pool *pool)
{
	if (has_workqueues() &&
	    time_after_eq(jiffies, READ_ONCE(pool->sync->retry_at)))
		mod_delayed_work(system_percpu_wq, &pool->sync->work, 0);
}

static void ask_for_trim(const struct kpkeys_pool *pool)
{
	if (has_workqueues())
		schedule_delayed_work(&pool->sync->work, HZ);
}

/* === Lists of a node: its lock is held, the level is raised ============= */

static bool is_empty(const struct kpkeys_region *region)
{
	return region->whole && region->nr_avail == KPKEYS_BLOCK_PAGES;
}

static void relist(struct kpkeys_pool_node *node, struct kpkeys_region *region,
		   bool was_empty)
{
	bool empty = is_empty(region);
	struct list_head *list;

	if (empty)
		list = &node->empty;
	else if (region->nr_avail)
		list = &node->partial;
	else
		list = &node->full;

	node->nr_empty += empty;
	node->nr_empty -= was_empty;
	list_move(&region->list, list);
}

static void make_available(struct kpkeys_pool_node *node,
			   struct kpkeys_region *region, unsigned int first,
			   unsigned int nr)
{
	bool was_empty = is_empty(region);

	bitmap_set(region->avail, first, nr);
	region->nr_avail += nr;
	node->nr_avail += nr;
	relist(node, region, was_empty);
}

static void make_unavailable(struct kpkeys_pool_node *node,
			     struct kpkeys_region *region, unsigned int first,
			     unsigned int nr)
{
	bool was_empty = is_empty(region);

	bitmap_clear(region->avail, first, nr);
	region->nr_avail -= nr;
	node->nr_avail -= nr;
	relist(node, region, was_empty);
}

/* Take pages of one region; partly used ones first, so that others get empty. */
static struct page *node_take(struct kpkeys_pool_node *node, unsigned int order)
{
	struct list_head *lists[] = { &node->partial, &node->empty };
	struct kpkeys_region *region;
	bool was_empty;
	int i, first;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(region, lists[i], list) {
			was_empty = is_empty(region);
			first = kpkeys_region_take(region, order);
			if (first < 0)
				continue;
			node->nr_avail -= 1 << order;
			relist(node, region, was_empty);
			return pfn_to_page(region->base + first);
		}
	}
	return NULL;
}

static void node_put(const struct kpkeys_pool *pool,
		     struct kpkeys_pool_node *node, struct page *page,
		     unsigned int order)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region *region = kpkeys_region_find(pool, pfn);

	make_available(node, region, pfn - region->base, 1 << order);
}

/* === Magazines: the lock of the CPU is held as well ===================== */

static void magazine_fill(struct kpkeys_pool_node *node,
			  struct kpkeys_magazine *mag)
{
	struct page *page;

	while (mag->nr < KPKEYS_MAGAZINE_SIZE / 2) {
		page = node_take(node, 0);
		if (!page)
			break;
		mag->page[mag->nr++] = page;
	}
}

static void magazine_drain(const struct kpkeys_pool *pool,
			   struct kpkeys_pool_node *node,
			   struct kpkeys_magazine *mag, unsigned int down_to)
{
	while (mag->nr > down_to)
		node_put(pool, node, mag->page[--mag->nr], 0);
}

static void drain_cpu(const struct kpkeys_pool *pool, unsigned int cpu)
{
	struct kpkeys_magazine *mag = &pool->state->magazines[cpu];
	int nid = cpu_to_mem(cpu);

	guard(spinlock)(&pool->sync->cpu_lock[cpu]);
	guard(spinlock_irqsave)(node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);
	magazine_drain(pool, &pool->state->nodes[nid], mag, 0);
}

static void drain_all(const struct kpkeys_pool *pool)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		drain_cpu(pool, cpu);
}

/* === struct page ======================================================== */

/* As the page allocator hands out pages; it never saw these come and go. */
static bool prepare_page(struct page *page, unsigned int order)
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
		/* Somebody looks at it right now: it cannot become a tail. */
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

static void unprepare_page(struct page *page, unsigned int order)
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

/* === Taking and putting ================================================= */

static void set_in_use(const struct kpkeys_pool *pool, struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region *region = kpkeys_region_find(pool, pfn);

	set_bit(pfn - region->base, region->in_use);
}

static struct page *take_locked(const struct kpkeys_pool *pool,
				struct kpkeys_magazine *mag, int nid,
				unsigned int order, bool zero)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[nid];
	struct page *page = NULL;
	unsigned int i;

	CLASS(kpkeys_pool_level, level)(pool);

	if (!mag) {
		page = node_take(node, order);
	} else {
		if (!mag->nr)
			magazine_fill(node, mag);
		if (mag->nr)
			page = mag->page[--mag->nr];
	}
	if (!page)
		return NULL;

	set_in_use(pool, page);
	for (i = 0; zero && i < 1 << order; i++)
		clear_page(page_address(page + i));
	return page;
}

/*
 * Interrupts stay enabled, as in the page allocator's own per-CPU lists: an
 * interrupt that finds the magazine of its CPU locked goes to the node. On a
 * single CPU a spinlock does not notice, hence the interrupts there.
 */
static bool lock_magazine(const struct kpkeys_pool *pool, unsigned int cpu,
			  unsigned long *flags)
{
	*flags = 0;
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_save(*flags);
	if (spin_trylock(&pool->sync->cpu_lock[cpu]))
		return true;
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_restore(*flags);
	return false;
}

static void unlock_magazine(const struct kpkeys_pool *pool, unsigned int cpu,
			    unsigned long flags)
{
	spin_unlock(&pool->sync->cpu_lock[cpu]);
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_restore(flags);
}

/* Take from what the node has. */
static struct page *take(const struct kpkeys_pool *pool, int nid,
			 unsigned int order, bool zero)
{
	unsigned int cpu = raw_smp_processor_id();
	struct kpkeys_magazine *mag = &pool->state->magazines[cpu];
	struct page *page;
	unsigned long flags;

	if (order || nid != cpu_to_mem(cpu) ||
	    !lock_magazine(pool, cpu, &flags)) {
		guard(spinlock_irqsave)(node_lock(pool, nid));
		return take_locked(pool, NULL, nid, order, zero);
	}

	if (mag->nr) {
		page = take_locked(pool, mag, nid, 0, zero);
	} else {
		guard(spinlock_irqsave)(node_lock(pool, nid));
		page = take_locked(pool, mag, nid, 0, zero);
	}
	unlock_magazine(pool, cpu, flags);
	return page;
}

static bool put_locked(const struct kpkeys_pool *pool,
		       struct kpkeys_magazine *mag,
		       struct kpkeys_region *region, struct page *page,
		       unsigned int order)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[region->nid];

	CLASS(kpkeys_pool_level, level)(pool);

	if (!test_and_clear_bit(page_to_pfn(page) - region->base,
				region->in_use))
		return false;

	if (!mag) {
		node_put(pool, node, page, order);
		return true;
	}
	if (mag->nr == KPKEYS_MAGAZINE_SIZE)
		magazine_drain(pool, node, mag, KPKEYS_MAGAZINE_SIZE / 2);
	mag->page[mag->nr++] = page;
	return true;
}

/* Returns false if the page was not in use. */
static bool put(const struct kpkeys_pool *pool, struct kpkeys_region *region,
		struct page *page, unsigned int order)
{
	unsigned int cpu = raw_smp_processor_id();
	struct kpkeys_magazine *mag = &pool->state->magazines[cpu];
	unsigned long flags;
	bool good;

	if (order || region->nid != cpu_to_mem(cpu) ||
	    !lock_magazine(pool, cpu, &flags)) {
		guard(spinlock_irqsave)(node_lock(pool, region->nid));
		return put_locked(pool, NULL, region, page, order);
	}

	if (mag->nr < KPKEYS_MAGAZINE_SIZE) {
		good = put_locked(pool, mag, region, page, 0);
	} else {
		guard(spinlock_irqsave)(node_lock(pool, region->nid));
		good = put_locked(pool, mag, region, page, 0);
	}
	unlock_magazine(pool, cpu, flags);
	return good;
}

/* === The reserve ======================================================== */

/*
 * Are page tables wanted for splitting the linear map, on behalf of the pool?
 * Not a matter of what the caller says: only who changes keys for the pool, and
 * holds its mutex, gets them.
 */
static bool is_splitting(const struct kpkeys_pool *pool)
{
	return in_task() && READ_ONCE(pool->state->tagging) == current;
}

static struct page *take_reserve(const struct kpkeys_pool *pool, bool zero)
{
	struct kpkeys_pool_state *state = pool->state;
	struct page *page;

	if (!state->nr_reserve)
		return NULL;

	CLASS(kpkeys_pool_level, level)(pool);
	page = state->reserve[--state->nr_reserve];
	set_in_use(pool, page);
	if (zero)
		clear_page(page_address(page));
	return page;
}

/* After a split that did not lead to new pages. */
static void replenish_reserve(const struct kpkeys_pool *pool, int nid)
{
	struct kpkeys_pool_state *state = pool->state;
	struct page *page;

	guard(spinlock_irqsave)(node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);
	while (state->nr_reserve < KPKEYS_POOL_RESERVE) {
		page = node_take(&state->nodes[nid], 0);
		if (!page)
			break;
		state->reserve[state->nr_reserve++] = page;
	}
}

/* === Adding pages: the grow mutex is held =============================== */

static int set_key(const struct kpkeys_pool *pool, struct page *page,
		   unsigned int nr, int pkey)
{
	int err;

	scoped_class(kpkeys_pool_level, level, pool)
		pool->state->tagging = current;
	err = set_memory_pkey((unsigned long)page_address(page), nr, pkey);
	scoped_class(kpkeys_pool_level, level, pool)
		pool->state->tagging = NULL;

	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	if (pkey != KPKEYS_PKEY_DEFAULT) {
		/* Even after a failure: part of it may be tagged. */
		kpkeys_stat_add(KPKEYS_STAT_PTPS_TAGGED, nr);
		if (err)
			kpkeys_stat_add(KPKEYS_STAT_TAG_FAILURES, 1);
	} else if (err) {
		kpkeys_stat_add(KPKEYS_STAT_UNTAG_FAILURES, 1);
	} else {
		kpkeys_stat_add(KPKEYS_STAT_PTPS_UNTAGGED, nr);
	}
	if (err)
		count(pool, pkey == KPKEYS_PKEY_DEFAULT ?
			    KPKEYS_POOL_FAILED_UNTAGS : KPKEYS_POOL_FAILED_TAGS);
	return err;
}

/**
 * kpkeys_pool_get_pages() - Ask the page allocator for pages to tag.
 * @nid: preferred node.
 * @gfp: how.
 * @order: how many.
 *
 * Not static, for tests to replace.
 *
 * Context: as @gfp says.
 * Return: the pages or NULL.
 */
struct page *kpkeys_pool_get_pages(int nid, gfp_t gfp, unsigned int order)
{
	KUNIT_STATIC_STUB_REDIRECT(kpkeys_pool_get_pages, nid, gfp, order);

	return alloc_pages_node(nid, gfp, order);
}

static void free_pages_singly(struct page *page, unsigned int nr)
{
	while (nr--)
		__free_page(page++);
}

/* Let the pool have pages that carry its key, or are stuck if not @usable. */
static int enter_pages(const struct kpkeys_pool *pool, struct page *page,
		       unsigned int order, unsigned int min_spare, bool usable)
{
	struct kpkeys_pool_state *state = pool->state;
	unsigned int i = 0, nr = 1 << order;
	int nid = page_to_nid(page);
	struct kpkeys_pool_node *node = &state->nodes[nid];
	bool whole = order == KPKEYS_BLOCK_ORDER;
	struct kpkeys_region *region;
	unsigned int first;

	guard(spinlock_irqsave)(node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	while (usable && state->nr_spare < min_spare && i < nr - 1)
		kpkeys_spare_push(pool, page_address(page + i++));

	region = kpkeys_region_add(pool, page, nr, whole);
	if (!region)
		return -ENOSPC;

	first = page_to_pfn(page) - region->base;
	if (whole)
		node->nr_blocks++;
	else
		node->nr_small += nr;

	if (!usable) {
		bitmap_set(region->stuck, first, nr);
		relist(node, region, false);
		return 0;
	}

	while (state->nr_reserve < KPKEYS_POOL_RESERVE && i < nr)
		state->reserve[state->nr_reserve++] = page + i++;
	make_available(node, region, first + i, nr - i);
	return 0;
}

/* Takes over @page, which has just been allocated. */
static int add_pages(const struct kpkeys_pool *pool, struct page *page,
		     unsigned int order, unsigned int min_spare)
{
	int nid = page_to_nid(page);
	unsigned int nr = 1 << order;
	int err;

	split_page(page, order);

	/* Memory added after boot may lie beyond the directory. */
	if (page_to_pfn(page) >> KPKEYS_BLOCK_ORDER >=
	    pool->directory_size * (PAGE_SIZE / sizeof(void *))) {
		free_pages_singly(page, nr);
		return -ERANGE;
	}

	err = set_key(pool, page, nr, pool->pkey);
	trace_kpkeys_pool_refill(pool->name, nid, page_to_pfn(page), order, err);
	if (!err) {
		err = enter_pages(pool, page, order, min_spare, true);
		if (!err) {
			count(pool, order == KPKEYS_BLOCK_ORDER ?
				    KPKEYS_POOL_BLOCKS_ADDED :
				    KPKEYS_POOL_SMALL_ADDED);
			return 0;
		}
	}

	replenish_reserve(pool, nid);
	if (!set_key(pool, page, nr, KPKEYS_PKEY_DEFAULT)) {
		free_pages_singly(page, nr);
		return err;
	}

	/* Some of it may be tagged: keep it until it can be given back. */
	if (enter_pages(pool, page, order, 0, false))
		pr_warn("%u pages lost: neither tagged nor untagged\n", nr);
	else
		atomic_long_add(nr, &pool->sync->nr_stuck);
	return err;
}

static struct page *grow_and_take(const struct kpkeys_pool *pool, gfp_t gfp,
				  unsigned int order, bool zero)
{
	unsigned int small = max(order, KPKEYS_SMALL_ORDER);
	int nid = numa_mem_id();
	struct page *page, *more;

	scoped_guard(mutex, &pool->sync->grow) {
		/* Somebody else may have been faster. */
		page = take(pool, nid, order, zero);
		if (page)
			return page;

		/* No reclaim: it may need page tables, and the mutex. */
		more = kpkeys_pool_get_pages(nid, GFP_NOWAIT | __GFP_NOWARN,
					     KPKEYS_BLOCK_ORDER);
		if (more && !add_pages(pool, more, KPKEYS_BLOCK_ORDER,
				       MIN_SPARE))
			page = take(pool, page_to_nid(more), order, zero);
		if (page)
			return page;
	}

	gfp &= ~(__GFP_ZERO | __GFP_ACCOUNT | __GFP_COMP | GFP_ZONEMASK);
	more = kpkeys_pool_get_pages(nid, gfp, small);
	if (!more)
		return NULL;

	guard(mutex)(&pool->sync->grow);
	nid = page_to_nid(more);
	if (add_pages(pool, more, small, MIN_SPARE))
		return NULL;
	return take(pool, nid, order, zero);
}

/* === Allocation and freeing ============================================= */

/**
 * kpkeys_pool_alloc() - Hand out pages with the key of a pool.
 * @pool: the pool.
 * @gfp: __GFP_ZERO and __GFP_ACCOUNT do what they do elsewhere; a caller that
 *	may not sleep gets what is there.
 * @order: at most KPKEYS_MAX_ORDER.
 *
 * Context: any in which pages may be allocated, at the default level.
 * Return: the page, of order @order and with a reference count of one, or NULL.
 */
struct page *kpkeys_pool_alloc(const struct kpkeys_pool *pool, gfp_t gfp,
			       unsigned int order)
{
	bool zero = want_init_on_alloc(gfp);
	int nid = numa_mem_id();
	struct page *page;

	if (WARN_ON_ONCE_GFP(order > KPKEYS_MAX_ORDER, gfp))
		return NULL;

	if (unlikely(is_splitting(pool))) {
		page = order ? NULL : take_reserve(pool, zero);
		if (page)
			count(pool, KPKEYS_POOL_SPLITS);
	} else {
		page = take(pool, nid, order, zero);
		if (unlikely(!page) && gfpflags_allow_blocking(gfp))
			page = grow_and_take(pool, gfp, order, zero);
		if (READ_ONCE(pool->state->nodes[nid].nr_avail) < LOW_WATERMARK)
			ask_for_refill(pool);
	}
	if (unlikely(!page)) {
		count(pool, KPKEYS_POOL_FAILED_ALLOCS);
		return NULL;
	}

	if (!prepare_page(page, order))
		goto err_put;

	if (memcg_kmem_online() && (gfp & __GFP_ACCOUNT) &&
	    unlikely(__memcg_kmem_charge_page(page, gfp, order))) {
		unprepare_page(page, order);
		goto err_put;
	}
	return page;

err_put:
	count(pool, KPKEYS_POOL_FAILED_ALLOCS);
	put(pool, kpkeys_region_find(pool, page_to_pfn(page)), page, order);
	return NULL;
}

/**
 * kpkeys_pool_free() - Take back what kpkeys_pool_alloc() handed out.
 * @pool: the pool.
 * @page: the page. It keeps its key.
 *
 * Context: any in which pages may be freed, at the default level.
 * Return: true, or false if the page is not one of this pool.
 */
bool kpkeys_pool_free(const struct kpkeys_pool *pool, struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region *region = kpkeys_region_find(pool, pfn);
	struct kpkeys_pool_node *node;
	unsigned int order;

	if (!region || !test_bit(pfn - region->base, region->owned))
		return false;

	if (!test_bit(pfn - region->base, region->in_use))
		goto bad_free;

	order = compound_order(page);
	if (memcg_kmem_online() && PageMemcgKmem(page))
		__memcg_kmem_uncharge_page(page, order);
	unprepare_page(page, order);

	if (!put(pool, region, page, order))
		goto bad_free;

	node = &pool->state->nodes[region->nid];
	if (READ_ONCE(node->nr_avail) > READ_ONCE(node->trim_at))
		ask_for_trim(pool);
	return true;

bad_free:
	count(pool, KPKEYS_POOL_BAD_FREES);
	WARN(1, "kpkeys: page 0x%lx of pool %s freed, but not in use\n", pfn,
	     pool->name);
	return true;
}

/**
 * kpkeys_pool_owns() - Does a page belong to a pool?
 * @pool: the pool.
 * @page: any page.
 *
 * Context: any. The answer may be outdated unless the caller knows better.
 * Return: true if so, whether it is handed out, free or for the pool's own use.
 */
bool kpkeys_pool_owns(const struct kpkeys_pool *pool, struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	struct kpkeys_region *region = kpkeys_region_find(pool, pfn);

	if (region && test_bit(pfn - region->base, region->owned))
		return true;

	return page_address(page) >= (void *)pool->state &&
	       page_address(page) < (void *)pool->state + pool->state_size;
}

/* === Giving back: the grow mutex is held ================================ */

/* Untag and free pages that nobody can get any more. */
static int release(const struct kpkeys_pool *pool, struct kpkeys_region *region,
		   unsigned int first, unsigned int order)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[region->nid];
	struct page *page = pfn_to_page(region->base + first);
	unsigned int nr = 1 << order;
	bool whole = region->whole;
	int nid = region->nid;
	int err;

	err = set_key(pool, page, nr, KPKEYS_PKEY_DEFAULT);
	trace_kpkeys_pool_give_back(pool->name, nid, page_to_pfn(page), order,
				    err);

	scoped_guard(spinlock_irqsave, node_lock(pool, nid)) {
		CLASS(kpkeys_pool_level, level)(pool);

		if (err) {
			bitmap_set(region->stuck, first, nr);
			break;
		}
		bitmap_clear(region->stuck, first, nr);
		bitmap_clear(region->owned, first, nr);
		region->nr_owned -= nr;
		if (whole)
			node->nr_blocks--;
		else
			node->nr_small -= nr;
		if (!region->nr_owned) {
			list_del_init(&region->list);
			kpkeys_region_remove(pool, region);
		}
	}

	if (err)
		return err;

	count(pool, whole ? KPKEYS_POOL_BLOCKS_RETURNED :
			    KPKEYS_POOL_SMALL_RETURNED);
	free_pages_singly(page, nr);
	return 0;
}

/* Takes an idle block out of the lists. */
static struct kpkeys_region *claim_block(const struct kpkeys_pool *pool,
					 int nid, unsigned int keep)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[nid];
	struct kpkeys_region *region;

	guard(spinlock_irqsave)(node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	if (node->nr_empty <= keep)
		return NULL;
	region = list_last_entry(&node->empty, typeof(*region), list);
	make_unavailable(node, region, 0, KPKEYS_BLOCK_PAGES);
	return region;
}

/* Takes an idle small block out of its region. */
static struct kpkeys_region *claim_small(const struct kpkeys_pool *pool,
					 int nid, unsigned int keep,
					 unsigned int *first)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[nid];
	struct kpkeys_region *region;
	unsigned int i;

	guard(spinlock_irqsave)(node_lock(pool, nid));
	CLASS(kpkeys_pool_level, level)(pool);

	if (keep && node->nr_avail < LOW_WATERMARK + KPKEYS_SMALL_PAGES)
		return NULL;

	list_for_each_entry(region, &node->partial, list) {
		if (region->whole)
			continue;
		for (i = 0; i < KPKEYS_BLOCK_PAGES; i += KPKEYS_SMALL_PAGES) {
			if (find_next_zero_bit(region->avail,
					       i + KPKEYS_SMALL_PAGES, i) <
			    i + KPKEYS_SMALL_PAGES)
				continue;
			make_unavailable(node, region, i, KPKEYS_SMALL_PAGES);
			*first = i;
			return region;
		}
	}
	return NULL;
}

static struct kpkeys_region *find_stuck(const struct kpkeys_pool *pool, int nid,
					unsigned int *first)
{
	struct kpkeys_pool_node *node = &pool->state->nodes[nid];
	struct list_head *lists[] = { &node->full, &node->partial };
	struct kpkeys_region *region;
	int i;

	guard(spinlock_irqsave)(node_lock(pool, nid));
	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(region, lists[i], list) {
			*first = find_first_bit(region->stuck,
						KPKEYS_BLOCK_PAGES);
			if (*first < KPKEYS_BLOCK_PAGES)
				return region;
		}
	}
	return NULL;
}

static unsigned long release_stuck(const struct kpkeys_pool *pool, int nid)
{
	struct kpkeys_region *region;
	unsigned long freed = 0;
	unsigned int first, order;

	while (atomic_long_read(&pool->sync->nr_stuck)) {
		region = find_stuck(pool, nid, &first);
		if (!region)
			break;
		order = region->whole ? KPKEYS_BLOCK_ORDER : KPKEYS_SMALL_ORDER;
		if (release(pool, region, first, order))
			break;
		atomic_long_sub(1 << order, &pool->sync->nr_stuck);
		freed += 1 << order;
	}
	return freed;
}

static unsigned long release_idle(const struct kpkeys_pool *pool, int nid,
				  unsigned int keep)
{
	struct kpkeys_region *region;
	unsigned long freed = 0;
	unsigned int first, order;

	for (;;) {
		order = KPKEYS_BLOCK_ORDER;
		first = 0;
		region = claim_block(pool, nid, keep);
		if (!region) {
			order = KPKEYS_SMALL_ORDER;
			region = claim_small(pool, nid, keep, &first);
		}
		if (!region)
			break;
		if (release(pool, region, first, order)) {
			atomic_long_add(1 << order, &pool->sync->nr_stuck);
			break;
		}
		freed += 1 << order;
	}
	return freed;
}

static unsigned long trim(const struct kpkeys_pool *pool, unsigned int keep)
{
	struct kpkeys_pool_node *node;
	unsigned long freed = 0;
	int nid;

	drain_all(pool);
	for_each_node_state(nid, N_MEMORY) {
		freed += release_stuck(pool, nid);
		freed += release_idle(pool, nid, keep);

		node = &pool->state->nodes[nid];
		scoped_class(kpkeys_pool_level, level, pool)
			node->trim_at = node->nr_avail +
					IDLE_BLOCKS * KPKEYS_BLOCK_PAGES;
	}
	return freed;
}

/**
 * kpkeys_pool_trim() - Give back memory that is not in use.
 * @pool: the pool.
 * @keep: wholly free blocks that each node may keep; with 0 no small ones and
 *	no watermark are kept either.
 *
 * Context: may sleep.
 * Return: number of pages given back.
 */
unsigned long kpkeys_pool_trim(const struct kpkeys_pool *pool,
			       unsigned int keep)
{
	guard(mutex)(&pool->sync->grow);
	return trim(pool, keep);
}

/**
 * kpkeys_pool_count_idle() - How much would kpkeys_pool_scan_idle() give back?
 * @pool: the pool.
 *
 * Context: any.
 * Return: number of pages, or SHRINK_EMPTY.
 */
unsigned long kpkeys_pool_count_idle(const struct kpkeys_pool *pool)
{
	unsigned long nr = atomic_long_read(&pool->sync->nr_stuck);
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		const struct kpkeys_pool_node *node = &pool->state->nodes[nid];
		unsigned long empty = READ_ONCE(node->nr_empty);
		unsigned long avail = READ_ONCE(node->nr_avail);

		if (empty > 1)
			nr += (empty - 1) * KPKEYS_BLOCK_PAGES;
		if (avail > LOW_WATERMARK)
			nr += min(READ_ONCE(node->nr_small),
				  avail - LOW_WATERMARK);
	}
	return nr ? : SHRINK_EMPTY;
}

/**
 * kpkeys_pool_scan_idle() - Give back what is idle, as far as that is possible.
 * @pool: the pool.
 *
 * Context: reclaim; does not wait for the pool.
 * Return: number of pages given back, or SHRINK_STOP.
 */
unsigned long kpkeys_pool_scan_idle(const struct kpkeys_pool *pool)
{
	unsigned long freed;

	/* Reclaim may have begun in a refill of this very pool. */
	if (!mutex_trylock(&pool->sync->grow))
		return SHRINK_STOP;
	freed = trim(pool, 1);
	mutex_unlock(&pool->sync->grow);
	return freed ? : SHRINK_STOP;
}

/* === In the background ================================================== */

static bool refill_node(const struct kpkeys_pool *pool, int nid)
{
	unsigned int order = KPKEYS_BLOCK_ORDER;
	struct page *page;

	while (READ_ONCE(pool->state->nodes[nid].nr_avail) < LOW_WATERMARK) {
		/* Outside the mutex: reclaim may need page tables. */
		page = kpkeys_pool_get_pages(nid, GFP_KERNEL | __GFP_NORETRY |
					     __GFP_NOWARN | __GFP_THISNODE,
					     order);
		if (!page && order == KPKEYS_SMALL_ORDER)
			return false;
		if (!page) {
			order = KPKEYS_SMALL_ORDER;
			continue;
		}
		guard(mutex)(&pool->sync->grow);
		if (add_pages(pool, page, order, MIN_SPARE))
			return false;
	}
	return true;
}

/**
 * kpkeys_pool_background() - Refill a pool, or give back what is idle.
 * @pool: the pool.
 *
 * Context: a worker.
 */
void kpkeys_pool_background(const struct kpkeys_pool *pool)
{
	bool idle = false;
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		const struct kpkeys_pool_node *node = &pool->state->nodes[nid];

		if (!refill_node(pool, nid))
			WRITE_ONCE(pool->sync->retry_at, jiffies + HZ);
		idle |= READ_ONCE(node->nr_avail) > READ_ONCE(node->trim_at);
	}
	if (idle)
		kpkeys_pool_trim(pool, 1);
}

/**
 * kpkeys_pool_cpu_dead() - Empty the magazine of a CPU that went away.
 * @pool: the pool.
 * @cpu: the CPU.
 *
 * Context: any.
 */
void kpkeys_pool_cpu_dead(const struct kpkeys_pool *pool, unsigned int cpu)
{
	drain_cpu(pool, cpu);
}

/* === Start ============================================================== */

/*
 * The pool's own pages lie in its first block, as each would pin another block.
 * Enough for page tables that map, with small pages, all memory four times.
 */
static unsigned int __init initial_spare(const struct kpkeys_pool *pool)
{
	unsigned long blocks = 4 * (totalram_pages() >> (2 * KPKEYS_BLOCK_ORDER));
	unsigned long per_page = PAGE_SIZE / sizeof(struct kpkeys_region);

	return MIN_SPARE + pool->directory_size + 1 + blocks / per_page;
}

static void *__init align_take(void **next, size_t size)
{
	void *addr = *next;

	*next += ALIGN(size, SMP_CACHE_BYTES);
	return addr;
}

static void __init init_node(struct kpkeys_pool_node *node)
{
	INIT_LIST_HEAD(&node->partial);
	INIT_LIST_HEAD(&node->full);
	INIT_LIST_HEAD(&node->empty);
	node->trim_at = (IDLE_BLOCKS + 1) * KPKEYS_BLOCK_PAGES;
}

static int __init init_locks(struct kpkeys_pool *pool)
{
	size_t nr = nr_node_ids + nr_cpu_ids;
	spinlock_t *locks;
	size_t i;

	locks = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO,
					 get_order(nr * sizeof(*locks)));
	if (!locks)
		return -ENOMEM;
	pool->sync->node_lock = locks;
	pool->sync->cpu_lock = locks + nr_node_ids;

	for (i = 0; i < nr_node_ids; i++)
		spin_lock_init(&pool->sync->node_lock[i]);
	for (i = 0; i < nr_cpu_ids; i++)
		spin_lock_init(&pool->sync->cpu_lock[i]);
	return 0;
}

static int __init init_state(struct kpkeys_pool *pool)
{
	size_t nodes = nr_node_ids * sizeof(*pool->state->nodes);
	size_t mags = nr_cpu_ids * sizeof(*pool->state->magazines);
	size_t directory = kpkeys_directory_size(pool);
	size_t size = sizeof(*pool->state) + nodes + mags + directory +
		      4 * SMP_CACHE_BYTES;
	unsigned int order = get_order(size);
	struct kpkeys_pool_state *state;
	unsigned int nid;
	void *next;
	int err;

	next = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, order);
	if (!next)
		return -ENOMEM;
	pool->state_size = PAGE_SIZE << order;
	pool->state = state = align_take(&next, sizeof(*state));
	state->nodes = align_take(&next, nodes);
	state->magazines = align_take(&next, mags);
	state->directory = align_take(&next, directory);
	INIT_LIST_HEAD(&state->free_regions);
	for (nid = 0; nid < nr_node_ids; nid++)
		init_node(&state->nodes[nid]);

	err = set_memory_pkey((unsigned long)state, 1 << order, pool->pkey);
	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	kpkeys_stat_add(KPKEYS_STAT_PTPS_TAGGED, 1 << order);
	return err;
}

/**
 * kpkeys_pool_init() - Make a pool that can hand out pages.
 * @pool: the pool.
 *
 * Context: boot, one CPU, as soon as the page allocator works.
 * Return: 0 or a negative error, after which the pool is of no use. Memory that
 * may be tagged is not given back then.
 */
int __init kpkeys_pool_init(struct kpkeys_pool *pool)
{
	struct page *page;
	int err;

	pool->sync->retry_at = jiffies;
	err = init_locks(pool);
	if (!err)
		err = init_state(pool);
	if (err)
		return err;

	page = alloc_pages(GFP_KERNEL, KPKEYS_BLOCK_ORDER);
	if (!page)
		return -ENOMEM;

	guard(mutex)(&pool->sync->grow);
	return add_pages(pool, page, KPKEYS_BLOCK_ORDER, initial_spare(pool));
}

/**
 * kpkeys_pool_late_init() - Let reclaim and debugfs see a pool.
 * @pool: the pool.
 *
 * Context: an initcall.
 * Return: 0 or -ENOMEM.
 */
int __init kpkeys_pool_late_init(const struct kpkeys_pool *pool)
{
	struct shrinker *shrinker = shrinker_alloc(0, "kpkeys-%s", pool->name);

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = pool->count_objects;
	shrinker->scan_objects = pool->scan_objects;
	shrinker_register(shrinker);

	kpkeys_pool_debugfs(pool);
	return 0;
}
