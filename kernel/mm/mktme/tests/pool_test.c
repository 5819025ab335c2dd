// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the pool of free pages under KeyIDs, on a machine that has
 * KeyIDs.
 */
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/vmstat.h>

#include <kunit/test.h>

#include "../../internal.h"
#include "../../page_alloc.h"
#include "../pool.h"

#define HUGE_ORDER	(PMD_SHIFT - PAGE_SHIFT)
#define GFP		GFP_HIGHUSER_MOVABLE
/* More pages than some caches can hold. */
#define MANY		6000

static unsigned int reserved[MKTME_MAX_KEYIDS], nr_reserved;
static unsigned int old_percent;
/* Saved at the beginning of a test. */
static unsigned long old_whole;

/* Value of a statistic, 0 without CONFIG_X86_MKTME_DEBUG. */
static unsigned long pool_test_counted(enum mktme_stat stat)
{
	unsigned long sum = 0;
#ifdef CONFIG_X86_MKTME_DEBUG
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(mktme_stats[stat], cpu);
#endif
	return sum;
}

/* No CPU must have flushed its whole cache since the test began. */
static void expect_short_batches(struct kunit *test)
{
#ifdef CONFIG_X86_MKTME_DEBUG
	KUNIT_EXPECT_EQ(test, old_whole, pool_test_counted(MKTME_STAT_WHOLE));
	KUNIT_EXPECT_LE(test, mktme_most_returned, POOL_GIVE_BACK);
#endif
}

static unsigned long pool_test_flushed(void)
{
	return pool_test_counted(MKTME_STAT_ALLOCATED) + pool_test_counted(MKTME_STAT_FREED);
}

static struct folio *from_pool(unsigned int keyid, unsigned int order, gfp_t gfp)
{
	return __mktme_pool_alloc(keyid, order, gfp, numa_node_id(), NULL);
}

static struct folio *new_folio(struct kunit *test, unsigned int keyid,
			       unsigned int order)
{
	struct folio *folio = folio_alloc(GFP | __GFP_THISNODE, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	return __mktme_alloc_folio(folio, keyid, 0);
}

/* Free @nr pages under @keyid. */
static void free_many(struct kunit *test, unsigned int keyid, unsigned long nr)
{
	struct folio *folio, *next;
	LIST_HEAD(folios);

	while (nr--) {
		folio = folio_alloc(GFP, 0);
		if (folio)
			list_add(&__mktme_alloc_folio(folio, keyid, 0)->lru, &folios);
	}
	list_for_each_entry_safe(folio, next, &folios, lru) {
		list_del(&folio->lru);
		folio_put(folio);
	}
}

/* Pages can only have KeyIDs that have keys. */
static int pool_suite_init(struct kunit_suite *suite)
{
	while (nr_reserved < mktme_nr_keyids()) {
		int keyid = mktme_reserve_keyid();

		if (keyid < 0)
			return keyid;
		reserved[nr_reserved++] = keyid;
	}
	return 0;
}

static void pool_suite_exit(struct kunit_suite *suite)
{
	while (nr_reserved)
		mktme_release_keyid(reserved[--nr_reserved]);
}

/* Pin the test: pages freed on one CPU are not found on another. */
static int pool_test_init(struct kunit *test)
{
	if (!mktme_nr_keyids())
		kunit_skip(test, "no KeyIDs");
	if (reserved[0] != 1)
		kunit_skip(test, "mktme_anon= has the first");
	if (!mktme_pool_percent)
		kunit_skip(test, "mktme_pool=off");
	mktme_pool_drain(NUMA_NO_NODE);
	old_percent = mktme_pool_percent;
	old_whole = pool_test_counted(MKTME_STAT_WHOLE);
#ifdef CONFIG_X86_MKTME_DEBUG
	mktme_most_returned = 0;
#endif
	migrate_disable();
	return 0;
}

static void pool_test_exit(struct kunit *test)
{
	if (reserved[0] != 1 || !mktme_pool_percent)
		return;
	migrate_enable();
	mktme_pool_percent = old_percent;
	mktme_pool_drain(NUMA_NO_NODE);
}

static void pages_come_back_without_a_flush(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, 0), *again;
	unsigned long before = pool_test_flushed();

	folio_put(folio);
	KUNIT_EXPECT_EQ(test, 1, mktme_pool_pages());
	again = from_pool(1, 0, GFP);
	KUNIT_EXPECT_PTR_EQ(test, folio, again);
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	KUNIT_EXPECT_EQ(test, before, pool_test_flushed());
	KUNIT_ASSERT_NOT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, 1, folio_keyid(again));
	KUNIT_EXPECT_EQ(test, 1, folio_ref_count(again));
	KUNIT_EXPECT_PTR_EQ(test, folio_address(again),
			    mktme_va(PFN_PHYS(folio_pfn(again)), 1));
	folio_put(again);
}

