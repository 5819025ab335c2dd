// SPDX-License-Identifier: GPL-2.0-only
/*
 * Magazines: take pages of a pool and put them back, mostly from and to a stack
 * of the CPU. Nothing here adds pages to the pool.
 */
#include <linux/bitmap.h>
#include <linux/gfp.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/topology.h>

#include "pool.h"

/* === Magazines: callers hold their lock and have raised the level ======= */

static void kpkeys_node_put(const struct kpkeys_pool *pool,
			    struct kpkeys_pool_node *node, struct page *page,
			    unsigned int order)
{
	struct kpkeys_region *region;
	unsigned int first;

	region = kpkeys_region_find(pool, page_to_pfn(page), &first);
	kpkeys_region_make_available(node, region, first, 1 << order);
}

/*
 * Tables of the kernel are rarely given back, and data of the pool never. The
 * kernel also has tables of each level, which do not come from magazines.
 */
static bool kpkeys_kind_lasts(enum kpkeys_kind kind)
{
	return kind < KPKEYS_KIND_TABLE;
}

static void kpkeys_magazine_fill(struct kpkeys_pool_node *node,
				 struct kpkeys_magazine *mag, int nid,
				 enum kpkeys_kind kind)
{
	struct page *page;

	mag->nid = nid;
	while (mag->nr < mag->size / 2) {
		page = kpkeys_node_take(node, 0, kind, kpkeys_kind_lasts(kind));
		if (!page)
			break;
		mag->page[mag->nr++] = page;
	}
}

static void kpkeys_magazine_drain(const struct kpkeys_pool *pool,
				  struct kpkeys_pool_node *node,
				  struct kpkeys_magazine *mag,
				  unsigned int down_to)
{
	while (mag->nr > down_to)
		kpkeys_node_put(pool, node, mag->page[--mag->nr], 0);
}

/**
 * kpkeys_pool_drain_cpu() - Empty the magazines of a CPU.
 * @pool: the pool.
 * @cpu: the CPU, online or not.
 *
 * Context: process context.
 */
void kpkeys_pool_drain_cpu(const struct kpkeys_pool *pool, unsigned int cpu)
{
	enum kpkeys_kind kind;

	guard(spinlock)(kpkeys_pool_cpu_lock(pool, cpu));
	for (kind = 0; kind < KPKEYS_NR_KINDS; kind++) {
		struct kpkeys_magazine *mag = kpkeys_pool_magazine(pool, cpu, kind);
		int nid = mag->nid;

		guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
		CLASS(kpkeys_pool_level, level)(pool);
		kpkeys_magazine_drain(pool, kpkeys_pool_node(pool, nid), mag, 0);
	}
}

/**
 * kpkeys_pool_cached() - Count the pages in the magazines of all CPUs.
 * @pool: the pool.
 *
 * Return: an estimate.
 */
unsigned long kpkeys_pool_cached(const struct kpkeys_pool *pool)
{
	unsigned int i, nr_magazines = pool->nr_cpus * KPKEYS_NR_KINDS;
	unsigned long nr = 0;

	for (i = 0; i < nr_magazines; i++)
		nr += READ_ONCE(pool->state->magazines[i].nr);
	return nr;
}

/*
 * Interrupts stay enabled, as with the per-CPU lists of the page allocator: an
 * interrupt that finds the magazine locked falls back to the node. Without SMP
 * a trylock always succeeds, so interrupts are disabled there.
 */
static bool kpkeys_magazine_trylock(const struct kpkeys_pool *pool,
				    unsigned int cpu, unsigned long *flags)
{
	*flags = 0;
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_save(*flags);
	if (spin_trylock(kpkeys_pool_cpu_lock(pool, cpu)))
		return true;
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_restore(*flags);
	return false;
}

static void kpkeys_magazine_unlock(const struct kpkeys_pool *pool,
				   unsigned int cpu, unsigned long flags)
{
	spin_unlock(kpkeys_pool_cpu_lock(pool, cpu));
	if (!IS_ENABLED(CONFIG_SMP))
		local_irq_restore(flags);
}

/* === Taking and putting ================================================= */

