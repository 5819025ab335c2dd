// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of hardened page tables.
 *
 * A missing guard shows here: without the one in set_pud(), the case "set_pud"
 * of writers_write ends in a violation.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include <asm/pgalloc.h>
#include <asm/sections.h>
#include <asm/tlbflush.h>

#include "../pool.h"
#include "test.h"

/* === Tables of every level and kind ===================================== */

/* Read-only kernel data is not yet read-only while tests run. */
static void expect_table_protected(struct kunit *test, void *entry,
				   const char *level)
{
	if (!arch_kpkeys_read_only(entry))
		expect_protected(test, entry, level);
}

static void expect_tables_protected(struct kunit *test, struct mm_struct *mm,
				    unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t *pte;

	expect_table_protected(test, pgd, "pgd");
	KUNIT_ASSERT_FALSE(test, pgd_none(*pgd) || pgd_leaf(*pgd));
	p4d = p4d_offset(pgd, addr);
	expect_table_protected(test, p4d, "p4d");
	KUNIT_ASSERT_FALSE(test, p4d_none(*p4d) || p4d_leaf(*p4d));
	pud = pud_offset(p4d, addr);
	expect_table_protected(test, pud, "pud");
	KUNIT_ASSERT_FALSE(test, pud_none(*pud));
	if (pud_leaf(*pud))
		return;
	pmd = pmd_offset(pud, addr);
	EXPECT_PROTECTED(test, pmd);
	KUNIT_ASSERT_FALSE(test, pmd_none(*pmd));
	if (pmd_leaf(*pmd))
		return;
	pte = pte_offset_kernel(pmd, addr);
	EXPECT_PROTECTED(test, pte);
}

static unsigned long map_user_page(struct kunit *test)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (int __user *)addr), 0);
	return addr;
}

static void user_tables_are_protected(struct kunit *test)
{
	unsigned long addr = map_user_page(test);

	expect_tables_protected(test, current->mm, addr);
}

static void kernel_tables_are_protected(struct kunit *test)
{
	unsigned long *p = vmalloc(PAGE_SIZE);

	KUNIT_ASSERT_NOT_NULL(test, p);
	WRITE_ONCE(*p, 1);
	expect_tables_protected(test, &init_mm, (unsigned long)p);
	vfree(p);
}

static void linear_map_tables_are_protected(struct kunit *test)
{
	unsigned long addr = (unsigned long)page_address(ZERO_PAGE(0));

	if (IS_ENABLED(CONFIG_UML))
		kunit_skip(test, "the linear map of UML is the host's");

	expect_tables_protected(test, &init_mm, addr);
}

static void root_table_is_protected(struct kunit *test)
{
	int nr = PTRS_PER_PGD << arch_kpkeys_pgd_order(&init_mm);

	if (arch_kpkeys_read_only(init_mm.pgd))
		kunit_skip(test, "it is among the constants of the kernel");

	/* Check first and last entry: the table must not share its pages. */
	EXPECT_PROTECTED(test, &init_mm.pgd[0]);
	EXPECT_PROTECTED(test, &init_mm.pgd[nr - 1]);
	/* Neighbouring pages may be tables as well. */
	if (!kpkeys_page_is_ours(virt_to_page(init_mm.pgd - 1)))
		EXPECT_WRITABLE(test, (unsigned long *)init_mm.pgd - 1);
	if (!kpkeys_page_is_ours(virt_to_page(init_mm.pgd + nr)))
		EXPECT_WRITABLE(test, &init_mm.pgd[nr]);
}

/* === Page table helpers ================================================= */

static struct ptdesc *alloc_table(struct kunit *test, unsigned int order)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, pt);
	return pt;
}

/* Each writer changes the first entry of an unused table. */
static void write_set_pte(void *table)
{
	set_pte(table, pfn_pte(1, PAGE_KERNEL));
}

static void write_pte_clear(void *table)
{
	pte_clear(&init_mm, 0, (pte_t *)table);
}

static void write_ptep_get_and_clear(void *table)
{
	ptep_get_and_clear(&init_mm, 0, table);
}

#ifdef ptep_try_set
static void write_ptep_try_set(void *table)
{
	ptep_try_set(table, pfn_pte(1, PAGE_KERNEL));
}
#endif