static void they_are_cleared_if_wanted(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, 0), *again;
	unsigned long before = pool_test_flushed();

	memset(folio_address(folio), 0x5a, PAGE_SIZE);
	folio_put(folio);
	again = from_pool(1, 0, GFP | __GFP_ZERO);
	KUNIT_ASSERT_PTR_EQ(test, folio, again);
	KUNIT_EXPECT_NULL(test, memchr_inv(folio_address(again), 0, PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, before, pool_test_flushed());
	folio_put(again);
}

/* A memory error comes while the pages are in the pool. */
static struct page *pool_with_an_error(struct kunit *test)
{
	struct folio *folio;
	struct page *page;

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "no memory errors");
	folio = new_folio(test, 1, HUGE_ORDER);
	page = folio_page(folio, 3);
	folio_put(folio);
	KUNIT_EXPECT_EQ(test, mktme_pool_pages(), HPAGE_PMD_NR);
	SetPageHWPoison(page);
	return page;
}

static void pages_with_errors_are_not_reused(struct kunit *test)
{
	struct page *page = pool_with_an_error(test);
	struct folio *folio;
	LIST_HEAD(folios);
	unsigned int nr;

	KUNIT_EXPECT_NULL(test, from_pool(1, HUGE_ORDER, GFP));
	for (nr = 0; mktme_pool_pages(); nr++) {
		folio = from_pool(1, 0, GFP);
		if (!folio)
			continue;
		KUNIT_EXPECT_PTR_NE(test, &folio->page, page);
		list_add(&folio->lru, &folios);
	}
	KUNIT_EXPECT_EQ(test, nr, HPAGE_PMD_NR);
	ClearPageHWPoison(page);
	mktme_free_pooled_pages(page, 0);
	free_prepared_pages(page, 0);
	while ((folio = list_first_entry_or_null(&folios, struct folio, lru))) {
		list_del(&folio->lru);
		folio_put(folio);
	}
}

static void pages_with_errors_are_not_returned(struct kunit *test)
{
	struct page *page = pool_with_an_error(test);

	mktme_pool_drain(NUMA_NO_NODE);
	KUNIT_EXPECT_EQ(test, mktme_pool_pages(), 0);
	drain_all_pages(NULL);
	KUNIT_EXPECT_FALSE(test, is_free_buddy_page(page));
	KUNIT_EXPECT_TRUE(test, is_free_buddy_page(page + 1));
	ClearPageHWPoison(page);
	free_prepared_pages(page, 0);
}

static void another_keyid_never_gets_them(struct kunit *test)
{
	unsigned int keyid;

	if (mktme_nr_keyids() < 2)
		kunit_skip(test, "one KeyID");
	free_many(test, 1, 2 * POOL_CPU_PAGES);
	folio_put(new_folio(test, 1, HUGE_ORDER));
	KUNIT_EXPECT_GE(test, mktme_pool_pages(), HPAGE_PMD_NR);
	for (keyid = 2; keyid <= mktme_nr_keyids(); keyid++) {
		KUNIT_EXPECT_NULL(test, from_pool(keyid, 0, GFP));
		KUNIT_EXPECT_NULL(test, from_pool(keyid, HUGE_ORDER, GFP));
	}
	/* Unmovable allocations must not get pages either. */
	KUNIT_EXPECT_NULL(test, from_pool(1, 0, GFP_KERNEL));
}