/* Final check before a page is handed out. The level is raised. */
static bool kpkeys_page_set_in_use(const struct kpkeys_pool *pool,
				   struct page *page, unsigned int order,
				   enum kpkeys_kind kind)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = kpkeys_region_find(pool, page_to_pfn(page), &i);
	if (!region || test_bit(i, region->avail) ||
	    test_bit(i, region->stuck) ||
	    !kpkeys_region_set_kind(region, i, 1 << order, kind) ||
	    test_and_set_bit(i, region->in_use)) {
		kpkeys_pool_count(pool, KPKEYS_POOL_BAD_TAKES);
		return false;
	}
	/* Locks can be forged: is it being given back? See kpkeys_block_withdraw(). */
	if (test_bit(i, region->stuck)) {
		clear_bit(i, region->in_use);
		kpkeys_pool_count(pool, KPKEYS_POOL_BAD_TAKES);
		return false;
	}
	/* For orders above 0 the lock of the node is held. */
	if (order)
		bitmap_set(region->inner, i + 1, (1 << order) - 1);
	return true;
}

/* Tables of processes are charged to their memory cgroup. */
static bool kpkeys_gfp_lasts(gfp_t gfp)
{
	return !(gfp & __GFP_ACCOUNT);
}

static struct page *kpkeys_pool_take_locked(const struct kpkeys_pool *pool,
					    struct kpkeys_magazine *mag,
					    int nid, gfp_t gfp, unsigned int order,
					    enum kpkeys_kind kind)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);
	bool zero = want_init_on_alloc(gfp);
	struct page *page = NULL;
	unsigned int i;

	CLASS(kpkeys_pool_level, level)(pool);

	if (!mag) {
		page = kpkeys_node_take(node, order, kind, kpkeys_gfp_lasts(gfp));
	} else {
		if (!mag->nr)
			kpkeys_magazine_fill(node, mag, nid, kind);
		if (mag->nr)
			page = mag->page[--mag->nr];
	}
	if (!page || !kpkeys_page_set_in_use(pool, page, order, kind))
		return NULL;

	for (i = 0; zero && i < 1 << order; i++)
		clear_page(page_address(page + i));
	return page;
}

/**
 * kpkeys_pool_take() - Take available pages of a node.
 * @pool: the pool.
 * @nid: the node.
 * @gfp: honours __GFP_ZERO; without __GFP_ACCOUNT, the pages may never be given
 *	back.
 * @order: order of the run, naturally aligned.
 * @kind: what they are taken for.
 *
 * Context: any but hardirq, at the default level.
 * Return: the pages, marked in use, with their struct page not yet prepared; or
 * NULL.
 */
struct page *kpkeys_pool_take(const struct kpkeys_pool *pool, int nid,
			      gfp_t gfp, unsigned int order,
			      enum kpkeys_kind kind)
{
	unsigned int cpu = raw_smp_processor_id();
	struct kpkeys_magazine *mag = kpkeys_pool_magazine(pool, cpu, kind);
	struct page *page;
	unsigned long flags;

	if (order || nid != cpu_to_mem(cpu) ||
	    kpkeys_gfp_lasts(gfp) != kpkeys_kind_lasts(kind) ||
	    !kpkeys_magazine_trylock(pool, cpu, &flags)) {
		scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid))
			page = kpkeys_pool_take_locked(pool, NULL, nid, gfp, order,
						       kind);
		kpkeys_pool_report_idle(pool, nid);
		return page;
	}

	if (mag->nr && mag->nid == nid) {
		page = kpkeys_pool_take_locked(pool, mag, nid, gfp, 0, kind);
	} else {
		scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid))
			page = kpkeys_pool_take_locked(pool, mag->nr ? NULL : mag,
						       nid, gfp, 0, kind);
		kpkeys_pool_report_idle(pool, nid);
	}
	kpkeys_magazine_unlock(pool, cpu, flags);
	return page;
}

/**
 * kpkeys_pool_take_kept() - Take pages that were kept for what lasts, too.
 * @pool: the pool.
 * @nid: the node.
 * @gfp: as for kpkeys_pool_take().
 * @order: likewise.
 * @kind: likewise.
 *
 * Context: any but hardirq, at the default level.
 * Return: as kpkeys_pool_take().
 */