static void write_set_pmd(void *table)
{
	set_pmd((pmd_t *)table, __pmd(PAGE_SIZE));
}

static void write_pmd_clear(void *table)
{
	pmd_clear((pmd_t *)table);
}

static void write_set_pud(void *table)
{
	set_pud((pud_t *)table, __pud(PAGE_SIZE));
}

/* With the level below folded, clearing an entry does nothing. */
#ifndef __PAGETABLE_PMD_FOLDED
static void write_pud_clear(void *table)
{
	pud_clear((pud_t *)table);
}
#endif

static void write_set_p4d(void *table)
{
	set_p4d((p4d_t *)table, __p4d(PAGE_SIZE));
}

#ifndef __PAGETABLE_PUD_FOLDED
static void write_p4d_clear(void *table)
{
	p4d_clear((p4d_t *)table);
}
#endif

#ifdef CONFIG_UML
/* UML also writes entries when it syncs page tables with the host. */
static void write_ptep_mkuptodate(void *table)
{
	ptep_mkuptodate(table);
}

static void write_pmd_mkuptodate(void *table)
{
	pmd_mkuptodate(*(pmd_t *)table);
}

static void write_pud_mkuptodate(void *table)
{
	pud_mkuptodate(*(pud_t *)table);
}

static void write_p4d_mkuptodate(void *table)
{
	p4d_mkuptodate(*(p4d_t *)table);
}
#endif

static const struct writer {
	const char *name;
	void (*write)(void *table);
	bool clears;
} writers[] = {
	{ "set_pte",		write_set_pte },
	{ "pte_clear",		write_pte_clear,		true },
	{ "ptep_get_and_clear",	write_ptep_get_and_clear,	true },
#ifdef ptep_try_set
	{ "ptep_try_set",	write_ptep_try_set },
#endif
	{ "set_pmd",		write_set_pmd },
	{ "pmd_clear",		write_pmd_clear,		true },
	{ "set_pud",		write_set_pud },
#ifndef __PAGETABLE_PMD_FOLDED
	{ "pud_clear",		write_pud_clear,		true },
#endif
	{ "set_p4d",		write_set_p4d },
#ifndef __PAGETABLE_PUD_FOLDED
	{ "p4d_clear",		write_p4d_clear,		true },
#endif
#ifdef CONFIG_UML
	{ "ptep_mkuptodate",	write_ptep_mkuptodate,		true },
	{ "pmd_mkuptodate",	write_pmd_mkuptodate,		true },
	{ "pud_mkuptodate",	write_pud_mkuptodate,		true },
	{ "p4d_mkuptodate",	write_p4d_mkuptodate,		true },
#endif
};

