// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the pool that page tables come from.
 *
 * They use the pool of the running kernel, because all page tables share it.
 * Tests that others may disturb let it settle first.
 */
#include <kunit/static_stub.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/nodemask.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>

#include "../../internal.h"
#include "../pool.h"
#include "test.h"

#define pool	(&kpkeys_pgtables_pool)

static long events(enum kpkeys_pool_event event)
{
	return atomic_long_read(&pool->sync->events[event]);
}

static struct kpkeys_region *region_of(struct ptdesc *pt, unsigned int *i)
{
	return kpkeys_region_find(pool, page_to_pfn(ptdesc_page(pt)), i);
}

static bool in_use(struct ptdesc *pt)
{
	struct kpkeys_region *region;
	unsigned int i;

	region = region_of(pt, &i);
	return region && test_bit(i, region->in_use);
}

/* === Tables held by a test ============================================== */

struct tables {
	struct list_head list;
	unsigned int nr;
};

static bool get_table(struct tables *tables, gfp_t gfp, unsigned int order)
{
	struct ptdesc *pt = pagetable_alloc(gfp | __GFP_NOWARN, order);

	if (!pt)
		return false;
	list_add(&pt->pt_list, &tables->list);
	tables->nr++;
	return true;
}

static void put_tables(void *data)
{
	struct tables *tables = data;
	struct ptdesc *pt, *next;

	list_for_each_entry_safe(pt, next, &tables->list, pt_list) {
		list_del(&pt->pt_list);
		pagetable_free(pt);
	}
	tables->nr = 0;
}

static struct tables *new_tables(struct kunit *test)
{
	struct tables *tables = kunit_kzalloc(test, sizeof(*tables),
					      GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tables);
	INIT_LIST_HEAD(&tables->list);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_tables,
							tables), 0);
	return tables;
}

/* === Accounting ========================================================= */

struct sums {
	unsigned long owned, avail, clean, in_use, stuck, blocks, small, idle_small, empty;
};

/* Each page has one kind. */
static unsigned long count_clean(struct kunit *test, const struct kpkeys_region *region)
{
	unsigned int i, kind, kinds, clean = 0;

	for_each_set_bit(i, region->owned, KPKEYS_BLOCK_PAGES) {
		for (kind = 0, kinds = 0; kind < KPKEYS_NR_KINDS; kind++)
			kinds += test_bit(i, region->kinds[kind]);
		/* A CPU may be handing it out. */
		if (test_bit(i, region->avail))
			KUNIT_EXPECT_EQ(test, kinds, 1);
		clean += test_bit(i, region->avail) &&
			 test_bit(i, region->kinds[KPKEYS_KIND_CLEAN]);
	}
	return clean;
}

/* The owned pages of a small block go back together. */
static unsigned int count_idle_small(const struct kpkeys_region *region)
{
	unsigned int i, nr = 0;
	unsigned long owned;

	for (i = 0; i < KPKEYS_BLOCK_PAGES; i += KPKEYS_SMALL_PAGES) {
		owned = bitmap_read(region->owned, i, KPKEYS_SMALL_PAGES);
		if (owned == bitmap_read(region->avail, i, KPKEYS_SMALL_PAGES))
			nr += hweight_long(owned);
	}
	return nr;
}

static void add_up(struct kunit *test, struct list_head *list,
		   struct sums *sums)
{
	struct kpkeys_region *region;

	list_for_each_entry(region, list, list) {
		unsigned long owned, avail;

		owned = bitmap_weight(region->owned, KPKEYS_BLOCK_PAGES);
		avail = bitmap_weight(region->avail, KPKEYS_BLOCK_PAGES);
		KUNIT_EXPECT_EQ(test, owned, region->nr_owned);
		KUNIT_EXPECT_EQ(test, avail, region->nr_avail);
		KUNIT_EXPECT_TRUE(test, bitmap_subset(region->avail,
						      region->owned,
						      KPKEYS_BLOCK_PAGES));
		KUNIT_EXPECT_TRUE(test, bitmap_subset(region->in_use,
						      region->owned,
						      KPKEYS_BLOCK_PAGES));
		KUNIT_EXPECT_FALSE(test, bitmap_intersects(region->in_use,
							   region->avail,
							   KPKEYS_BLOCK_PAGES));
		sums->owned += owned;
		sums->avail += avail;
		sums->clean += count_clean(test, region);
		sums->in_use += bitmap_weight(region->in_use,
					      KPKEYS_BLOCK_PAGES);
		sums->stuck += bitmap_weight(region->stuck, KPKEYS_BLOCK_PAGES);
		sums->blocks += region->whole;
		sums->small += region->whole ? 0 : owned;
		sums->idle_small += region->whole ? 0 : count_idle_small(region);
		sums->empty += region->whole && avail == KPKEYS_BLOCK_PAGES;
	}
}

/* Check that each page is in one state, and that the counters match. */
static struct sums audit(struct kunit *test)
{
	struct sums sums = { }, node_sums;
	struct kpkeys_pool_node *node;
	int nid;

	guard(mutex)(&pool->sync->grow);
	for_each_node_state(nid, N_MEMORY) {
		node = &pool->state->nodes[nid];
		guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));

		node_sums = (struct sums) { };
		add_up(test, &node->partial, &node_sums);
		add_up(test, &node->full, &node_sums);
		add_up(test, &node->empty, &node_sums);
		KUNIT_EXPECT_EQ(test, node_sums.avail, node->nr_avail);
		KUNIT_EXPECT_EQ(test, node_sums.clean, node->nr_clean);
		KUNIT_EXPECT_EQ(test, node_sums.blocks, node->nr_blocks);
		KUNIT_EXPECT_EQ(test, node_sums.small, node->nr_small);
		KUNIT_EXPECT_EQ(test, node_sums.empty, node->nr_empty);
		sums.owned += node_sums.owned;
		sums.avail += node_sums.avail;
		sums.in_use += node_sums.in_use;
		sums.stuck += node_sums.stuck;
		sums.blocks += node_sums.blocks;
		sums.small += node_sums.small;
		sums.idle_small += node_sums.idle_small;
		sums.empty += node_sums.empty;
	}
	KUNIT_EXPECT_EQ(test, sums.stuck, atomic_long_read(&pool->sync->nr_stuck));
	KUNIT_EXPECT_LE(test, pool->state->nr_reserve, KPKEYS_POOL_RESERVE);
	return sums;
}

/* Wait for RCU and the worker, and free idle memory. */
static struct sums settle(struct kunit *test, unsigned int keep)
{
	rcu_barrier();
	flush_delayed_work(&pool->sync->work);
	kpkeys_pool_trim(pool, keep);
	return audit(test);
}

/* Pages of small blocks go back, but for those in use and their neighbours. */
static void expect_small_given_back(struct kunit *test)
{
	int tries = 10;

	/* Others may free tables meanwhile. */
	while (tries && settle(test, 0).idle_small)
		tries--;
	KUNIT_EXPECT_GT(test, tries, 0);
}

/* Keep the background worker from refilling the pool for a while. */
static void stop_refills(struct kunit *test)
{
	int nid;

	for_each_node_state(nid, N_MEMORY)
		WRITE_ONCE(pool->sync->retry_at[nid], jiffies + 60 * HZ);
	flush_delayed_work(&pool->sync->work);
}

static void allow_refills(void *unused)
{
	int nid;

	for_each_node_state(nid, N_MEMORY)
		WRITE_ONCE(pool->sync->retry_at[nid], jiffies);
}

static void let_worker_run(void *unused)
{
	enable_delayed_work(&pool->sync->work);
}

/* The worker neither refills nor trims until the test ends. */
static void keep_worker_off(struct kunit *test)
{
	disable_delayed_work_sync(&pool->sync->work);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, let_worker_run,
							NULL), 0);
}