struct page *kpkeys_pool_take_kept(const struct kpkeys_pool *pool, int nid,
				   gfp_t gfp, unsigned int order,
				   enum kpkeys_kind kind)
{
	return kpkeys_pool_take(pool, nid, gfp & ~__GFP_ACCOUNT, order, kind);
}

static bool kpkeys_pool_put_locked(const struct kpkeys_pool *pool,
				   struct kpkeys_magazine *mag,
				   struct kpkeys_region *region,
				   unsigned int first, unsigned int order)
{
	struct kpkeys_pool_node *node = kpkeys_pool_node(pool, region->nid);
	struct page *page = pfn_to_page(region->base + first);

	CLASS(kpkeys_pool_level, level)(pool);

	if (!test_and_clear_bit(first, region->in_use))
		return false;
	/* An entry was made to point to it after the first look. */
	if (test_bit(first, region->linked)) {
		set_bit(first, region->in_use);
		return false;
	}

	/* As in the page allocator, poisoned pages are not reused. */
	if (PageHWPoison(page))
		return true;

	if (!mag) {
		if (order)
			bitmap_clear(region->inner, first + 1,
				     (1 << order) - 1);
		kpkeys_region_make_available(node, region, first, 1 << order);
		return true;
	}
	if (mag->nr == mag->size)
		kpkeys_magazine_drain(pool, node, mag, mag->size / 2);
	mag->nid = region->nid;
	mag->page[mag->nr++] = page;
	return true;
}

/**
 * kpkeys_pool_put() - Put pages back that kpkeys_pool_take() has taken.
 * @pool: the pool.
 * @region: their region.
 * @first: index of the first page in the region.
 * @order: order of the run.
 *
 * Context: any but hardirq, at the default level.
 * Return: false if the pages were not in use.
 */
bool kpkeys_pool_put(const struct kpkeys_pool *pool,
		     struct kpkeys_region *region, unsigned int first,
		     unsigned int order)
{
	unsigned int cpu = raw_smp_processor_id();
	enum kpkeys_kind kind = kpkeys_region_kind(region, first);
	struct kpkeys_magazine *mag = kpkeys_pool_magazine(pool, cpu, kind);
	int nid = region->nid;
	unsigned long flags;
	bool good, fits;

	if (order || nid != cpu_to_mem(cpu) ||
	    !kpkeys_magazine_trylock(pool, cpu, &flags)) {
		scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid))
			good = kpkeys_pool_put_locked(pool, NULL, region, first,
						      order);
		kpkeys_pool_report_idle(pool, nid);
		return good;
	}

	fits = !mag->nr || mag->nid == nid;
	if (fits && mag->nr < mag->size) {
		good = kpkeys_pool_put_locked(pool, mag, region, first, 0);
	} else {
		scoped_guard(spinlock_irqsave, kpkeys_pool_node_lock(pool, nid))
			good = kpkeys_pool_put_locked(pool, fits ? mag : NULL,
						      region, first, 0);
		kpkeys_pool_report_idle(pool, nid);
	}
	kpkeys_magazine_unlock(pool, cpu, flags);
	return good;
}

/* === The reserve ======================================================== */

/**
 * kpkeys_pool_take_reserve() - Take a page for splitting the linear map.
 * @pool: the pool.
 * @kind: what it is taken for.
 * @zero: whether to clear the page.
 *
 * Context: the grow mutex is held, at the default level.
 * Return: the page, in the same state as from kpkeys_pool_take(), or NULL.
 */
struct page *kpkeys_pool_take_reserve(const struct kpkeys_pool *pool,
				      enum kpkeys_kind kind, bool zero)
{
	struct kpkeys_pool_state *state = pool->state;
	struct page *page;

	if (!state->nr_reserve)
		return NULL;

	CLASS(kpkeys_pool_level, level)(pool);
	page = state->reserve[--state->nr_reserve];
	if (!kpkeys_page_set_in_use(pool, page, 0, kind))
		return NULL;
	if (zero)
		clear_page(page_address(page));
	kpkeys_pool_count(pool, KPKEYS_POOL_SPLITS);
	return page;
}
