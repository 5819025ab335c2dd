// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of __init code, on a page of their own. */
#include <kunit/static_stub.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kpkeys_mappings.h>
#include <linux/mm.h>
#include <linux/swap.h>

#include "../pool.h"
#include "test.h"

static int no_untagging(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT ?
		-ENOMEM : arch_set_memory_pkey(addr, numpages, pkey);
}

static bool __init may_map(struct page *page)
{
	bool may;

	kpkeys_expect_violation(true);
	may = kpkeys_may_map(page_to_pfn(page), 1, true);
	kpkeys_expect_violation(false);
	return may;
}

/* The error path for a table from before the pool that cannot be tagged. */
static void __init early_tables_are_untagged(struct kunit *test)
{
	unsigned long failures;
	struct page *page;
	void *addr;

	skip_unless_protected(test);

	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = page_address(page);
	KUNIT_EXPECT_EQ(test, kpkeys_tag_page(page, 0), 0);
	KUNIT_EXPECT_TRUE(test, kpkeys_page_is_ours(page));
	KUNIT_EXPECT_EQ(test, may_map(page), !IS_ENABLED(CONFIG_KPKEYS_CHECK_MAPPINGS));
	EXPECT_PROTECTED(test, addr);

	/* A page that stays tagged must stay marked. */
	failures = kpkeys_stat_read(KPKEYS_STAT_UNTAG_FAILURES);
	kunit_activate_static_stub(test, set_memory_pkey, no_untagging);
	KUNIT_EXPECT_EQ(test, kpkeys_untag_page(page, 0), -ENOMEM);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_UNTAG_FAILURES),
			failures + 1);
	KUNIT_EXPECT_TRUE(test, kpkeys_page_is_ours(page));
	EXPECT_PROTECTED(test, addr);

	KUNIT_EXPECT_EQ(test, kpkeys_untag_page(page, 0), 0);
	KUNIT_EXPECT_FALSE(test, kpkeys_page_is_ours(page));
	KUNIT_EXPECT_TRUE(test, may_map(page));
	/* A page that stayed tagged must not be freed. */
	KUNIT_ASSERT_EQ(test, probe_write(addr), 0);
	__free_page(page);
}

/* Each block needs a descriptor, for which the pool has memory only so far. */
static void __init early_tables_in_many_blocks_are_noted(struct kunit *test)
{
	/* Whole blocks: of what is left of one, others would take pages for good. */
	unsigned long enough = nr_free_pages() / 2;
	struct page *blocks[64];
	unsigned int nr;

	skip_unless_protected(test);

	for (nr = 0; nr < ARRAY_SIZE(blocks) && nr_free_pages() > enough; nr++) {
		blocks[nr] = alloc_pages(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN,
					 KPKEYS_BLOCK_ORDER);
		if (!blocks[nr])
			break;
		KUNIT_EXPECT_EQ(test, kpkeys_tag_page(blocks[nr], 0), 0);
		KUNIT_EXPECT_TRUE(test, kpkeys_pool_protects(&kpkeys_pgtables_pool,
							     page_to_pfn(blocks[nr]), 1));
	}
	KUNIT_EXPECT_GT(test, nr, 0);

	while (nr--) {
		KUNIT_ASSERT_EQ(test, kpkeys_untag_page(blocks[nr], 0), 0);
		__free_pages(blocks[nr], KPKEYS_BLOCK_ORDER);
	}
}

static struct kunit_case __refdata init_cases[] = {
	KUNIT_CASE(early_tables_are_untagged),
	KUNIT_CASE(early_tables_in_many_blocks_are_noted),
	{}
};

static struct kunit_suite init_suite = {
	.name = "kpkeys_init",
	.test_cases = init_cases,
};

kunit_test_init_section_suites(&init_suite);