static void writer_name(const struct writer *writer, char *desc)
{
	strscpy(desc, writer->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(writer, writers, writer_name);

static void writers_write(struct kunit *test)
{
	const struct writer *writer = test->param_value;
	/* Helpers of folded levels write beyond the first page. */
	struct ptdesc *pt = alloc_table(test, arch_kpkeys_pgd_order(NULL));
	unsigned long *entry = ptdesc_address(pt);
	unsigned long old, new;

	if (writer->clears)
		write_set_pte(entry);
	old = READ_ONCE(*entry);
	writer->write(entry);
	new = READ_ONCE(*entry);

	KUNIT_EXPECT_NE(test, old, new);
	EXPECT_LEVEL_DEFAULT(test);
	EXPECT_PROTECTED(test, entry);
	pagetable_free(pt);
}

/* The operations of mprotect(), fork() and reclaim, on a real entry. */
static void rmw_helpers_write(struct kunit *test)
{
	unsigned long addr = map_user_page(test);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	spinlock_t *ptl;	/* of the page table */
	pte_t *ptep;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	ptep = pte_offset_map_lock(mm, pmd_off(mm, addr), addr, &ptl);

	ptep_set_wrprotect(mm, addr, ptep);
	KUNIT_EXPECT_FALSE(test, pte_write(ptep_get(ptep)));
	EXPECT_LEVEL_DEFAULT(test);

	KUNIT_EXPECT_TRUE(test, ptep_test_and_clear_young(vma, addr, ptep));
	KUNIT_EXPECT_FALSE(test, pte_young(ptep_get(ptep)));
	EXPECT_LEVEL_DEFAULT(test);

	ptep_set_access_flags(vma, addr, ptep,
			      pte_mkyoung(pte_mkdirty(ptep_get(ptep))), 1);
	KUNIT_EXPECT_TRUE(test, pte_young(ptep_get(ptep)));
	EXPECT_LEVEL_DEFAULT(test);

	/* Only called in lazy MMU sections, which do not raise the level. */
	clear_young_dirty_ptes(vma, addr, ptep, 1, CYDP_CLEAR_YOUNG);
	KUNIT_EXPECT_FALSE(test, pte_young(ptep_get(ptep)));
	EXPECT_LEVEL_DEFAULT(test);

	set_pte_at(mm, addr, ptep,
		   pte_mkwrite(ptep_get_and_clear(mm, addr, ptep), vma));
	KUNIT_EXPECT_TRUE(test, pte_write(ptep_get(ptep)));
	EXPECT_LEVEL_DEFAULT(test);

	pte_unmap_unlock(ptep, ptl);
	flush_tlb_page(vma, addr);
	mmap_read_unlock(mm);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* The same for huge entries, in an unused table. */
static void huge_pmd_helpers_write(struct kunit *test)
{
	struct vm_area_struct vma = { .vm_mm = &init_mm };
	struct ptdesc *pt = alloc_table(test, 0);
	pmd_t *pmdp = ptdesc_address(pt);
	pmd_t pmd = pmd_mkyoung(pmd_mkhuge(pfn_pmd(0, PAGE_KERNEL)));

	set_pmd(pmdp, pmd);
	KUNIT_EXPECT_TRUE(test, pmdp_test_and_clear_young(&vma, 0, pmdp));
	KUNIT_EXPECT_FALSE(test, pmd_young(READ_ONCE(*pmdp)));
	EXPECT_LEVEL_DEFAULT(test);

	pmdp_set_wrprotect(&init_mm, 0, pmdp);
	KUNIT_EXPECT_FALSE(test, pmd_write(READ_ONCE(*pmdp)));
	EXPECT_LEVEL_DEFAULT(test);

#ifdef pmdp_establish
	pmdp_establish(&vma, 0, pmdp, pmd);
	KUNIT_EXPECT_TRUE(test, pmd_same(READ_ONCE(*pmdp), pmd));
	EXPECT_LEVEL_DEFAULT(test);
#endif

	pmdp_huge_get_and_clear(&init_mm, 0, pmdp);
	KUNIT_EXPECT_TRUE(test, pmd_none(READ_ONCE(*pmdp)));
	EXPECT_LEVEL_DEFAULT(test);
	pagetable_free(pt);
}

#ifdef CONFIG_HAVE_ARCH_TRANSPARENT_HUGEPAGE_PUD
static void huge_pud_helpers_write(struct kunit *test)
{
	struct vm_area_struct vma = { .vm_mm = &init_mm };
	struct ptdesc *pt = alloc_table(test, 0);
	pud_t *pudp = ptdesc_address(pt);
	pud_t pud = pud_mkyoung(pud_mkhuge(pfn_pud(0, PAGE_KERNEL)));

	set_pud(pudp, pud);
	KUNIT_EXPECT_TRUE(test, pudp_test_and_clear_young(&vma, 0, pudp));
	KUNIT_EXPECT_FALSE(test, pud_young(READ_ONCE(*pudp)));
	EXPECT_LEVEL_DEFAULT(test);

#ifdef CONFIG_X86
	pudp_establish(&vma, 0, pudp, pud);
	KUNIT_EXPECT_TRUE(test, pud_young(READ_ONCE(*pudp)));
	EXPECT_LEVEL_DEFAULT(test);
#endif

	pudp_huge_get_and_clear(&init_mm, 0, pudp);
	KUNIT_EXPECT_TRUE(test, pud_none(READ_ONCE(*pudp)));
	EXPECT_LEVEL_DEFAULT(test);
	pagetable_free(pt);
}
#endif
#endif /* CONFIG_TRANSPARENT_HUGEPAGE */

/* === Life of a table ==================================================== */

static void allocated_tables_are_protected(struct kunit *test)
{
	unsigned int order;

	for (order = 0; order < 3; order++) {
		struct ptdesc *pt = alloc_table(test, order);
		char *addr = ptdesc_address(pt);
		size_t size = PAGE_SIZE << order;

		EXPECT_PROTECTED(test, addr);
		EXPECT_PROTECTED(test, addr + size - sizeof(long));
		KUNIT_EXPECT_NULL(test, memchr_inv(addr, 0, size));

		pagetable_free(pt);
		/*
		 * The pool keeps the key; elsewhere the page is no longer ours.
		 */
		if (protected_boot())
			EXPECT_PROTECTED(test, addr);
	}
}

static void atomic_allocation_is_protected(struct kunit *test)
{
	struct ptdesc *pt;

	preempt_disable();
	pt = pagetable_alloc(GFP_ATOMIC | __GFP_ZERO, 0);
	preempt_enable();
	KUNIT_ASSERT_NOT_NULL(test, pt);
	EXPECT_PROTECTED(test, ptdesc_address(pt));
	pagetable_free(pt);
}

/* === The checker ======================================================== */

static void expect_check(struct kunit *test, unsigned long untagged,
			 unsigned long aliases, unsigned long foreign)
{
	struct kpkeys_check_result res;

	if (!protected_boot()) {
		KUNIT_EXPECT_EQ(test, kpkeys_check(&res, NULL), -EOPNOTSUPP);
		return;
	}
	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_GT(test, res.tables, 0);
	KUNIT_EXPECT_EQ(test, res.untagged, untagged);
	KUNIT_EXPECT_EQ(test, res.aliases, aliases);
	KUNIT_EXPECT_EQ(test, res.foreign, foreign);
}

static void checker_finds_nothing(struct kunit *test)
{
	map_user_page(test);
	expect_check(test, 0, 0, 0);
}

/* A table older than the pool, by its address in the linear map. */
static void *early_table(void)
{
	unsigned long addr = (unsigned long)page_address(ZERO_PAGE(0));
	void *table = init_mm.pgd;
	pud_t *pud;

	if (!arch_kpkeys_read_only(table))
		return lm_alias(table);
	pud = pud_offset(p4d_offset(pgd_offset_k(addr), addr), addr);
	/* With three levels this is still the topmost one. */
	table = arch_kpkeys_read_only(pud) ? (void *)pmd_offset(pud, addr) : pud;
	return PTR_ALIGN_DOWN(table, PAGE_SIZE);
}

/*
 * The kernel image has addresses of its own, except on UML, and there may be
 * more than one map of all memory.
 */
static unsigned int nr_other_mappings(unsigned long addr)
{
	bool image = (void *)lm_alias(_text) != _text &&
		     addr >= (unsigned long)lm_alias(_text) &&
		     addr < (unsigned long)lm_alias(_end);

	return image + arch_nr_linear_maps() - 1;
}

static void checker_finds_untagged_table(struct kunit *test)
{
	unsigned long addr = (unsigned long)early_table();

	skip_unless_protected(test);

	KUNIT_ASSERT_EQ(test, set_memory_pkey(addr, 1, KPKEYS_PKEY_DEFAULT), 0);
	expect_check(test, 1, nr_other_mappings(addr), 0);
	KUNIT_ASSERT_EQ(test, set_memory_pkey(addr, 1, KPKEYS_PKEY_PGTABLES),
			0);
	expect_check(test, 0, 0, 0);
}

static void checker_finds_foreign_page(struct kunit *test)
{
	unsigned long addr = __get_free_page(GFP_KERNEL);

	KUNIT_ASSERT_NE(test, addr, 0);
	if (protected_boot())
		KUNIT_EXPECT_EQ(test,
				set_memory_pkey(addr, 1, KPKEYS_PKEY_PGTABLES),
				0);
	expect_check(test, 0, 0, 1);
	KUNIT_ASSERT_EQ(test, set_memory_pkey(addr, 1, KPKEYS_PKEY_DEFAULT), 0);
	free_page(addr);
	expect_check(test, 0, 0, 0);
}

static int set_entry(pte_t *ptep, unsigned long addr, void *page)
{
	set_pte(ptep, mk_pte(page, PAGE_KERNEL));
	return 0;
}

/* Map a table, which vmap() refuses to do. */
static void *vmap_refused(struct page *page)
{
	struct vm_struct *area = get_vm_area(PAGE_SIZE, VM_MAP);

	if (!area || apply_to_page_range(&init_mm, (unsigned long)area->addr,
					 PAGE_SIZE, set_entry, page))
		return NULL;
	return area->addr;
}

static void checker_finds_alias(struct kunit *test)
{
	struct page *page;
	void *alias;
	pte_t *table;

	skip_unless_protected(test);

	table = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, table);
	page = virt_to_page(table);
	alias = vmap_refused(page);
	KUNIT_EXPECT_NOT_NULL(test, alias);
	expect_check(test, 0, 1, 0);
	vunmap(alias);
	pte_free_kernel(&init_mm, table);
	expect_check(test, 0, 0, 0);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static void change_unused_entry(pmd_t *pmd, pmd_t entry, unsigned long addr)
{
	set_pmd(pmd, __pmd(0));
	flush_tlb_kernel_range(addr, addr + PMD_SIZE);
	set_pmd(pmd, entry);
}

static void checker_finds_large_alias(struct kunit *test)
{
	struct vm_struct *area;
	unsigned long addr, pfn;
	pmd_t *pmd, small;
	pte_t *table;

	skip_unless_protected(test);

	table = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, table);
	pfn = ALIGN_DOWN(page_to_pfn(virt_to_page(table)), PTRS_PER_PTE);
	addr = map_nothing(test, &area);
	pmd = pmd_off_k(addr);
	small = *pmd;

	change_unused_entry(pmd, pmd_mkhuge(pfn_pmd(pfn, PAGE_KERNEL)), addr);
	expect_check(test, 0, 1, 0);
	change_unused_entry(pmd, small, addr);

	free_vm_area(area);
	pte_free_kernel(&init_mm, table);
	expect_check(test, 0, 0, 0);
}
#endif

static int note_root(pgd_t *pgd, unsigned long addr, unsigned long next,
		     struct mm_walk *walk)
{
	*(pgd_t **)walk->private = pgd;
	return 1;
}

/* An init_mm.pgd forged to the next entry leads to the same page. */
static void root_is_found_by_name(struct kunit *test)
{
	static const struct mm_walk_ops ops = { .pgd_entry = note_root };
	unsigned long addr = (unsigned long)test;
	pgd_t *root = init_mm.pgd, *found, *walked = NULL;

	WRITE_ONCE(init_mm.pgd, root + 1);
	found = pgd_offset_k(addr);
	walk_kernel_page_table_range_lockless(addr, addr + 1, &ops, NULL, &walked);
	WRITE_ONCE(init_mm.pgd, root);

	KUNIT_EXPECT_PTR_EQ(test, found, root + pgd_index(addr));
	KUNIT_EXPECT_PTR_EQ(test, walked, root + pgd_index(addr));
}

static struct kunit_case pgtables_cases[] = {
	KUNIT_CASE(user_tables_are_protected),
	KUNIT_CASE(kernel_tables_are_protected),
	KUNIT_CASE(linear_map_tables_are_protected),
	KUNIT_CASE(root_table_is_protected),
	KUNIT_CASE(root_is_found_by_name),
	KUNIT_CASE_PARAM(writers_write, writer_gen_params),
	KUNIT_CASE(rmw_helpers_write),
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	KUNIT_CASE(huge_pmd_helpers_write),
#ifdef CONFIG_HAVE_ARCH_TRANSPARENT_HUGEPAGE_PUD
	KUNIT_CASE(huge_pud_helpers_write),
#endif
#endif
	KUNIT_CASE(allocated_tables_are_protected),
	KUNIT_CASE(atomic_allocation_is_protected),
	KUNIT_CASE(checker_finds_nothing),
	KUNIT_CASE_SLOW(checker_finds_untagged_table),
	KUNIT_CASE_SLOW(checker_finds_foreign_page),
	KUNIT_CASE_SLOW(checker_finds_alias),
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	KUNIT_CASE_SLOW(checker_finds_large_alias),
#endif
	{}
};

static struct kunit_suite pgtables_suite = {
	.name = "kpkeys_pgtables",
	.test_cases = pgtables_cases,
};

kunit_test_suite(pgtables_suite);