/* Make available pages fit for any kind, those in magazines too. */
static void clean_all(void)
{
	unsigned int cpu;
	int nid;

	guard(mutex)(&pool->sync->grow);
	for_each_possible_cpu(cpu)
		kpkeys_pool_drain_cpu(pool, cpu);
	for_each_node_state(nid, N_MEMORY)
		while (kpkeys_pool_clean(pool, nid))
			;
}

/* Allocate all pages. The worker does not refill until the test ends. */
static struct tables *exhaust(struct kunit *test)
{
	struct tables *tables = new_tables(test);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, allow_refills,
							NULL), 0);
	stop_refills(test);
	/* Otherwise tables freed by others come back later. */
	rcu_barrier();
	clean_all();
	while (tables->nr < 16 * KPKEYS_BLOCK_PAGES &&
	       get_table(tables, GFP_ATOMIC, 0))
		cond_resched();
	KUNIT_ASSERT_LT(test, tables->nr, 16 * KPKEYS_BLOCK_PAGES);
	return tables;
}

/* Take tables until the pool has got so many blocks. */
static void grow_by_blocks(struct kunit *test, struct tables *tables, int nr)
{
	long added = events(KPKEYS_POOL_BLOCKS_ADDED);

	while (events(KPKEYS_POOL_BLOCKS_ADDED) < added + nr) {
		KUNIT_ASSERT_LT(test, tables->nr, 32 * KPKEYS_BLOCK_PAGES);
		KUNIT_ASSERT_TRUE(test, get_table(tables, GFP_PGTABLE_KERNEL, 0));
	}
}

/* Others may free some tables meanwhile, which are to be had then. */
static void expect_no_table(struct kunit *test, struct tables *tables,
			    gfp_t gfp, unsigned int order)
{
	int tries = 10;

	while (tries && get_table(tables, gfp, order))
		tries--;
	KUNIT_EXPECT_GT(test, tries, 0);
}

/* === Allocation ========================================================= */

static void pages_are_as_asked_for(struct kunit *test)
{
	unsigned int order;

	skip_unless_protected(test);

	for (order = 0; order <= KPKEYS_MAX_ORDER; order++) {
		struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL, order);
		struct page *page = ptdesc_page(pt);
		size_t size = PAGE_SIZE << order;

		KUNIT_ASSERT_NOT_NULL(test, pt);
		KUNIT_EXPECT_TRUE(test, kpkeys_pool_owns(pool, page));
		KUNIT_EXPECT_TRUE(test, in_use(pt));
		KUNIT_EXPECT_EQ(test, compound_order(page), order);
		KUNIT_EXPECT_EQ(test, page_count(page), 1);
		KUNIT_EXPECT_TRUE(test, IS_ALIGNED(page_to_pfn(page),
						   1 << order));
		KUNIT_EXPECT_NULL(test, memchr_inv(ptdesc_address(pt), 0,
						   size));
		EXPECT_PROTECTED(test, ptdesc_address(pt));
		EXPECT_PROTECTED(test, ptdesc_address(pt) + size -
				       sizeof(long));

		/* Tail pages must be reset as well. */
		pagetable_free(pt);
		KUNIT_EXPECT_FALSE(test, in_use(pt));
		KUNIT_EXPECT_FALSE(test, PageCompound(page));
		KUNIT_EXPECT_EQ(test, page_count(page + (1 << order) - 1), 1);
		EXPECT_PROTECTED(test, page_address(page));
	}
	audit(test);
}

/* Pages must be cleared when they are reused. */
static void pages_are_cleared_again(struct kunit *test)
{
	int i;

	for (i = 0; i < 100; i++) {
		struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL, i % 3);
		unsigned long *table;

		KUNIT_ASSERT_NOT_NULL(test, pt);
		table = ptdesc_address(pt);
		KUNIT_EXPECT_NULL(test, memchr_inv(table, 0,
						   PAGE_SIZE << i % 3));
		scoped_guard(kpkeys_hardened_pgtables) {
			memset(table, 0xff, PAGE_SIZE << i % 3);
		}
		pagetable_free(pt);
	}
}

static void descriptors_are_reset(struct kunit *test)
{
	struct tables *tables = new_tables(test);
	struct mm_struct *mm = current->mm ? : &init_mm;
	int i;

	/* With ptlock and page type, like page tables of a process. */
	for (i = 0; i < 2 * KPKEYS_MAGAZINE_SIZE; i++) {
		pgtable_t table = pte_alloc_one(mm);

		KUNIT_ASSERT_NOT_NULL(test, table);
		KUNIT_EXPECT_TRUE(test, PageTable(table));
		pte_free(mm, table);
	}
	for (i = 0; i < 4 * KPKEYS_MAGAZINE_SIZE; i++)
		KUNIT_ASSERT_TRUE(test, get_table(tables, GFP_PGTABLE_KERNEL,
						  0));
	put_tables(tables);
}

static bool adopt(struct page *page)
{
	guard(mutex)(&pool->sync->grow);
	CLASS(kpkeys_pool_level, level)(pool);
	return kpkeys_spare_adopt(pool, page);
}

/* An attacker may have put any page in place of the one that was handed out. */
static void only_a_page_in_use_becomes_data(struct kunit *test)
{
	struct page *other, *pages;
	unsigned int own;

	skip_unless_protected(test);

	own = pool->state->nr_own;
	other = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_EXPECT_FALSE(test, adopt(other));
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(other), 0, PAGE_SIZE));
	__free_page(other);

	pages = kpkeys_pool_alloc(pool, GFP_KERNEL, 1, KPKEYS_KIND_DATA);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	KUNIT_EXPECT_FALSE(test, adopt(pages));
	KUNIT_EXPECT_FALSE(test, adopt(pages + 1));
	kpkeys_pool_free(pool, pages);
	KUNIT_EXPECT_FALSE(test, adopt(pages));

	pages = kpkeys_pool_alloc(pool, GFP_KERNEL, 0, KPKEYS_KIND_TABLE);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	KUNIT_EXPECT_FALSE(test, adopt(pages));
	kpkeys_pool_free(pool, pages);

	/* It stays with the pool. */
	pages = kpkeys_pool_alloc(pool, GFP_KERNEL, 0, KPKEYS_KIND_DATA);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	KUNIT_EXPECT_EQ(test, pool->state->nr_own, own);
	KUNIT_EXPECT_TRUE(test, adopt(pages));
	KUNIT_EXPECT_FALSE(test, adopt(pages));
	KUNIT_EXPECT_EQ(test, pool->state->nr_own, own + 1);
	audit(test);
}

static unsigned long take_pfn(struct kpkeys_pool_node *node, bool lasting)
{
	return page_to_pfn(kpkeys_node_take(node, 0, KPKEYS_KIND_TABLE, lasting));
}

/* A node with some regions, of which each has a few pages, or all. */
static struct kpkeys_region *new_regions(struct kunit *test, int nr, unsigned int pages,
					 struct kpkeys_pool_node **node)
{
	struct kpkeys_region *region;
	int i;

	*node = kunit_kzalloc(test, sizeof(**node), GFP_KERNEL);
	region = kunit_kcalloc(test, nr, sizeof(*region), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *node);
	KUNIT_ASSERT_NOT_NULL(test, region);
	INIT_LIST_HEAD(&(*node)->partial);
	INIT_LIST_HEAD(&(*node)->full);
	INIT_LIST_HEAD(&(*node)->empty);
	for (i = 0; i < nr; i++) {
		INIT_LIST_HEAD(&region[i].list);
		region[i].base = i * KPKEYS_BLOCK_PAGES;
		region[i].nr_owned = pages;
		region[i].whole = pages == KPKEYS_BLOCK_PAGES;
		kpkeys_region_set_clean(&region[i], 0, pages);
		kpkeys_region_make_available(*node, &region[i], 0, pages);
	}
	return region;
}

