// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mappings: a page that a key protects is mapped once more, and
 * a page that a process maps is offered to the pool. Without protection, the
 * first succeeds.
 */
#include <kunit/visibility.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/kpkeys_batch.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_mappings.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pgtable.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <asm/pgalloc.h>

#include "../../internal.h"
#include "../pool.h"
#include "test.h"

/* Does vmap() map the page? A refusal has to be counted. */
static bool can_map(struct kunit *test, struct page *page)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	bool mapped;
	void *alias;

	kpkeys_expect_violation(true);
	alias = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	kpkeys_expect_violation(false);
	KUNIT_ASSERT_NOT_NULL(test, alias);
	mapped = vmalloc_to_page(alias) == page;
	vunmap(alias);

	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + !mapped);
	return mapped;
}

/* === New mappings ======================================================= */

static void tables_are_not_mapped_again(struct kunit *test)
{
	pte_t *table = pte_alloc_one_kernel(&init_mm);

	KUNIT_ASSERT_NOT_NULL(test, table);
	KUNIT_EXPECT_EQ(test, can_map(test, virt_to_page(table)), !protected_boot());
	pte_free_kernel(&init_mm, table);
}

static void roots_are_not_mapped_again(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, can_map(test, virt_to_page(lm_alias(swapper_pg_dir))),
			!protected_boot() || arch_kpkeys_read_only(swapper_pg_dir));
}

static void ledgers_are_not_mapped_again(struct kunit *test)
{
	phys_addr_t phys = per_cpu_ptr_to_phys(per_cpu_ptr(&kpkeys_ledger, 0));

	KUNIT_EXPECT_EQ(test, can_map(test, phys_to_page(phys)), !protected_boot());
}

static void data_of_the_pool_is_not_mapped_again(struct kunit *test)
{
	skip_unless_protected(test);
	KUNIT_EXPECT_FALSE(test, can_map(test, virt_to_page(kpkeys_pgtables_pool.state)));
}

static void other_pages_are_mapped(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_TRUE(test, can_map(test, page));
	__free_page(page);
}

static int set_entry(pte_t *ptep, unsigned long addr, void *page)
{
	set_pte_at(&init_mm, addr, ptep, mk_pte(page, PAGE_KERNEL));
	return 0;
}

/* um passes entries of the kernel to the host when it is told to flush, or later. */
static void entries_are_seen_without_a_flush(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);
	struct vm_struct *area;
	unsigned long addr;

	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = map_nothing(test, &area);
	memset(page_address(page), 0x5a, PAGE_SIZE);

	KUNIT_EXPECT_EQ(test, apply_to_page_range(&init_mm, addr, PAGE_SIZE, set_entry, page), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv((void *)addr, 0x5a, PAGE_SIZE));
	free_vm_area(area);
	__free_page(page);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* A table anywhere in the range of a large entry. */
static void large_entries_over_a_table_are_refused(struct kunit *test)
{
	pte_t *table = pte_alloc_one_kernel(&init_mm);
	pmd_t entry = __pmd(0), large;
	unsigned long pfn;

	KUNIT_ASSERT_NOT_NULL(test, table);
	pfn = ALIGN_DOWN(page_to_pfn(virt_to_page(table)), PTRS_PER_PTE);
	large = pmd_mkhuge(pfn_pmd(pfn, PAGE_KERNEL));

	kpkeys_expect_violation(true);
	set_pmd_at(&init_mm, 0, &entry, large);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, pmd_none(entry), protected_boot());
	pte_free_kernel(&init_mm, table);
}
#endif

#ifdef CONFIG_HAVE_ARCH_TRANSPARENT_HUGEPAGE_PUD
static void huge_entries_over_a_table_are_refused(struct kunit *test)
{
	pte_t *table = pte_alloc_one_kernel(&init_mm);
	pud_t entry = __pud(0), huge;
	unsigned long pfn;

	KUNIT_ASSERT_NOT_NULL(test, table);
	pfn = ALIGN_DOWN(page_to_pfn(virt_to_page(table)), PUD_SIZE >> PAGE_SHIFT);
	huge = pud_mkhuge(pfn_pud(pfn, PAGE_KERNEL));

	kpkeys_expect_violation(true);
	set_pud_at(&init_mm, 0, &entry, huge);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, pud_none(entry), protected_boot());
	pte_free_kernel(&init_mm, table);
}
#endif