/* Exceed the limit; the pages in the pool stay reclaimable. */
static void the_limit_holds(struct kunit *test)
{
	int nid = numa_node_id();
	unsigned long limit, of_cpus = num_possible_cpus() * 2 * POOL_CPU_PAGES;

	mktme_pool_percent = 1;
	limit = mktme_pool_node_limit(nid);
	free_many(test, 1, 2 * limit + of_cpus);
	KUNIT_EXPECT_LE(test, mktme_pool_pages(), limit + of_cpus);
	KUNIT_EXPECT_GE(test, mktme_pool_pages() + 2 * POOL_CPU_PAGES, limit);
	KUNIT_EXPECT_GE(test, global_node_page_state(NR_KERNEL_MISC_RECLAIMABLE) +
			of_cpus, mktme_pool_pages());
	folio_put(new_folio(test, 1, HUGE_ORDER));
	KUNIT_EXPECT_LE(test, mktme_pool_pages(), limit + of_cpus);
}

/* Unused pages of one KeyID must give way to another. */
static void who_has_most_makes_room(struct kunit *test)
{
	unsigned long limit, nr = 0;
	struct folio *folio, *next;
	LIST_HEAD(folios);

	if (mktme_nr_keyids() < 2)
		kunit_skip(test, "one KeyID");
	mktme_pool_percent = 1;
	limit = mktme_pool_node_limit(numa_node_id());
	free_many(test, 1, 2 * limit);
	free_many(test, 2, 2 * limit);
	while ((folio = from_pool(2, 0, GFP))) {
		list_add(&folio->lru, &folios);
		nr++;
	}
	/* Both must have about the same share. */
	KUNIT_EXPECT_GE(test, nr + 2 * POOL_CPU_PAGES, limit / 2);
	KUNIT_EXPECT_LE(test, nr, limit / 2 + 4 * POOL_CPU_PAGES);
	list_for_each_entry_safe(folio, next, &folios, lru) {
		list_del(&folio->lru);
		folio_put(folio);
	}
}

static void draining_empties(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, 0);
	unsigned long before = pool_test_counted(MKTME_STAT_FREED);

	folio_get(folio);
	free_many(test, 1, 1000);
	folio_put(new_folio(test, 1, HUGE_ORDER));
	folio_put(folio);
	KUNIT_EXPECT_EQ(test, 1, folio_keyid(folio));
	folio_put(folio);
	KUNIT_EXPECT_GT(test, mktme_pool_pages(), HPAGE_PMD_NR);
	mktme_pool_drain(folio_nid(folio));
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	KUNIT_EXPECT_EQ(test, 0, folio_keyid(folio));
	if (IS_ENABLED(CONFIG_X86_MKTME_DEBUG))
		KUNIT_EXPECT_EQ(test, 1001 + HPAGE_PMD_NR,
				pool_test_counted(MKTME_STAT_FREED) - before);
}

static void a_keyid_can_be_drained(struct kunit *test)
{
	struct folio *folio;

	if (mktme_nr_keyids() < 2)
		kunit_skip(test, "one KeyID");
	free_many(test, 1, 1000);
	folio_put(new_folio(test, 1, HUGE_ORDER));
	folio_put(new_folio(test, 2, 0));
	mktme_pool_drain_keyid(1);
	KUNIT_EXPECT_EQ(test, 1, mktme_pool_pages());
	KUNIT_EXPECT_NULL(test, from_pool(1, 0, GFP));
	folio = from_pool(2, 0, GFP);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	folio_put(folio);
}

static void huge_pages_come_back(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, HUGE_ORDER), *again;
	unsigned long before = pool_test_flushed();

	folio_put(folio);
	KUNIT_EXPECT_EQ(test, HPAGE_PMD_NR, mktme_pool_pages());
	again = from_pool(1, HUGE_ORDER, GFP | __GFP_ZERO);
	KUNIT_ASSERT_PTR_EQ(test, folio, again);
	KUNIT_EXPECT_EQ(test, HUGE_ORDER, folio_order(again));
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	KUNIT_EXPECT_NULL(test, memchr_inv(folio_address(again), 0, PMD_SIZE));
	KUNIT_EXPECT_EQ(test, before, pool_test_flushed());
	folio_put(again);
}