/* Regions to which pages came back have a chance to become empty. */
static void region_that_drains_is_not_used(struct kunit *test)
{
	struct kpkeys_pool_node *node;
	struct kpkeys_region *region;
	int i;

	region = new_regions(test, 2, 8, &node);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, take_pfn(node, false), i);
	kpkeys_region_make_available(node, &region[0], 0, 1);
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, take_pfn(node, false), KPKEYS_BLOCK_PAGES + i);
	KUNIT_EXPECT_EQ(test, take_pfn(node, false), 0);
}

/* One page that is never given back keeps a whole block: they go together. */
static void lasting_pages_share_a_block(struct kunit *test)
{
	struct kpkeys_pool_node *node;
	struct kpkeys_region *region;
	int i;

	region = new_regions(test, 3, KPKEYS_BLOCK_PAGES, &node);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, take_pfn(node, true), i);
		KUNIT_EXPECT_EQ(test, take_pfn(node, false), KPKEYS_BLOCK_PAGES + i);
	}
	KUNIT_EXPECT_EQ(test, node->nr_empty, 1);

	/* Others take some there when there are no others, */
	for (; i < 2 * KPKEYS_BLOCK_PAGES; i++)
		take_pfn(node, false);
	KUNIT_EXPECT_EQ(test, node->nr_empty, 0);
	for (i = 3; i < KPKEYS_BLOCK_PAGES / 2; i++)
		KUNIT_EXPECT_EQ(test, take_pfn(node, false), i);
	KUNIT_EXPECT_NULL(test, kpkeys_node_take(node, 0, KPKEYS_KIND_TABLE, false));
	KUNIT_EXPECT_EQ(test, take_pfn(node, true), i++);
	/* and the other way round. */
	kpkeys_region_make_unavailable(node, &region[0], i, KPKEYS_BLOCK_PAGES - i);
	kpkeys_region_make_available(node, &region[1], 7, 2);
	KUNIT_EXPECT_EQ(test, take_pfn(node, true), KPKEYS_BLOCK_PAGES + 7);
	KUNIT_EXPECT_TRUE(test, region[1].lasting);

	/* An empty block is for anything again. */
	kpkeys_region_make_available(node, &region[0], 0, KPKEYS_BLOCK_PAGES);
	KUNIT_EXPECT_FALSE(test, region[0].lasting);
}

/* Tables here and there keep blocks: the next ones go where most are. */
static void fullest_block_is_used_first(struct kunit *test)
{
	struct kpkeys_pool_node *node;
	struct kpkeys_region *region;
	int i;

	region = new_regions(test, 3, KPKEYS_BLOCK_PAGES, &node);
	KUNIT_EXPECT_FALSE(test, kpkeys_node_gather(node));
	for (i = 0; i < 3 * KPKEYS_BLOCK_PAGES; i++)
		take_pfn(node, false);
	kpkeys_region_make_available(node, &region[1], 4, KPKEYS_BLOCK_PAGES - 4);
	KUNIT_EXPECT_FALSE(test, kpkeys_node_gather(node));
	kpkeys_region_make_available(node, &region[0], 8, KPKEYS_BLOCK_PAGES - 8);
	kpkeys_region_make_available(node, &region[2], 2, KPKEYS_BLOCK_PAGES - 2);
	KUNIT_EXPECT_TRUE(test, kpkeys_node_gather(node));
	KUNIT_EXPECT_EQ(test, take_pfn(node, false), 8);

	/* That of what is never given back is for nothing else. */
	region[0].lasting = true;
	KUNIT_EXPECT_TRUE(test, kpkeys_node_gather(node));
	KUNIT_EXPECT_EQ(test, take_pfn(node, false), KPKEYS_BLOCK_PAGES + 4);
	region[2].lasting = true;
	KUNIT_EXPECT_FALSE(test, kpkeys_node_gather(node));
}

/* === Kinds ============================================================== */

static long flushes;

static void note_flush(void)
{
	flushes++;
	arch_kpkeys_flush_tlbs();
}

/* Take all that there is as the lowest level, and give it back. */
static void use_all_as_lowest(struct kunit *test)
{
	LIST_HEAD(taken);
	struct page *page, *next;
	unsigned int nr = 0;

	while (nr < 16 * KPKEYS_BLOCK_PAGES) {
		page = kpkeys_pool_alloc(pool, GFP_ATOMIC | __GFP_NOWARN, 0,
					 KPKEYS_KIND_TABLE);
		if (!page)
			break;
		list_add(&page->lru, &taken);
		nr++;
		cond_resched();
	}
	KUNIT_EXPECT_GT(test, nr, KPKEYS_POOL_LOW);
	list_for_each_entry_safe(page, next, &taken, lru)
		kpkeys_pool_free(pool, page);
}

/* A CPU that was not flushed still takes the page for a table of that level. */
static void level_changes_after_a_flush_only(struct kunit *test)
{
	struct page *page;

	skip_unless_protected(test);

	keep_worker_off(test);
	clean_all();
	use_all_as_lowest(test);

	flushes = 0;
	kunit_activate_static_stub(test, kpkeys_pool_flush, note_flush);
	page = kpkeys_pool_alloc(pool, GFP_KERNEL, 0, KPKEYS_KIND_TABLE);
	KUNIT_EXPECT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, flushes, 0);
	if (page)
		kpkeys_pool_free(pool, page);

	/* Others may free tables of the second level meanwhile, but not of this. */
	page = kpkeys_pool_alloc(pool, GFP_ATOMIC | __GFP_NOWARN, 0,
				 KPKEYS_KIND_TABLE + PGTABLE_LEVEL_P4D);
	KUNIT_EXPECT_NULL(test, page);
	page = kpkeys_pool_alloc(pool, GFP_KERNEL, 0,
				 KPKEYS_KIND_TABLE + PGTABLE_LEVEL_P4D);
	KUNIT_EXPECT_NOT_NULL(test, page);
	KUNIT_EXPECT_GT(test, flushes, 0);
	kunit_deactivate_static_stub(test, kpkeys_pool_flush);
	if (page)
		kpkeys_pool_free(pool, page);
	audit(test);
}

static struct page *taken_in_a_flush;

static void take_during_flush(void)
{
	taken_in_a_flush = kpkeys_pool_alloc(pool, GFP_ATOMIC, 0, KPKEYS_KIND_TABLE);
	if (taken_in_a_flush)
		kpkeys_pool_free(pool, taken_in_a_flush);
	kpkeys_pool_drain_cpu(pool, raw_smp_processor_id());
}

/* A page that was a table during the flush may be in a TLB again. */
static void table_of_a_flush_is_not_clean(struct kunit *test)
{
	struct kpkeys_region *region;
	unsigned int i;
	int nid;

	skip_unless_protected(test);

	keep_worker_off(test);
	clean_all();
	use_all_as_lowest(test);

	scoped_guard(mutex, &pool->sync->grow) {
		migrate_disable();
		kpkeys_pool_drain_cpu(pool, raw_smp_processor_id());
		kunit_activate_static_stub(test, kpkeys_pool_flush, take_during_flush);
		for_each_node_state(nid, N_MEMORY)
			kpkeys_pool_clean(pool, nid);
		kunit_deactivate_static_stub(test, kpkeys_pool_flush);
		migrate_enable();
	}
	KUNIT_ASSERT_NOT_NULL(test, taken_in_a_flush);
	region = kpkeys_region_find(pool, page_to_pfn(taken_in_a_flush), &i);
	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_EXPECT_EQ(test, kpkeys_region_kind(region, i), KPKEYS_KIND_TABLE);
	audit(test);
}

