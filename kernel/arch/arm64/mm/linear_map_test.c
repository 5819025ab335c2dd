// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: the page tables of the linear map, and their creation. */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>

#include <asm/fixmap.h>
#include <asm/linear_map_stats.h>
#include <asm/memory.h>

static int find_pud(pud_t *entry, unsigned long addr, unsigned long next,
		    struct mm_walk *walk)
{
	pteval_t *leaf = walk->private;

	if (pud_leaf(pudp_get(entry)))
		*leaf = pud_val(pudp_get(entry));
	return 0;
}

static int find_pmd(pmd_t *entry, unsigned long addr, unsigned long next,
		    struct mm_walk *walk)
{
	pteval_t *leaf = walk->private;

	if (pmd_leaf(pmdp_get(entry)))
		*leaf = pmd_val(pmdp_get(entry));
	return 0;
}

static int find_pte(pte_t *entry, unsigned long addr, unsigned long next,
		    struct mm_walk *walk)
{
	pteval_t *leaf = walk->private;

	*leaf = pte_val(__ptep_get(entry));
	return 0;
}

static const struct mm_walk_ops find_ops = {
	.pud_entry = find_pud,
	.pmd_entry = find_pmd,
	.pte_entry = find_pte,
};

/* The leaf entry of an address, valid or not. */
static pteval_t linear_map_leaf_of(const void *page)
{
	unsigned long addr = (unsigned long)page;
	pteval_t leaf = 0;

	walk_kernel_page_table_range_lockless(addr, addr + PAGE_SIZE, &find_ops,
					      NULL, &leaf);
	return leaf;
}

/* Tables of the linear map, counted once per level. */
struct tables {
	struct kunit *test;
	unsigned long seen;
	const void *last[4];
};

static void see_table(struct tables *tables, int level, const void *entry)
{
	const void *table = PTR_ALIGN_DOWN(entry, PAGE_SIZE);
	struct kunit *test = tables->test;
	phys_addr_t phys;
	pteval_t leaf;

	if (table == tables->last[level])
		return;
	tables->last[level] = table;

	/* Entries of a folded level are those of the root. */
	if (table == swapper_pg_dir)
		return;

	tables->seen++;
	phys = __pa(table);
	leaf = linear_map_leaf_of(table);
	KUNIT_EXPECT_TRUE_MSG(test, pte_valid(__pte(leaf)) && !(leaf & PTE_RDONLY),
			      "table at %pa of level %d cannot be written", &phys, level);
	KUNIT_EXPECT_TRUE_MSG(test, PageReserved(virt_to_page(table)) ||
			      PageTable(virt_to_page(table)),
			      "table at %pa of level %d is free memory", &phys, level);
}

static int see_p4d(p4d_t *entry, unsigned long addr, unsigned long next,
		   struct mm_walk *walk)
{
	see_table(walk->private, 0, entry);
	return 0;
}

static int see_pud(pud_t *entry, unsigned long addr, unsigned long next,
		   struct mm_walk *walk)
{
	see_table(walk->private, 1, entry);
	return 0;
}

static int see_pmd(pmd_t *entry, unsigned long addr, unsigned long next,
		   struct mm_walk *walk)
{
	see_table(walk->private, 2, entry);
	return 0;
}

static int see_pte(pte_t *entry, unsigned long addr, unsigned long next,
		   struct mm_walk *walk)
{
	see_table(walk->private, 3, entry);
	return 0;
}

static const struct mm_walk_ops see_ops = {
	.p4d_entry = see_p4d,
	.pud_entry = see_pud,
	.pmd_entry = see_pmd,
	.pte_entry = see_pte,
};

static void tables_are_in_the_linear_map(struct kunit *test)
{
	struct tables tables = { .test = test };

	walk_kernel_page_table_range_lockless(_PAGE_OFFSET(vabits_actual),
					      PAGE_END, &see_ops, NULL, &tables);
	KUNIT_EXPECT_GE(test, tables.seen, linear_map_stats.tables);
}

static void no_slot_is_left_behind(struct kunit *test)
{
	enum fixed_addresses slot;

	for (slot = FIX_PTE; slot <= FIX_PGD; slot++) {
		void *page = (void *)__fix_to_virt(slot);

		KUNIT_EXPECT_FALSE(test,
				   pte_valid(__pte(linear_map_leaf_of(page))));
	}
}

/* Neither during creation nor since. */
static void fixmap_was_not_used(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, linear_map_stats.tables, 0);
	KUNIT_EXPECT_EQ(test, linear_map_stats.fixmap_set, 0);
	KUNIT_EXPECT_EQ(test, linear_map_stats.fixmap_cleared, 0);
}

static struct kunit_case linear_map_cases[] = {
	KUNIT_CASE(tables_are_in_the_linear_map),
	KUNIT_CASE(no_slot_is_left_behind),
	KUNIT_CASE(fixmap_was_not_used),
	{ }
};

static struct kunit_suite linear_map_suite = {
	.name = "linear_map",
	.test_cases = linear_map_cases,
};

kunit_test_suite(linear_map_suite);