static void huge_pages_are_split(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, HUGE_ORDER), *small;
	unsigned long before = pool_test_flushed(), pfn = folio_pfn(folio);
	unsigned int nr = 0;
	LIST_HEAD(folios);

	folio_put(folio);
	while ((small = from_pool(1, 0, GFP))) {
		KUNIT_EXPECT_TRUE(test, in_range(folio_pfn(small), pfn,
						 HPAGE_PMD_NR));
		KUNIT_EXPECT_FALSE(test, folio_test_large(small));
		list_add(&small->lru, &folios);
		nr++;
	}
	KUNIT_EXPECT_EQ(test, HPAGE_PMD_NR, nr);
	KUNIT_EXPECT_EQ(test, before, pool_test_flushed());
	list_for_each_entry_safe(small, folio, &folios, lru) {
		list_del(&small->lru);
		folio_put(small);
	}
}

static void shrinking_empties(struct kunit *test)
{
	unsigned int i;

	free_many(test, 1, 1000);
	folio_put(new_folio(test, 1, HUGE_ORDER));
	/* The shrinker defers less than half a batch once. */
	for (i = 0; i < 3; i++)
		drop_slab();
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
}

/* Reclaim takes a bounded number of pages. */
static void reclaim_is_bounded(struct kunit *test)
{
	unsigned long before;

	free_many(test, 1, MANY);
	before = mktme_pool_pages();
	KUNIT_EXPECT_GT(test, before, MANY / 2);
	/* As direct reclaim does after running the shrinker. */
	drain_all_pages(NULL);
	KUNIT_EXPECT_EQ(test, before, mktme_pool_pages());
	drop_slab();
	KUNIT_EXPECT_LT(test, mktme_pool_pages(), before);
	expect_short_batches(test);
}

/* Any process can trigger draining by dropping a key. */
static void draining_is_in_batches(struct kunit *test)
{
	unsigned long freed, nr;

	free_many(test, 1, MANY);
	folio_put(new_folio(test, 1, HUGE_ORDER));
	nr = mktme_pool_pages();
	KUNIT_EXPECT_GT(test, nr, MANY / 2);
	freed = pool_test_counted(MKTME_STAT_FREED);
	mktme_pool_drain_keyid(1);
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	if (IS_ENABLED(CONFIG_X86_MKTME_DEBUG))
		KUNIT_EXPECT_EQ(test, nr,
				pool_test_counted(MKTME_STAT_FREED) - freed);
	expect_short_batches(test);
}

static void interrupts_can_free(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, 0);

	local_irq_disable();
	folio_put(folio);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, 1, mktme_pool_pages());
}

/* As while memory goes offline. */
static void it_can_be_stopped(struct kunit *test)
{
	struct folio *folio = new_folio(test, 1, 0);

	folio_put(new_folio(test, 1, 0));
	KUNIT_EXPECT_EQ(test, 1, mktme_pool_pages());
	zone_pcp_disable(folio_zone(folio));
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	folio_put(folio);
	KUNIT_EXPECT_EQ(test, 0, mktme_pool_pages());
	zone_pcp_enable(folio_zone(folio));
	folio_put(new_folio(test, 1, 0));
	KUNIT_EXPECT_EQ(test, 1, mktme_pool_pages());
}

static struct kunit_case cases[] = {
	KUNIT_CASE(pages_come_back_without_a_flush),
	KUNIT_CASE(they_are_cleared_if_wanted),
	KUNIT_CASE(pages_with_errors_are_not_reused),
	KUNIT_CASE(pages_with_errors_are_not_returned),
	KUNIT_CASE(another_keyid_never_gets_them),
	KUNIT_CASE(the_limit_holds),
	KUNIT_CASE(who_has_most_makes_room),
	KUNIT_CASE(draining_empties),
	KUNIT_CASE(a_keyid_can_be_drained),
	KUNIT_CASE(huge_pages_come_back),
	KUNIT_CASE(huge_pages_are_split),
	KUNIT_CASE(shrinking_empties),
	KUNIT_CASE(reclaim_is_bounded),
	KUNIT_CASE(draining_is_in_batches),
	KUNIT_CASE(interrupts_can_free),
	KUNIT_CASE(it_can_be_stopped),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_pool",
	.suite_init = pool_suite_init,
	.suite_exit = pool_suite_exit,
	.init = pool_test_init,
	.exit = pool_test_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