/* Whatever the lists say, the last check refuses a page of another level. */
static void page_of_another_level_is_refused(struct kunit *test)
{
	struct kpkeys_region *region;
	struct page *page;
	unsigned int i;
	bool good;

	skip_unless_protected(test);

	page = kpkeys_pool_alloc(pool, GFP_KERNEL, 0, KPKEYS_KIND_TABLE);
	KUNIT_ASSERT_NOT_NULL(test, page);
	region = kpkeys_region_find(pool, page_to_pfn(page), &i);
	scoped_guard(kpkeys_hardened_pgtables)
		good = kpkeys_region_set_kind(region, i, 1, KPKEYS_KIND_TABLE + PGTABLE_LEVEL_PMD);
	KUNIT_EXPECT_FALSE(test, good);
	KUNIT_EXPECT_EQ(test, kpkeys_region_kind(region, i), KPKEYS_KIND_TABLE);
	kpkeys_pool_free(pool, page);
}

/* Tables of processes say their level, on all ways to get one. */
static void levels_are_said(struct kunit *test)
{
	struct mm_struct *mm = current->mm ? : &init_mm;
	struct kpkeys_region *region;
	unsigned int i;
	pmd_t *pmd;
	pte_t *pte;

	skip_unless_protected(test);

	pte = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, pte);
	region = region_of(virt_to_ptdesc(pte), &i);
	KUNIT_EXPECT_EQ(test, kpkeys_region_kind(region, i), KPKEYS_KIND_TABLE);
	pte_free_kernel(&init_mm, pte);

	pmd = pmd_alloc_one(mm, 0);
	KUNIT_ASSERT_NOT_NULL(test, pmd);
	region = region_of(virt_to_ptdesc(pmd), &i);
	KUNIT_EXPECT_EQ(test, kpkeys_region_kind(region, i),
			KPKEYS_KIND_TABLE + PGTABLE_LEVEL_PMD);
	pmd_free(mm, pmd);
}

static void too_large_an_order_fails(struct kunit *test)
{
	skip_unless_protected(test);

	KUNIT_EXPECT_NULL(test, pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_NOWARN,
						KPKEYS_MAX_ORDER + 1));
}

/* A page freed twice must not be handed out twice. */
static void double_free_is_noticed(struct kunit *test)
{
	long before = events(KPKEYS_POOL_BAD_FREES);
	struct tables *tables = new_tables(test);
	struct ptdesc *pt, *other, *seen = NULL;
	int i, found = 0;

	skip_unless_protected(test);

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, pt);
	seen = pt;
	/* Warnings allocate, so preemption is disabled only inside. */
	kunit_warning_suppress(test) {
		preempt_disable();
		pagetable_free(pt);
		pagetable_free(pt);
		preempt_enable();
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, events(KPKEYS_POOL_BAD_FREES), before + 1);

	for (i = 0; i < 2 * KPKEYS_BLOCK_PAGES; i++)
		KUNIT_ASSERT_TRUE(test, get_table(tables, GFP_PGTABLE_KERNEL,
						  0));
	list_for_each_entry(other, &tables->list, pt_list)
		found += other == seen;
	KUNIT_EXPECT_LE(test, found, 1);
	put_tables(tables);
	audit(test);
}

/* A forged order in struct page would free neighbouring tables. */
static void forged_order_is_refused(struct kunit *test)
{
	long before = events(KPKEYS_POOL_BAD_FREES);
	struct ptdesc *pt;
	struct page *page;

	skip_unless_protected(test);

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 1);
	KUNIT_ASSERT_NOT_NULL(test, pt);
	page = ptdesc_page(pt);
	folio_set_order(page_folio(page), 2);
	kunit_warning_suppress(test) {
		pagetable_free(pt);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	folio_set_order(page_folio(page), 1);
	KUNIT_EXPECT_EQ(test, events(KPKEYS_POOL_BAD_FREES), before + 1);
	KUNIT_EXPECT_TRUE(test, in_use(pt));
	pagetable_free(pt);
	KUNIT_EXPECT_FALSE(test, in_use(pt));
	audit(test);
}

/* Data that selects the next page table must be protected. */
static void pool_protects_itself(struct kunit *test)
{
	struct ptdesc *pt;
	unsigned int i;

	skip_unless_protected(test);

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, pt);
	EXPECT_PROTECTED(test, pool->state);
	EXPECT_PROTECTED(test, pool->state->nodes);
	EXPECT_PROTECTED(test, pool->state->magazines);
	EXPECT_PROTECTED(test, pool->directory);
	EXPECT_PROTECTED(test, region_of(pt, &i));
	EXPECT_PROTECTED(test, pool->state->spare);
	pagetable_free(pt);
}

/* === Exhaustion ========================================================= */

static void atomic_allocation_only_takes(struct kunit *test)
{
	struct tables *tables;
	unsigned int flags;
	long added;
	int tries;

	skip_unless_protected(test);

	added = events(KPKEYS_POOL_BLOCKS_ADDED) +
		events(KPKEYS_POOL_SMALL_ADDED);
	tables = exhaust(test);
	expect_no_table(test, tables, GFP_ATOMIC, 0);
	expect_no_table(test, tables, GFP_ATOMIC, 2);
	KUNIT_EXPECT_EQ(test, events(KPKEYS_POOL_BLOCKS_ADDED) +
			      events(KPKEYS_POOL_SMALL_ADDED), added);
	/* Ordinary allocations must not use the reserve. */
	KUNIT_EXPECT_EQ(test, pool->state->nr_reserve, KPKEYS_POOL_RESERVE);

	/* vmalloc() forbids sleeping only through the PF_MEMALLOC scope. */
	preempt_disable();
	flags = memalloc_noreclaim_save();
	expect_no_table(test, tables, GFP_KERNEL, 0);
	memalloc_noreclaim_restore(flags);
	preempt_enable();

	allow_refills(NULL);
	for (tries = 0; tries < 500; tries++) {
		if (get_table(tables, GFP_ATOMIC, 0))
			break;
		msleep(20);
	}
	KUNIT_EXPECT_LT(test, tries, 500);
	put_tables(tables);
	audit(test);
}

static void sleeping_allocation_grows_the_pool(struct kunit *test)
{
	long blocks = events(KPKEYS_POOL_BLOCKS_ADDED);
	struct tables *tables;

	skip_unless_protected(test);

	tables = exhaust(test);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_KERNEL, 0));
	KUNIT_EXPECT_GE(test, events(KPKEYS_POOL_BLOCKS_ADDED), blocks + 1);
	put_tables(tables);
	audit(test);
}

static unsigned int two_at_once(const struct kpkeys_pool_node *node)
{
	return 2;
}

static void blocks_are_added_together(struct kunit *test)
{
	long blocks = events(KPKEYS_POOL_BLOCKS_ADDED);
	struct tables *tables;

	skip_unless_protected(test);
	if (KPKEYS_BLOCK_ORDER != KPKEYS_PROTECTED_ORDER)
		kunit_skip(test, "blocks are added one by one");

	tables = exhaust(test);
	kunit_activate_static_stub(test, kpkeys_blocks_at_once, two_at_once);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_KERNEL, 0));
	kunit_deactivate_static_stub(test, kpkeys_blocks_at_once);
	KUNIT_EXPECT_GE(test, events(KPKEYS_POOL_BLOCKS_ADDED), blocks + 2);
	put_tables(tables);
	audit(test);
}

/* Blocks to be added together; a process maps a page of the second. */
static struct {
	struct page *blocks[2];
	unsigned int nr;
	unsigned long addr;
	pte_t *ptep;
} together;

static struct page *second_is_mapped(int nid, gfp_t gfp, unsigned int order)
{
	struct page *block = alloc_pages_node(nid, gfp, order);

	if (!block || order != KPKEYS_BLOCK_ORDER || together.nr == 2)
		return block;
	together.blocks[together.nr] = block;
	if (++together.nr == 2)
		set_pte_at(current->mm, together.addr, together.ptep,
			   mk_pte(block + 1, PAGE_READONLY));
	return block;
}

