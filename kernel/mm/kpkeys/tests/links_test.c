// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of links: entries of an address space that no process uses are
 * made to point to pages that must not become page tables.
 */
#include <linux/gfp.h>
#include <linux/kpkeys_links.h>
#include <linux/kpkeys_roots.h>
#include <linux/mm.h>
#include <linux/pgalloc.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include <asm/tlb.h>

#include "../pool.h"
#include "test.h"

/* Two entries of one PMD table. */
#define FIRST	ALIGN(256UL << 20, PUD_SIZE)
#define SECOND	(FIRST + PMD_SIZE)

struct links {
	struct mm_struct *mm;
	pmd_t *first, *second;
	pgtable_t table;	/* @first points to it */
};

static pmd_t *entry_at(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d = p4d_alloc(mm, pgd, addr);
	pud_t *pud = p4d ? pud_alloc(mm, p4d, addr) : NULL;

	return pud ? pmd_alloc(mm, pud, addr) : NULL;
}

static int links_test_init(struct kunit *test)
{
	struct links *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	test->priv = l;
	l->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, l->mm);
	l->first = entry_at(l->mm, FIRST);
	l->second = entry_at(l->mm, SECOND);
	KUNIT_ASSERT_NOT_NULL(test, l->first);
	KUNIT_ASSERT_NOT_NULL(test, l->second);
	l->table = pte_alloc_one(l->mm);
	KUNIT_ASSERT_NOT_NULL(test, l->table);
	mm_inc_nr_ptes(l->mm);
	pmd_populate(l->mm, l->first, l->table);
	return 0;
}

static void links_test_exit(struct kunit *test)
{
	struct links *l = test->priv;
	struct mmu_gather tlb;

	if (!l || !l->mm)
		return;
	tlb_gather_mmu(&tlb, l->mm);
	free_pgd_range(&tlb, FIRST, FIRST + PUD_SIZE, 0, 0);
	tlb_finish_mmu(&tlb);
	mmput(l->mm);
}

/* Whatever the second entry points to must be one's own, and not be used. */
static void try_to_link(struct kunit *test, struct page *page)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct links *l = test->priv;

	kpkeys_expect_violation(true);
	pmd_populate(l->mm, l->second, page);
	kpkeys_expect_violation(false);

	KUNIT_EXPECT_EQ(test, !pmd_none(*l->second), !protected_boot());
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + protected_boot());
	EXPECT_LEVEL_DEFAULT(test);
	pmd_clear(l->second);
}

/* === What becomes a page table ========================================== */

static void table_is_linked_once(struct kunit *test)
{
	struct links *l = test->priv;

	try_to_link(test, l->table);
	KUNIT_EXPECT_FALSE(test, pmd_none(*l->first));
}

static void ordinary_page_is_not_linked(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	KUNIT_ASSERT_NOT_NULL(test, page);
	try_to_link(test, page);
	__free_page(page);
}

static void table_of_another_level_is_not_linked(struct kunit *test)
{
	struct links *l = test->priv;
	pmd_t *upper = pmd_alloc_one(l->mm, FIRST);

	KUNIT_ASSERT_NOT_NULL(test, upper);
	try_to_link(test, virt_to_page(upper));
	pmd_free(l->mm, upper);
}

static void freed_table_is_not_linked(struct kunit *test)
{
	struct links *l = test->priv;
	pgtable_t table = pte_alloc_one(l->mm);

	KUNIT_ASSERT_NOT_NULL(test, table);
	pte_free(l->mm, table);
	try_to_link(test, table);
}

static void moved_table_is_linked_again(struct kunit *test)
{
	struct links *l = test->priv;

	pmd_clear(l->first);
	pmd_populate(l->mm, l->second, l->table);
	KUNIT_EXPECT_FALSE(test, pmd_none(*l->second));
	KUNIT_EXPECT_EQ(test, kpkeys_is_linked(l->table), protected_boot());
}

/* === What is freed ====================================================== */

static void expect_not_freed(struct kunit *test, struct page *table)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct kpkeys_region *region;
	unsigned int i;

	kpkeys_expect_violation(true);
	kpkeys_pgtable_free(table);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 1);
	region = kpkeys_region_find(&kpkeys_pgtables_pool, page_to_pfn(table), &i);
	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_EXPECT_TRUE(test, test_bit(i, region->in_use));
	KUNIT_EXPECT_TRUE(test, kpkeys_is_linked(table));
}