/* === Pages for the pool ================================================= */

/* Offer a page; while it is offered, nobody can map it. */
static bool may_enter(struct kunit *test, struct page *page)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	bool may;

	guard(mutex)(&pool->sync->grow);
	kpkeys_expect_violation(true);
	kpkeys_mappings_offer(pool, page_to_pfn(page), 1);
	may = kpkeys_mappings_search(pool);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_TRUE(test, kpkeys_mappings_hold_still());
	kpkeys_mappings_settle(pool);
	KUNIT_EXPECT_FALSE(test, kpkeys_mappings_hold_still());
	return may;
}

static void offer(struct kunit *test, struct page *page)
{
	kpkeys_mappings_offer(&kpkeys_pgtables_pool, page_to_pfn(page), 1);
	KUNIT_EXPECT_TRUE(test, kpkeys_mappings_search(&kpkeys_pgtables_pool));
}

static void mapped_pages_do_not_enter(struct kunit *test)
{
	unsigned long addr;
	struct page *page;

	skip_unless_protected(test);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(addr, 1, FOLL_WRITE, &page), 1);

	KUNIT_EXPECT_FALSE(test, may_enter(test, page));
	KUNIT_ASSERT_EQ(test, vm_munmap(addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, may_enter(test, page));
	put_page(page);
}

/* Pages for the pool's own data. */
struct spares {
	void *first;
	unsigned int nr;
};

static struct spares hide_spares(const struct kpkeys_pool *pool)
{
	struct spares hidden = { pool->state->spare, pool->state->nr_spare };

	CLASS(kpkeys_pool_level, level)(pool);
	pool->state->spare = NULL;
	pool->state->nr_spare = 0;
	return hidden;
}

static void show_spares(const struct kpkeys_pool *pool, struct spares hidden)
{
	void **last = &pool->state->spare;

	while (*last)
		last = *last;
	CLASS(kpkeys_pool_level, level)(pool);
	*last = hidden.first;
	pool->state->nr_spare += hidden.nr;
}

/* Pages of credentials and secrets are searched for as well, once the pool can note them. */
static void mapped_pages_get_no_other_key(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct page *page = alloc_page(GFP_KERNEL);
	struct spares spares;
	unsigned long addr;
	spinlock_t *lock; /* of the table */
	pte_t *entry;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	/* Without a charge, as pages that are allocated for it have none. */
	entry = get_locked_pte(current->mm, addr, &lock);
	KUNIT_ASSERT_NOT_NULL(test, entry);
	set_pte_at(current->mm, addr, entry, mk_pte(page, PAGE_READONLY));
	pte_unmap_unlock(entry, lock);

	if (protected_boot()) {
		get_page(page);
		scoped_guard(mutex, &pool->sync->grow) {
			spares = hide_spares(pool);
			kpkeys_expect_violation(true);
			err = kpkeys_block_add_other(pool, page, 0, KPKEYS_PKEY_PGTABLES,
						     KPKEYS_PKEY_PGTABLES);
			kpkeys_expect_violation(false);
			KUNIT_EXPECT_EQ(test, pool->state->nr_spare, KPKEYS_MIN_SPARE);
			show_spares(pool, spares);
		}
		KUNIT_EXPECT_EQ(test, err, -EADDRINUSE);
		EXPECT_WRITABLE(test, page_address(page));
	}

	entry = get_locked_pte(current->mm, addr, &lock);
	ptep_get_and_clear(current->mm, addr, entry);
	pte_unmap_unlock(entry, lock);
	__free_page(page);
	skip_unless_protected(test);
}