static void mapped_block_stays_out(struct kunit *test)
{
	long refused = events(KPKEYS_POOL_REFUSED);
	struct tables *tables;
	unsigned int i;

	skip_unless_protected(test);
	if (KPKEYS_BLOCK_ORDER != KPKEYS_PROTECTED_ORDER)
		kunit_skip(test, "blocks are added one by one");

	memset(&together, 0, sizeof(together));
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	together.addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
				      MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, together.addr, 0);
	KUNIT_ASSERT_EQ(test, apply_to_page_range(current->mm, together.addr, PAGE_SIZE,
						  leave_entry, NULL), 0);
	together.ptep = pte_offset_kernel(pmd_off(current->mm, together.addr),
					  together.addr);

	tables = exhaust(test);
	kunit_activate_static_stub(test, kpkeys_blocks_at_once, two_at_once);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, second_is_mapped);
	kpkeys_expect_violation(true);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_KERNEL, 0));
	kpkeys_expect_violation(false);
	kunit_deactivate_static_stub(test, kpkeys_pool_get_pages);
	kunit_deactivate_static_stub(test, kpkeys_blocks_at_once);
	KUNIT_ASSERT_EQ(test, together.nr, 2);
	ptep_get_and_clear(current->mm, together.addr, together.ptep);

	KUNIT_EXPECT_TRUE(test, kpkeys_pool_owns(pool, together.blocks[0]));
	KUNIT_EXPECT_FALSE(test, kpkeys_pool_owns(pool, together.blocks[1]));
	KUNIT_EXPECT_EQ(test, events(KPKEYS_POOL_REFUSED), refused + 1);
	/* It was left to the process. */
	for (i = 0; i < KPKEYS_BLOCK_PAGES; i++)
		if (!kpkeys_pool_owns(pool, together.blocks[1] + i))
			__free_page(together.blocks[1] + i);
	put_tables(tables);
	audit(test);
}

static struct page *no_blocks(int nid, gfp_t gfp, unsigned int order)
{
	return order < KPKEYS_BLOCK_ORDER ? alloc_pages_node(nid, gfp, order) :
					    NULL;
}

static void small_blocks_are_used(struct kunit *test)
{
	long small = events(KPKEYS_POOL_SMALL_ADDED);
	struct tables *tables, *more;
	unsigned int order;
	struct ptdesc *pt;

	skip_unless_protected(test);

	tables = exhaust(test);
	more = new_tables(test);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_blocks);
	for (order = 0; order <= KPKEYS_MAX_ORDER; order++) {
		KUNIT_ASSERT_TRUE(test, get_table(more, GFP_KERNEL, order));
		pt = list_first_entry(&more->list, struct ptdesc, pt_list);
		EXPECT_PROTECTED(test, ptdesc_address(pt));
	}
	kunit_deactivate_static_stub(test, kpkeys_pool_get_pages);
	KUNIT_EXPECT_GT(test, events(KPKEYS_POOL_SMALL_ADDED), small);
	KUNIT_EXPECT_GT(test, audit(test).small, 0);

	put_tables(more);
	put_tables(tables);
	expect_small_given_back(test);
}

static struct page *no_rows(int nid, gfp_t gfp, unsigned int order)
{
	return order ? NULL : alloc_pages_node(nid, gfp, 0);
}

/* Fragmented memory: each page of the pool comes alone, and goes alone. */
static void single_pages_are_used(struct kunit *test)
{
	long small = events(KPKEYS_POOL_SMALL_ADDED);
	struct tables *tables, *more;
	struct ptdesc *pt;
	int i;

	skip_unless_protected(test);

	tables = exhaust(test);
	more = new_tables(test);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_rows);
	for (i = 0; i < 2 * KPKEYS_SMALL_PAGES; i++) {
		KUNIT_ASSERT_TRUE(test, get_table(more, GFP_KERNEL, 0));
		pt = list_first_entry(&more->list, struct ptdesc, pt_list);
		EXPECT_PROTECTED(test, ptdesc_address(pt));
	}
	KUNIT_EXPECT_FALSE(test, get_table(more, GFP_KERNEL, 1));
	kunit_deactivate_static_stub(test, kpkeys_pool_get_pages);
	KUNIT_EXPECT_GE(test, events(KPKEYS_POOL_SMALL_ADDED),
			small + 2 * KPKEYS_SMALL_PAGES);
	audit(test);

	put_tables(more);
	put_tables(tables);
	expect_small_given_back(test);
}

static struct page *no_memory(int nid, gfp_t gfp, unsigned int order)
{
	return NULL;
}

static void allocation_fails_without_memory(struct kunit *test)
{
	long failed = events(KPKEYS_POOL_FAILED_ALLOCS);
	struct tables *tables;

	skip_unless_protected(test);

	tables = exhaust(test);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_memory);
	expect_no_table(test, tables, GFP_KERNEL, 0);
	expect_no_table(test, tables, GFP_KERNEL, 1);
	kunit_deactivate_static_stub(test, kpkeys_pool_get_pages);
	KUNIT_EXPECT_GE(test, events(KPKEYS_POOL_FAILED_ALLOCS), failed + 2);
	put_tables(tables);
	audit(test);
}

/* === Splitting the linear map =========================================== */

static struct tables *split_tables;
static unsigned int split_got;

/* Simulate a split that needs more tables than there are levels. */
static int split_and_set(unsigned long addr, int numpages, int pkey)
{
	split_got = 0;
	while (split_got < KPKEYS_POOL_RESERVE + 3 &&
	       get_table(split_tables, GFP_KERNEL, 0))
		split_got++;
	return arch_set_memory_pkey(addr, numpages, pkey);
}

static void splits_take_from_the_reserve(struct kunit *test)
{
	long splits = events(KPKEYS_POOL_SPLITS);
	struct tables *tables;

	skip_unless_protected(test);

	tables = exhaust(test);
	split_tables = new_tables(test);
	kunit_activate_static_stub(test, set_memory_pkey, split_and_set);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_KERNEL, 0));
	kunit_deactivate_static_stub(test, set_memory_pkey);

	/* The whole reserve was used, without recursion, and is full again. */
	KUNIT_EXPECT_EQ(test, split_got, KPKEYS_POOL_RESERVE);
	KUNIT_EXPECT_EQ(test, events(KPKEYS_POOL_SPLITS),
			splits + KPKEYS_POOL_RESERVE);
	KUNIT_EXPECT_EQ(test, pool->state->nr_reserve, KPKEYS_POOL_RESERVE);

	put_tables(split_tables);
	put_tables(tables);
	audit(test);
}

/* Replenish the reserve when no block is added. */
static void giving_back_replenishes_the_reserve(struct kunit *test)
{
	long returned = events(KPKEYS_POOL_BLOCKS_RETURNED);
	struct tables *tables = new_tables(test);
	struct tables *kept = new_tables(test);

	skip_unless_protected(test);

	split_tables = new_tables(test);
	settle(test, 0);
	grow_by_blocks(test, tables, 3);
	/* The block of this page stays, and can replenish the reserve. */
	KUNIT_ASSERT_TRUE(test, get_table(kept, GFP_PGTABLE_KERNEL, 0));
	put_tables(tables);

	split_got = 0;
	kunit_activate_static_stub(test, set_memory_pkey, split_and_set);
	kpkeys_pool_trim(pool, 0);
	kunit_deactivate_static_stub(test, set_memory_pkey);

	KUNIT_EXPECT_GT(test, events(KPKEYS_POOL_BLOCKS_RETURNED), returned);
	KUNIT_EXPECT_EQ(test, split_got, KPKEYS_POOL_RESERVE);
	KUNIT_EXPECT_EQ(test, pool->state->nr_reserve, KPKEYS_POOL_RESERVE);

	put_tables(split_tables);
	put_tables(kept);
	audit(test);
}