#ifdef CONFIG_HAVE_ARCH_HUGE_VMAP
/* A mapping of vmalloc that is as large as they reach takes their place. */
static void tables_below_a_huge_mapping_are_freed(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	unsigned long addr = ALIGN(VMALLOC_START, PUD_SIZE);
	pud_t *upper;
	pmd_t *middle;
	pte_t *lower;

	if (mm_pud_folded(&init_mm))
		kunit_skip(test, "needs four levels");
	upper = pud_alloc_one(&init_mm, addr);
	middle = pmd_alloc_one(&init_mm, addr);
	lower = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, upper);
	KUNIT_ASSERT_NOT_NULL(test, middle);
	KUNIT_ASSERT_NOT_NULL(test, lower);

	pmd_populate_kernel(&init_mm, middle, lower);
	pud_populate(&init_mm, upper, middle);
	KUNIT_EXPECT_EQ(test, pud_free_pmd_page(upper, addr), 1);
	KUNIT_EXPECT_TRUE(test, pud_none(*upper));
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);
	pud_free(&init_mm, upper);
}
#endif

static void linked_table_is_not_freed(struct kunit *test)
{
	struct links *l = test->priv;

	skip_unless_protected(test);
	expect_not_freed(test, l->table);
}

static void linked_table_of_the_kernel_is_not_freed(struct kunit *test)
{
	struct vm_struct *area;
	unsigned long addr = map_nothing(test, &area);

	if (protected_boot())
		expect_not_freed(test, pmd_page(*pmd_off_k(addr)));
	free_vm_area(area);
	skip_unless_protected(test);
}

/* The count of those who use an mm may have been forged. */
static void root_in_use_is_not_freed(struct kunit *test)
{
	struct links *l = test->priv;
	pgd_t *root = l->mm->pgd;

	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, kpkeys_root_release(root), !protected_boot());
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_PTR_EQ(test, kpkeys_root(l->mm), root);
}

/* The function that frees the root of an address space asks that. */
static void freed_root_in_use_is_kept(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct links *l = test->priv;
	pgd_t *root = l->mm->pgd;

	skip_unless_protected(test);

	kpkeys_expect_violation(true);
	__pgd_free(l->mm, root);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 1);
	KUNIT_EXPECT_PTR_EQ(test, kpkeys_root(l->mm), root);
}

/* The memory of a freed mm becomes that of another, with a root of its own. */
static void kept_root_belongs_to_no_other(struct kunit *test)
{
	struct links *l = test->priv;
	pgd_t *root = l->mm->pgd, *own;
	struct ptdesc *pt;

	skip_unless_protected(test);
	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, arch_kpkeys_pgd_order(l->mm));
	KUNIT_ASSERT_NOT_NULL(test, pt);
	own = ptdesc_address(pt);

	kpkeys_expect_violation(true);
	KUNIT_EXPECT_FALSE(test, kpkeys_root_release(root));
	KUNIT_ASSERT_EQ(test, kpkeys_root_claim(l->mm, own), 0);
	/* mm->pgd is the kept root, as forged. */
	KUNIT_EXPECT_PTR_EQ(test, kpkeys_root(l->mm), own);
	kpkeys_expect_violation(false);

	KUNIT_ASSERT_EQ(test, kpkeys_root_claim(l->mm, root), 0);
	WRITE_ONCE(l->mm->pgd, root);
	KUNIT_EXPECT_TRUE(test, kpkeys_root_release(own));
	pagetable_free(pt);
}

static struct kunit_case links_test_cases[] = {
	KUNIT_CASE(table_is_linked_once),
	KUNIT_CASE(ordinary_page_is_not_linked),
	KUNIT_CASE(table_of_another_level_is_not_linked),
	KUNIT_CASE(freed_table_is_not_linked),
	KUNIT_CASE(moved_table_is_linked_again),
#ifdef CONFIG_HAVE_ARCH_HUGE_VMAP
	KUNIT_CASE(tables_below_a_huge_mapping_are_freed),
#endif
	KUNIT_CASE(linked_table_is_not_freed),
	KUNIT_CASE(linked_table_of_the_kernel_is_not_freed),
	KUNIT_CASE(root_in_use_is_not_freed),
	KUNIT_CASE(freed_root_in_use_is_kept),
	KUNIT_CASE(kept_root_belongs_to_no_other),
	{}
};

static struct kunit_suite links_test_suite = {
	.name = "kpkeys_links",
	.init = links_test_init,
	.exit = links_test_exit,
	.test_cases = links_test_cases,
};

kunit_test_suite(links_test_suite);