static void offered_pages_are_not_mapped(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct page *page;

	skip_unless_protected(test);
	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);

	/* vmap() may need a table, and the pool that mutex, but only at first. */
	KUNIT_EXPECT_TRUE(test, can_map(test, page));
	scoped_guard(mutex, &pool->sync->grow) {
		offer(test, page);
		KUNIT_EXPECT_FALSE(test, can_map(test, page));
		kpkeys_mappings_settle(pool);
	}
	KUNIT_EXPECT_TRUE(test, can_map(test, page));
	__free_page(page);
}

static int by_number(const void *a, const void *b)
{
	const unsigned long *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

/* One search serves several blocks, but not what lies between them. */
static void blocks_are_offered_together(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct page *blocks[3];
	unsigned long pfns[3];
	int i;

	skip_unless_protected(test);
	for (i = 0; i < ARRAY_SIZE(blocks); i++) {
		blocks[i] = alloc_pages(GFP_KERNEL, KPKEYS_BLOCK_ORDER);
		KUNIT_ASSERT_NOT_NULL(test, blocks[i]);
		pfns[i] = page_to_pfn(blocks[i]);
	}
	sort(pfns, ARRAY_SIZE(pfns), sizeof(pfns[0]), by_number, NULL);

	scoped_guard(mutex, &pool->sync->grow) {
		for (i = 2; i >= 0; i -= 2)
			kpkeys_mappings_offer(pool, pfns[i], KPKEYS_BLOCK_PAGES);
		KUNIT_EXPECT_TRUE(test, kpkeys_mappings_search(pool));
		KUNIT_EXPECT_TRUE(test, kpkeys_mappings_offered(pool, pfns[0]));
		KUNIT_EXPECT_FALSE(test, kpkeys_mappings_offered(pool, pfns[1]));
		KUNIT_EXPECT_TRUE(test, kpkeys_mappings_offered(pool, pfns[2]));
		kpkeys_mappings_settle(pool);
		for (i = 0; i < ARRAY_SIZE(pfns); i++)
			KUNIT_EXPECT_FALSE(test, kpkeys_mappings_offered(pool, pfns[i]));
	}
	for (i = 0; i < ARRAY_SIZE(blocks); i++)
		__free_pages(blocks[i], KPKEYS_BLOCK_ORDER);
}

static u64 level_in_a_batch(void)
{
	u64 reg;

	kpkeys_batch_begin();
	reg = arch_kpkeys_read_reg();
	kpkeys_batch_end();
	return reg;
}

static pte_t copy_in_a_batch(pte_t *table, struct page *page)
{
	kpkeys_expect_violation(true);
	kpkeys_batch_begin();
	lazy_set_ptes(&init_mm, 0, table, mk_pte(page, PAGE_KERNEL), 1);
	kpkeys_batch_end();
	kpkeys_expect_violation(false);
	return ptep_get(table);
}

/* Fork and mprotect do not ask about each entry, but are told of a search. */
static void offered_pages_are_not_copied(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct page *page, *other;
	pte_t *table;

	skip_unless_protected(test);
	table = pte_alloc_one_kernel(&init_mm);
	page = alloc_page(GFP_KERNEL);
	other = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, table);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_NOT_NULL(test, other);

	scoped_guard(mutex, &pool->sync->grow) {
		offer(test, page);
		KUNIT_EXPECT_EQ(test, level_in_a_batch(), level_reg_default());
		KUNIT_EXPECT_TRUE(test, pte_none(copy_in_a_batch(table, page)));
		KUNIT_EXPECT_EQ(test, pte_pfn(copy_in_a_batch(table + 1, other)),
				page_to_pfn(other));
		kpkeys_mappings_settle(pool);
	}
	KUNIT_EXPECT_EQ(test, pte_pfn(copy_in_a_batch(table + 2, page)), page_to_pfn(page));

	pte_free_kernel(&init_mm, table);
	__free_page(page);
	__free_page(other);
}

#ifdef CONFIG_HAVE_MOVE_PMD
/* Move a table's worth of entries; does the table go along? */
static bool table_moves(struct kunit *test, struct vm_area_struct *vma,
			unsigned long from, unsigned long to)
{
	struct page *table = pmd_page(*pmd_off(vma->vm_mm, from));

	PAGETABLE_MOVE(pmc, vma, vma, from, to, PMD_SIZE);

	KUNIT_EXPECT_EQ(test, move_page_tables(&pmc), PMD_SIZE);
	return pmd_page(*pmd_off(vma->vm_mm, to)) == table;
}