static unsigned int first_reserve;

static int note_reserve(unsigned long addr, int numpages, int pkey)
{
	if (first_reserve == UINT_MAX)
		first_reserve = pool->state->nr_reserve;
	return arch_set_memory_pkey(addr, numpages, pkey);
}

struct taken_reserve {
	struct page *page[KPKEYS_POOL_MAX_RESERVE];
	unsigned int nr;
};

static void take_reserve(struct taken_reserve *taken)
{
	guard(mutex)(&pool->sync->grow);
	for (taken->nr = 0; pool->state->nr_reserve; taken->nr++)
		taken->page[taken->nr] = kpkeys_pool_take_reserve(pool, KPKEYS_KIND_KERNEL,
								  false);
	first_reserve = UINT_MAX;
}

static void put_reserve(struct taken_reserve *taken)
{
	struct kpkeys_region *region;
	unsigned int i;

	while (taken->nr--) {
		region = kpkeys_region_find(pool, page_to_pfn(taken->page[taken->nr]), &i);
		kpkeys_pool_put(pool, region, i, 0);
	}
}

/* All pages were in use when splits took from the reserve last. */
static void reserve_is_filled_before_giving_back(struct kunit *test)
{
	struct tables *tables = new_tables(test);
	struct taken_reserve taken;
	struct tables *rest;

	skip_unless_protected(test);

	grow_by_blocks(test, tables, 3);
	rest = exhaust(test);
	take_reserve(&taken);
	put_tables(rest);
	put_tables(tables);

	kunit_activate_static_stub(test, set_memory_pkey, note_reserve);
	kpkeys_pool_trim(pool, 0);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_EQ(test, first_reserve, KPKEYS_POOL_RESERVE);

	put_reserve(&taken);
	audit(test);
}

/* The pages that are free by then cannot be a table of two. */
static void reserve_is_filled_before_growing(struct kunit *test)
{
	struct tables *tables, *single = new_tables(test);
	struct ptdesc *pt, *next;
	struct taken_reserve taken;

	skip_unless_protected(test);

	tables = exhaust(test);
	take_reserve(&taken);
	list_for_each_entry_safe(pt, next, &tables->list, pt_list) {
		if (page_to_pfn(ptdesc_page(pt)) % 2)
			list_move(&pt->pt_list, &single->list);
	}
	put_tables(single);

	kunit_activate_static_stub(test, set_memory_pkey, note_reserve);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_KERNEL, 1));
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_EQ(test, first_reserve, KPKEYS_POOL_RESERVE);

	put_reserve(&taken);
	put_tables(tables);
	audit(test);
}

/* === Failures of tagging ================================================ */

static int no_tagging(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT ? 0 : -ENOMEM;
}

static void failed_tagging_fails_the_allocation(struct kunit *test)
{
	struct mm_struct *mm = current->mm ? : &init_mm;
	unsigned long failures, attempts;
	struct tables *tables;
	struct sums before;

	skip_unless_protected(test);

	failures = kpkeys_stat_read(KPKEYS_STAT_TAG_FAILURES);
	tables = exhaust(test);
	before = audit(test);
	kunit_activate_static_stub(test, set_memory_pkey, no_tagging);
	KUNIT_EXPECT_NULL(test, pagetable_alloc(GFP_PGTABLE_KERNEL, 0));
	KUNIT_EXPECT_NULL(test, pagetable_alloc(GFP_PGTABLE_KERNEL, 1));
	KUNIT_EXPECT_NULL(test, pte_alloc_one_kernel(&init_mm));
	KUNIT_EXPECT_NULL(test, pte_alloc_one(mm));
	KUNIT_EXPECT_NULL(test, pmd_alloc_one(mm, 0));
	KUNIT_EXPECT_NULL(test, pud_alloc_one(mm, 0));
	KUNIT_EXPECT_NULL(test, pgd_alloc(mm));
	kunit_deactivate_static_stub(test, set_memory_pkey);

	/* Each attempt tried a block and a small block and freed both. */
	attempts = 6 + !__is_defined(__PAGETABLE_PUD_FOLDED);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_TAG_FAILURES),
			failures + 2 * attempts);
	KUNIT_EXPECT_EQ(test, audit(test).owned, before.owned);
	put_tables(tables);
}

static int no_setting(unsigned long addr, int numpages, int pkey)
{
	return -EBUSY;
}

/* An allocation fails as @stub makes it, and must not change the pool. */
static void fail_to_grow(struct kunit *test,
			 int (*stub)(unsigned long, int, int))
{
	struct tables *tables = exhaust(test);
	struct sums before = audit(test);

	kunit_activate_static_stub(test, set_memory_pkey, *stub);
	expect_no_table(test, tables, GFP_KERNEL, 0);
	kunit_deactivate_static_stub(test, set_memory_pkey);

	KUNIT_EXPECT_EQ(test, audit(test).owned, before.owned);
	put_tables(tables);
}

/* Nothing was tagged, so nothing must be untagged or counted. */
static void block_is_given_back_if_keys_cannot_be_set(struct kunit *test)
{
	unsigned long failures;

	skip_unless_protected(test);

	failures = kpkeys_stat_read(KPKEYS_STAT_TAG_FAILURES);
	fail_to_grow(test, no_setting);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_TAG_FAILURES),
			failures);
}

static int half_tagging(unsigned long addr, int numpages, int pkey)
{
	int err;

	if (pkey == KPKEYS_PKEY_DEFAULT)
		return arch_set_memory_pkey(addr, numpages, pkey);

	err = arch_set_memory_pkey(addr, numpages / 2, pkey);
	return err ? : -ENOMEM;
}

static void half_tagged_block_is_given_back(struct kunit *test)
{
	struct kpkeys_check_result res;

	skip_unless_protected(test);

	fail_to_grow(test, half_tagging);
	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_EQ(test, res.foreign, 0);
}

/* The reserve may lack tables to split the linear map for small blocks, too. */
static int half_tagging_for_good(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT || numpages != KPKEYS_BLOCK_PAGES ?
		-ENOMEM : half_tagging(addr, numpages, pkey);
}

/* Partly tagged memory must not go back to the page allocator. */
static void block_is_kept_if_tagging_cannot_be_undone(struct kunit *test)
{
	struct kpkeys_check_result res;
	struct tables *tables;
	struct sums before, after;

	skip_unless_protected(test);

	tables = exhaust(test);
	before = audit(test);
	kunit_activate_static_stub(test, set_memory_pkey,
				   half_tagging_for_good);
	expect_no_table(test, tables, GFP_KERNEL, 0);
	kunit_deactivate_static_stub(test, set_memory_pkey);

	after = audit(test);
	KUNIT_EXPECT_EQ(test, after.stuck, KPKEYS_BLOCK_PAGES +
					   KPKEYS_SMALL_PAGES);
	KUNIT_EXPECT_EQ(test, after.owned, before.owned + after.stuck);
	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_EQ(test, res.foreign, 0);

	/* Stuck pages are the first to be given back. */
	put_tables(tables);
	after = settle(test, 1);
	KUNIT_EXPECT_EQ(test, after.stuck, 0);
	KUNIT_EXPECT_LE(test, after.owned, before.owned);
	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_EQ(test, res.foreign, 0);
}

/* === Return to the page allocator ======================================= */

static struct kpkeys_region *empty_block(void)
{
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		struct kpkeys_pool_node *node = &pool->state->nodes[nid];

		guard(spinlock_irqsave)(kpkeys_pool_node_lock(pool, nid));
		if (!list_empty(&node->empty))
			return list_last_entry(&node->empty, struct kpkeys_region, list);
	}
	return NULL;
}

