// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of page tables of guests, without a guest. */
#include <linux/gfp.h>
#include <linux/kpkeys_guests.h>
#include <linux/mm.h>

#include "../pool.h"
#include "test.h"

#define FILLED	0x8000000000000000ULL

static u64 *new_table(struct kunit *test)
{
	u64 *table = kpkeys_guest_table_alloc(GFP_KERNEL_ACCOUNT);

	KUNIT_ASSERT_NOT_NULL(test, table);
	kpkeys_guest_table_fill(table, FILLED);
	return table;
}

static void entries_of_guests_are_written(struct kunit *test)
{
	u64 *table = new_table(test), *entry = &table[5], old;

	KUNIT_EXPECT_EQ(test, table[0], FILLED);
	KUNIT_EXPECT_EQ(test, table[PAGE_SIZE / sizeof(u64) - 1], FILLED);
	kpkeys_guest_write(entry, 7);
	KUNIT_EXPECT_EQ(test, *entry, 7);
	KUNIT_EXPECT_EQ(test, kpkeys_guest_xchg(entry, 15), 7);
	KUNIT_EXPECT_EQ(test, kpkeys_guest_clear_bits(entry, 5), 15);
	KUNIT_EXPECT_EQ(test, *entry, 10);
	old = 9;
	KUNIT_EXPECT_FALSE(test, kpkeys_guest_try_cmpxchg(entry, &old, 1));
	KUNIT_EXPECT_EQ(test, old, 10);
	KUNIT_EXPECT_TRUE(test, kpkeys_guest_try_cmpxchg(entry, &old, 2));
	KUNIT_EXPECT_EQ(test, kpkeys_guest_cmpxchg(entry, 1, 3), 2);
	KUNIT_EXPECT_EQ(test, *entry, 2);
	KUNIT_EXPECT_EQ(test, kpkeys_guest_cmpxchg(entry, 2, 3), 2);
	KUNIT_EXPECT_EQ(test, *entry, 3);
	kpkeys_guest_write_release(entry, 4);
	KUNIT_EXPECT_EQ(test, *entry, 4);
	KUNIT_EXPECT_EQ(test, table[4], FILLED);
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_guest_table_free(table);
}

/* As arm64 has them, whose topmost tables are several pages. */
static void large_roots_are_written(struct kunit *test)
{
	u64 *root;

	skip_unless_protected(test);
	root = kpkeys_guest_root_alloc(GFP_KERNEL_ACCOUNT | __GFP_ZERO, 2 * PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, root);
	root += PAGE_SIZE / sizeof(u64);
	kpkeys_guest_write(root, 1);
	KUNIT_EXPECT_EQ(test, *root, 1);
	KUNIT_EXPECT_EQ(test, probe_write(root), -EFAULT);
	kpkeys_guest_table_free(root - PAGE_SIZE / sizeof(u64));
}

static void tables_of_guests_are_protected(struct kunit *test)
{
	u64 *table = new_table(test), value = 1;

	KUNIT_EXPECT_EQ(test, !!kpkeys_test_write(table, &value, sizeof(value)),
			protected_boot());
	KUNIT_EXPECT_EQ(test, table[0], protected_boot() ? FILLED : 1);
	kpkeys_guest_table_free(table);
}

/* Each way to write, to what is no table of a guest. */
static void try_to_write(struct kunit *test, u64 *entry)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	u64 was = *entry, old = was;

	kpkeys_expect_violation(true);
	kpkeys_guest_write(entry, was + 1);
	KUNIT_EXPECT_EQ(test, kpkeys_guest_xchg(entry, was + 1), 0);
	KUNIT_EXPECT_EQ(test, kpkeys_guest_clear_bits(entry, ~0ULL), 0);
	KUNIT_EXPECT_FALSE(test, kpkeys_guest_try_cmpxchg(entry, &old, was + 1));
	KUNIT_EXPECT_NE(test, kpkeys_guest_cmpxchg(entry, was, was + 1), was);
	kpkeys_guest_write_release(entry, was + 1);
	kpkeys_guest_table_fill(PTR_ALIGN_DOWN(entry, PAGE_SIZE), was + 1);
	kpkeys_expect_violation(false);

	KUNIT_EXPECT_EQ(test, *entry, was);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 7);
	EXPECT_LEVEL_DEFAULT(test);
}

static void other_tables_are_not_written(struct kunit *test)
{
	struct page *page;

	skip_unless_protected(test);
	page = kpkeys_pgtable_alloc(GFP_KERNEL | __GFP_ZERO, 0, PGTABLE_LEVEL_PTE);
	KUNIT_ASSERT_NOT_NULL(test, page);
	try_to_write(test, page_address(page));
	kpkeys_pgtable_free(page);

	page = kpkeys_pgtable_alloc(GFP_KERNEL | __GFP_ZERO, 0, KPKEYS_ANY_LEVEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	try_to_write(test, page_address(page));
	kpkeys_pgtable_free(page);
}

static void ordinary_memory_is_not_written(struct kunit *test)
{
	u64 *page, local = 0;

	skip_unless_protected(test);
	page = (u64 *)get_zeroed_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	try_to_write(test, page);
	free_page((unsigned long)page);
	/* Not in the linear map. */
	if (IS_ENABLED(CONFIG_VMAP_STACK))
		try_to_write(test, &local);
}

static void freed_tables_are_not_written(struct kunit *test)
{
	u64 *table;

	skip_unless_protected(test);
	table = new_table(test);
	kpkeys_guest_table_free(table);
	try_to_write(test, table);
}

static struct kunit_case guests_test_cases[] = {
	KUNIT_CASE(entries_of_guests_are_written),
	KUNIT_CASE(large_roots_are_written),
	KUNIT_CASE(tables_of_guests_are_protected),
	KUNIT_CASE(other_tables_are_not_written),
	KUNIT_CASE(ordinary_memory_is_not_written),
	KUNIT_CASE(freed_tables_are_not_written),
	{ }
};

static struct kunit_suite guests_test_suite = {
	.name = "kpkeys_guests",
	.test_cases = guests_test_cases,
};

kunit_test_suite(guests_test_suite);