/* The search may be done with the place that a table goes to. */
static void tables_stay_during_a_search(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	unsigned long addr, to;
	struct vm_area_struct *vma;
	struct page *page, *offered;

	skip_unless_protected(test);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	addr = kunit_vm_mmap(test, NULL, 0, 4 * PMD_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	addr = ALIGN(addr, PMD_SIZE);
	to = addr + 2 * PMD_SIZE;
	offered = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, offered);
	/* One page, small in spite of THP, and the tables above both places. */
	scoped_guard(mmap_write_lock, current->mm) {
		vma = find_vma(current->mm, addr);
		KUNIT_ASSERT_NOT_NULL(test, vma);
		vm_flags_set(vma, VM_NOHUGEPAGE);
	}
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(addr, 1, FOLL_WRITE, &page), 1);
	put_page(page);

	scoped_guard(mmap_write_lock, current->mm) {
		/* There is no other search meanwhile. */
		guard(mutex)(&pool->sync->grow);
		KUNIT_EXPECT_TRUE(test, table_moves(test, vma, addr, to));
		KUNIT_EXPECT_TRUE(test, table_moves(test, vma, to, addr));
		offer(test, offered);
		KUNIT_EXPECT_FALSE(test, table_moves(test, vma, addr, to));
		kpkeys_mappings_settle(pool);
	}
	__free_page(offered);
}
#endif

#ifdef CONFIG_SMP
struct writer {
	struct work_struct work;
	struct completion started;
	bool done;
};

static void write_slowly(struct work_struct *work)
{
	struct writer *writer = container_of(work, struct writer, work);

	guard(preempt)();
	complete(&writer->started);
	mdelay(50);
	WRITE_ONCE(writer->done, true);
}

/* Another CPU was told that nothing is searched, and still writes entries. */
static void search_waits_for_writers(struct kunit *test)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct writer writer = { };
	struct page *page;
	unsigned int cpu;

	skip_unless_protected(test);
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	init_completion(&writer.started);
	INIT_WORK_ONSTACK(&writer.work, write_slowly);

	migrate_disable();
	cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	schedule_work_on(cpu, &writer.work);
	wait_for_completion(&writer.started);
	scoped_guard(mutex, &pool->sync->grow) {
		offer(test, page);
		KUNIT_EXPECT_TRUE(test, READ_ONCE(writer.done));
		kpkeys_mappings_settle(pool);
	}
	migrate_enable();
	flush_work(&writer.work);
	destroy_work_on_stack(&writer.work);
	__free_page(page);
}
#endif

static struct kunit_case mappings_cases[] = {
	KUNIT_CASE(tables_are_not_mapped_again),
	KUNIT_CASE(roots_are_not_mapped_again),
	KUNIT_CASE(ledgers_are_not_mapped_again),
	KUNIT_CASE(data_of_the_pool_is_not_mapped_again),
	KUNIT_CASE(other_pages_are_mapped),
	KUNIT_CASE(entries_are_seen_without_a_flush),
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	KUNIT_CASE(large_entries_over_a_table_are_refused),
#endif
#ifdef CONFIG_HAVE_ARCH_TRANSPARENT_HUGEPAGE_PUD
	KUNIT_CASE(huge_entries_over_a_table_are_refused),
#endif
	KUNIT_CASE(mapped_pages_do_not_enter),
	KUNIT_CASE(mapped_pages_get_no_other_key),
	KUNIT_CASE(offered_pages_are_not_mapped),
	KUNIT_CASE(blocks_are_offered_together),
	KUNIT_CASE(offered_pages_are_not_copied),
#ifdef CONFIG_HAVE_MOVE_PMD
	KUNIT_CASE(tables_stay_during_a_search),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE(search_waits_for_writers),
#endif
	{}
};

static struct kunit_suite mappings_suite = {
	.name = "kpkeys_mappings",
	.test_cases = mappings_cases,
};

kunit_test_suite(mappings_suite);