/* As if two CPUs had been in one critical section, with a forged lock. */
static void block_in_use_is_not_given_back(struct kunit *test)
{
	struct tables *tables = new_tables(test);
	struct kpkeys_region *region;
	struct sums before;
	int i;

	skip_unless_protected(test);

	keep_worker_off(test);
	grow_by_blocks(test, tables, 2);
	put_tables(tables);
	rcu_barrier();
	for_each_possible_cpu(i)
		kpkeys_pool_drain_cpu(pool, i);
	region = empty_block();
	KUNIT_ASSERT_NOT_NULL(test, region);
	before = audit(test);

	scoped_guard(kpkeys_hardened_pgtables)
		set_bit(0, region->in_use);
	kpkeys_expect_violation(true);
	kpkeys_pool_trim(pool, before.empty - 1);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_TRUE(test, test_bit(0, region->owned));
	KUNIT_EXPECT_EQ(test, bitmap_weight(region->stuck, KPKEYS_BLOCK_PAGES),
			KPKEYS_BLOCK_PAGES);
	scoped_guard(kpkeys_hardened_pgtables)
		clear_bit(0, region->in_use);

	settle(test, 1);
}

/* Hold a table in each of three blocks, of which the others were used as well. */
static void scatter(struct kunit *test, struct list_head *held)
{
	long added = events(KPKEYS_POOL_BLOCKS_ADDED);
	struct page *page, *next;
	unsigned int nr = 0;

	while (events(KPKEYS_POOL_BLOCKS_ADDED) < added + 3) {
		page = kpkeys_pool_alloc(pool, GFP_KERNEL_ACCOUNT, 0, KPKEYS_KIND_TABLE);
		if (!page || nr++ == 32 * KPKEYS_BLOCK_PAGES)
			break;
		list_add(&page->lru, held);
	}
	KUNIT_EXPECT_GE(test, events(KPKEYS_POOL_BLOCKS_ADDED), added + 3);
	nr = 0;
	list_for_each_entry_safe(page, next, held, lru) {
		if (nr++ % (KPKEYS_BLOCK_PAGES - 1)) {
			list_del(&page->lru);
			kpkeys_pool_free(pool, page);
		}
	}
}

/* A process that begins takes a table of each level: they keep no further block. */
static void next_tables_share_a_block(struct kunit *test)
{
	struct kpkeys_region *region, *first = NULL;
	struct page *page, *next;
	LIST_HEAD(held);
	unsigned int i;
	int level;

	skip_unless_protected(test);

	settle(test, 0);
	keep_worker_off(test);
	scatter(test, &held);
	kpkeys_pool_trim(pool, 0);
	for (level = 0; level <= PGTABLE_LEVEL_P4D; level++) {
		page = kpkeys_pool_alloc(pool, GFP_ATOMIC | __GFP_ACCOUNT, 0,
					 KPKEYS_KIND_TABLE + level);
		KUNIT_EXPECT_NOT_NULL(test, page);
		if (!page)
			continue;
		list_add(&page->lru, &held);
		region = kpkeys_region_find(pool, page_to_pfn(page), &i);
		KUNIT_EXPECT_FALSE(test, region->lasting);
		if (!first)
			first = region;
		KUNIT_EXPECT_PTR_EQ(test, region, first);
	}
	list_for_each_entry_safe(page, next, &held, lru)
		kpkeys_pool_free(pool, page);
	audit(test);
}

static void storm_leaves_nothing(struct kunit *test)
{
	struct tables *tables;
	struct sums before, after;
	int i;

	skip_unless_protected(test);

	before = settle(test, 1);
	tables = new_tables(test);
	for (i = 0; i < 5 * KPKEYS_BLOCK_PAGES; i++)
		KUNIT_ASSERT_TRUE(test, get_table(tables, GFP_PGTABLE_KERNEL,
						  0));
	/* Blocks of which other tests hold a table may have had room for all. */
	grow_by_blocks(test, tables, 2);
	audit(test);

	put_tables(tables);
	after = settle(test, 1);
	KUNIT_EXPECT_LE(test, after.blocks, before.blocks + 1);
	KUNIT_EXPECT_LE(test, after.empty, num_node_state(N_MEMORY));

	after = settle(test, 0);
	KUNIT_EXPECT_EQ(test, after.empty, 0);
}

/* The worker trims by itself when enough memory is idle. */
static void idle_blocks_go_by_themselves(struct kunit *test)
{
	struct tables *tables;
	struct sums before, after;
	int i;

	skip_unless_protected(test);

	before = settle(test, 1);
	tables = new_tables(test);
	for (i = 0; i < 6 * KPKEYS_BLOCK_PAGES; i++)
		KUNIT_ASSERT_TRUE(test, get_table(tables, GFP_PGTABLE_KERNEL,
						  0));
	put_tables(tables);
	for (i = 0; i < 200; i++) {
		after = audit(test);
		if (after.blocks <= before.blocks + 2)
			break;
		msleep(50);
	}
	KUNIT_EXPECT_LE(test, after.blocks, before.blocks + 2);
}

static long untagged_unflushed;

static int note_untagging(unsigned long addr, int numpages, int pkey)
{
	untagged_unflushed += pkey == KPKEYS_PKEY_DEFAULT;
	return arch_set_memory_pkey(addr, numpages, pkey);
}

static void note_flush_behind_untagging(void)
{
	untagged_unflushed = 0;
	note_flush();
}

/* Stale entries of TLBs must not lead to what is nobody's table any more. */
static void tlbs_are_flushed_before_giving_back(struct kunit *test)
{
	struct tables *tables;
	long returned;

	skip_unless_protected(test);

	settle(test, 0);
	keep_worker_off(test);
	tables = new_tables(test);
	grow_by_blocks(test, tables, 3);
	put_tables(tables);

	untagged_unflushed = 0;
	flushes = 0;
	returned = events(KPKEYS_POOL_BLOCKS_RETURNED);
	kunit_activate_static_stub(test, set_memory_pkey, note_untagging);
	kunit_activate_static_stub(test, kpkeys_pool_flush, note_flush_behind_untagging);
	kpkeys_pool_trim(pool, 0);
	kunit_deactivate_static_stub(test, kpkeys_pool_flush);
	kunit_deactivate_static_stub(test, set_memory_pkey);

	returned = events(KPKEYS_POOL_BLOCKS_RETURNED) - returned;
	KUNIT_EXPECT_GT(test, returned, 0);
	KUNIT_EXPECT_GE(test, flushes, returned);
	KUNIT_EXPECT_EQ(test, untagged_unflushed, 0);
}

static int no_untagging(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT ?
		-ENOMEM : arch_set_memory_pkey(addr, numpages, pkey);
}

static void block_is_kept_if_it_cannot_be_untagged(struct kunit *test)
{
	struct tables *tables = new_tables(test);
	struct sums before, after;

	skip_unless_protected(test);

	before = settle(test, 0);
	keep_worker_off(test);
	grow_by_blocks(test, tables, 3);
	put_tables(tables);

	kunit_activate_static_stub(test, set_memory_pkey, no_untagging);
	kpkeys_pool_trim(pool, 0);
	after = audit(test);
	KUNIT_EXPECT_GT(test, after.stuck, 0);
	kunit_deactivate_static_stub(test, set_memory_pkey);

	after = settle(test, 0);
	KUNIT_EXPECT_EQ(test, after.stuck, 0);
	KUNIT_EXPECT_LE(test, after.blocks, before.blocks);
}

/* A referenced page must not become a tail page. */
static void speculative_reference_to_a_tail(struct kunit *test)
{
	struct tables *tables = new_tables(test);
	struct ptdesc *pt, *again;
	struct page *tail;

	skip_unless_protected(test);

	/* The pages that are freed below are the only ones to be had. */
	keep_worker_off(test);
	while (tables->nr < 16 * KPKEYS_BLOCK_PAGES && get_table(tables, GFP_ATOMIC, 1))
		cond_resched();
	KUNIT_ASSERT_GT(test, tables->nr, 0);
	pt = list_first_entry(&tables->list, struct ptdesc, pt_list);
	list_del(&pt->pt_list);
	tables->nr--;

	tail = ptdesc_page(pt) + 1;
	pagetable_free(pt);
	get_page(tail);
	/* Others may free a pair of pages meanwhile. */
	again = pagetable_alloc(GFP_ATOMIC | __GFP_NOWARN, 1);
	KUNIT_EXPECT_PTR_NE(test, again, pt);
	if (again)
		pagetable_free(again);
	put_page(tail);
	KUNIT_EXPECT_TRUE(test, get_table(tables, GFP_ATOMIC, 1));
	audit(test);
}

/* A speculative reference is held while a page is freed. */
static void speculative_reference_does_not_free(struct kunit *test)
{
	struct ptdesc *pt;
	struct page *page;

	skip_unless_protected(test);

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, pt);
	page = ptdesc_page(pt);
	KUNIT_EXPECT_TRUE(test, get_page_unless_zero(page));
	pagetable_free(pt);
	put_page(page);
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
	KUNIT_EXPECT_TRUE(test, kpkeys_pool_owns(pool, page));
	EXPECT_PROTECTED(test, page_address(page));
	audit(test);
}

/* === Stress ============================================================= */

#define STRESS_TABLES	64

/* Each owner of a table writes a mark to each of its pages. */
static void mark_table(struct ptdesc *pt, unsigned int order, long mark)
{
	/* ptdesc_address() is a call that may be preempted: not when raised. */
	void *table = ptdesc_address(pt);
	unsigned int i;

	guard(kpkeys_hardened_pgtables)();
	for (i = 0; i < 1 << order; i++)
		*(long *)(table + i * PAGE_SIZE) = mark;
}

static bool has_mark(struct ptdesc *pt, long mark)
{
	unsigned int i;

	for (i = 0; i < 1 << compound_order(ptdesc_page(pt)); i++)
		if (*(long *)(ptdesc_address(pt) + i * PAGE_SIZE) != mark)
			return false;
	return true;
}

static int stress(void *data)
{
	struct ptdesc *pts[STRESS_TABLES] = { };
	long me = (long)current;
	unsigned long end = jiffies + HZ;
	unsigned long *errors = data;
	unsigned int i, r;

	while (time_before(jiffies, end)) {
		r = get_random_u32();
		i = r % STRESS_TABLES;
		if (pts[i]) {
			*errors += !has_mark(pts[i], me + i);
			pagetable_free(pts[i]);
			pts[i] = NULL;
		} else {
			gfp_t gfp = r & BIT(30) ? GFP_ATOMIC : GFP_KERNEL;
			unsigned int order = (r >> 24) % 3;

			pts[i] = pagetable_alloc(gfp | __GFP_ZERO |
						 __GFP_NOWARN, order);
			if (pts[i]) {
				*errors += !has_mark(pts[i], 0);
				mark_table(pts[i], order, me + i);
			}
		}
		if (r % 1000 == 0)
			kpkeys_pool_trim(pool, 0);
		cond_resched();
	}
	for (i = 0; i < STRESS_TABLES; i++)
		if (pts[i])
			pagetable_free(pts[i]);

	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* Returns the increase of pages in use. */
static long stress_all_cpus(struct kunit *test)
{
	struct task_struct *tasks[2 * 8] = { };
	unsigned long errors[ARRAY_SIZE(tasks)] = { };
	struct sums before, after;
	unsigned long splits;
	int i, nr;

	nr = min(2 * num_online_cpus(), ARRAY_SIZE(tasks));
	for (i = 0; i < nr; i++) {
		tasks[i] = kthread_create(stress, &errors[i], "kpkeys_stress");
		KUNIT_ASSERT_FALSE(test, IS_ERR(tasks[i]));
		kthread_bind(tasks[i], i % num_online_cpus());
	}

	before = settle(test, 0);
	splits = events(KPKEYS_POOL_SPLITS);
	for (i = 0; i < nr; i++)
		wake_up_process(tasks[i]);
	msleep(1100);
	for (i = 0; i < nr; i++) {
		kthread_stop(tasks[i]);
		KUNIT_EXPECT_EQ(test, errors[i], 0);
	}
	/* Small blocks split the linear map, which uses tables permanently. */
	splits = events(KPKEYS_POOL_SPLITS) - splits;

	after = settle(test, 0);
	KUNIT_EXPECT_EQ(test, after.stuck, 0);
	KUNIT_EXPECT_LE(test, after.blocks, before.blocks + 1);
	KUNIT_EXPECT_EQ(test, pool->state->nr_reserve, KPKEYS_POOL_RESERVE);
	return after.in_use - before.in_use - splits;
}

static void nothing_is_lost_on_many_cpus(struct kunit *test)
{
	long lost = 1;
	int try;

	skip_unless_protected(test);

	/* Others also allocate tables, for stacks say, but not each time. */
	for (try = 0; try < 4 && lost > 0; try++)
		lost = stress_all_cpus(test);
	KUNIT_EXPECT_LE(test, lost, 0);
}

static struct kunit_case pool_cases[] = {
	KUNIT_CASE(pages_are_as_asked_for),
	KUNIT_CASE(pages_are_cleared_again),
	KUNIT_CASE(descriptors_are_reset),
	KUNIT_CASE(only_a_page_in_use_becomes_data),
	KUNIT_CASE(region_that_drains_is_not_used),
	KUNIT_CASE(lasting_pages_share_a_block),
	KUNIT_CASE(fullest_block_is_used_first),
	KUNIT_CASE(level_changes_after_a_flush_only),
	KUNIT_CASE(table_of_a_flush_is_not_clean),
	KUNIT_CASE(page_of_another_level_is_refused),
	KUNIT_CASE(levels_are_said),
	KUNIT_CASE(too_large_an_order_fails),
	KUNIT_CASE(double_free_is_noticed),
	KUNIT_CASE(forged_order_is_refused),
	KUNIT_CASE(pool_protects_itself),
	KUNIT_CASE(atomic_allocation_only_takes),
	KUNIT_CASE(sleeping_allocation_grows_the_pool),
	KUNIT_CASE(blocks_are_added_together),
	KUNIT_CASE(mapped_block_stays_out),
	KUNIT_CASE(small_blocks_are_used),
	KUNIT_CASE(single_pages_are_used),
	KUNIT_CASE(allocation_fails_without_memory),
	KUNIT_CASE(splits_take_from_the_reserve),
	KUNIT_CASE(giving_back_replenishes_the_reserve),
	KUNIT_CASE(reserve_is_filled_before_giving_back),
	KUNIT_CASE(reserve_is_filled_before_growing),
	KUNIT_CASE(failed_tagging_fails_the_allocation),
	KUNIT_CASE(block_is_given_back_if_keys_cannot_be_set),
	KUNIT_CASE(half_tagged_block_is_given_back),
	KUNIT_CASE(block_is_kept_if_tagging_cannot_be_undone),
	KUNIT_CASE(next_tables_share_a_block),
	KUNIT_CASE(storm_leaves_nothing),
	KUNIT_CASE_SLOW(idle_blocks_go_by_themselves),
	KUNIT_CASE(tlbs_are_flushed_before_giving_back),
	KUNIT_CASE(block_is_kept_if_it_cannot_be_untagged),
	KUNIT_CASE(block_in_use_is_not_given_back),
	KUNIT_CASE(speculative_reference_does_not_free),
	KUNIT_CASE(speculative_reference_to_a_tail),
	KUNIT_CASE_SLOW(nothing_is_lost_on_many_cpus),
	{}
};

static struct kunit_suite pool_suite = {
	.name = "kpkeys_pool",
	.test_cases = pool_cases,
};

kunit_test_suite(pool_suite);
