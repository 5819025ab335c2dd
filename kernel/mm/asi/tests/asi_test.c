// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of address space isolation: sensitive and ordinary pageblocks,
 * and the restricted direct map. They need asi=on.
 */
#include <kunit/test.h>
#include <linux/asi.h>
#include <linux/cma.h>
#include <linux/delay.h>
#include <linux/dma-map-ops.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/irqflags.h>
#include <linux/list.h>
#include <linux/memblock.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/page-isolation.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/set_memory.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>

#include <asm/sections.h>

#include "../../page_alloc.h"
#include "../asi.h"

#define PATTERN		0x5a
#define NR_BLOCKS	16
#define TRIES		20
/* Enough to be allocated again on the small test machine. */
#define LEFT_BLOCKS	64
/* For what is done soon by somebody else, in milliseconds. */
#define PATIENCE	2000
#define STEP		10

#define skip_unless_enabled(test)					\
	do {								\
		if (!asi_enabled())					\
			kunit_skip(test, "needs asi=on");		\
	} while (0)

/* === Pages that are freed with the test ================================= */

struct pages {
	struct list_head list;
};

static void asi_test_free_pages(void *data)
{
	struct pages *pages = data;
	struct page *page, *next;

	list_for_each_entry_safe(page, next, &pages->list, lru) {
		list_del(&page->lru);
		__free_pages(page, page->private);
	}
}

static struct pages *new_pages(struct kunit *test)
{
	struct pages *pages = kunit_kzalloc(test, sizeof(*pages), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pages);
	INIT_LIST_HEAD(&pages->list);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, asi_test_free_pages,
					       pages), 0);
	return pages;
}

static struct page *asi_test_get(struct pages *pages, gfp_t gfp,
				 unsigned int order)
{
	struct page *page = alloc_pages(gfp | __GFP_NOWARN, order);

	if (!page)
		return NULL;
	page->private = order;
	list_add_tail(&page->lru, &pages->list);
	return page;
}

/* Check the kind of a page, and that the restricted direct map matches. */
static void expect_kind(struct kunit *test, struct page *page, bool sensitive,
			const char *what)
{
	unsigned long addr = (unsigned long)page_address(page) & PMD_MASK;
	enum asi_entry entry;
	bool is_sensitive;

	entry = asi_look(page, addr, &is_sensitive);
	KUNIT_EXPECT_EQ_MSG(test, is_sensitive, sensitive, "%s", what);
	KUNIT_EXPECT_EQ_MSG(test, entry, sensitive ? ASI_UNMAPPED : ASI_MAPPED,
			    "%s", what);
}

static void expect_nothing_wrong(struct kunit *test)
{
	struct asi_audit audit;

	asi_audit(&audit);
	KUNIT_EXPECT_GT(test, audit.sensitive, 0);
	KUNIT_EXPECT_GT(test, audit.ordinary, 0);
	KUNIT_EXPECT_EQ(test, audit.leaks, 0);
	KUNIT_EXPECT_EQ(test, audit.missing, 0);
	KUNIT_EXPECT_EQ(test, audit.stale, 0);
}

/* === Allocation by sensitivity ========================================== */

static const struct request {
	const char *name;
	gfp_t gfp;
	bool sensitive;
} requests[] = {
	{ "GFP_KERNEL", GFP_KERNEL, false },
	{ "GFP_ATOMIC", GFP_ATOMIC, false },
	{ "GFP_USER", GFP_USER, false },
	{ "reclaimable", GFP_KERNEL | __GFP_RECLAIMABLE, false },
	{ "movable, as of block devices", GFP_USER | __GFP_MOVABLE, false },
	{ "GFP_HIGHUSER", GFP_HIGHUSER, true },
	{ "GFP_HIGHUSER_MOVABLE", GFP_HIGHUSER_MOVABLE, true },
	{ "GFP_TRANSHUGE", GFP_TRANSHUGE, true },
	{ "atomic, of users", GFP_ATOMIC | __GFP_SENSITIVE, true },
};

static void request_desc(const struct request *request, char *desc)
{
	strscpy(desc, request->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(request, requests, request_desc);

static void each_order_gets_its_kind(struct kunit *test)
{
	const struct request *request = test->param_value;
	struct pages *pages;
	unsigned int order;
	struct page *page;

	skip_unless_enabled(test);

	pages = new_pages(test);
	for (order = 0; order <= MAX_PAGE_ORDER; order++) {
		page = asi_test_get(pages, request->gfp | __GFP_COMP, order);
		if (page)
			expect_kind(test, page, request->sensitive,
				    request->name);
		else
			KUNIT_EXPECT_GT_MSG(test, order, PAGE_ALLOC_COSTLY_ORDER,
					    "%s", request->name);
	}
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

/* Pages from the per-CPU lists must keep their kind. */
static void lists_per_cpu_keep_the_kinds_apart(struct kunit *test)
{
	static const unsigned int orders[] = { 0, 1, PAGE_ALLOC_COSTLY_ORDER,
					       HPAGE_PMD_ORDER };
	struct pages *pages;
	int i, j, round;

	skip_unless_enabled(test);

	pages = new_pages(test);
	for (round = 0; round < 64; round++) {
		for (i = 0; i < ARRAY_SIZE(orders); i++) {
			for (j = 0; j < ARRAY_SIZE(requests); j++) {
				struct page *page = asi_test_get(pages,
								 requests[j].gfp |
								 __GFP_COMP,
								 orders[i]);

				if (page)
					expect_kind(test, page,
						    requests[j].sensitive,
						    requests[j].name);
			}
		}
		asi_test_free_pages(pages);
	}
	expect_nothing_wrong(test);
}

static void types_without_a_list_per_cpu(struct kunit *test)
{
	skip_unless_enabled(test);

	KUNIT_EXPECT_EQ(test, asi_pcp_type(MIGRATE_HIGHATOMIC),
			MIGRATE_UNMOVABLE);
#ifdef CONFIG_CMA
	KUNIT_EXPECT_EQ(test, asi_pcp_type(MIGRATE_CMA), MIGRATE_MOVABLE);
#endif
}

/* MIGRATE_HIGHATOMIC must be ordinary. */
static void atomic_reserve_is_ordinary(struct kunit *test)
{
	unsigned long pfn, reserved = 0;
	struct pages *pages, *some;
	struct page *page;
	struct zone *zone;
	int i;

	skip_unless_enabled(test);

	pages = new_pages(test);
	some = new_pages(test);
	page = asi_test_get(pages, GFP_ATOMIC, 2);
	KUNIT_ASSERT_NOT_NULL(test, page);
	zone = page_zone(page);
	if (zone_managed_pages(zone) / 100 < pageblock_nr_pages)
		kunit_skip(test, "too little memory for a reserve");

	/*
	 * HIGHATOMIC blocks are reserved when memory is low but not exhausted.
	 */
	for (i = 0; i < 16; i++)
		asi_test_get(some, GFP_ATOMIC, 2);
	drain_all_pages(NULL);
	while (asi_test_get(pages, GFP_NOWAIT | __GFP_SENSITIVE | __GFP_MOVABLE,
			    0) ||
	       asi_test_get(pages, GFP_NOWAIT, 0))
		;
	asi_test_free_pages(some);
	drain_all_pages(NULL);
	while (!zone->nr_reserved_highatomic && asi_test_get(pages, GFP_ATOMIC,
							     2))
		;
	/* Another task may be freeing a lot of memory. */
	if (!zone->nr_reserved_highatomic)
		kunit_skip(test, "there is no reserve");
	for (pfn = pageblock_align(zone->zone_start_pfn);
	     pfn < zone_end_pfn(zone); pfn += pageblock_nr_pages) {
		page = pfn_to_online_page(pfn);
		if (page && asi_get_type(page) == MIGRATE_HIGHATOMIC) {
			expect_kind(test, page, false, "reserve");
			reserved++;
		}
	}
	KUNIT_EXPECT_GT(test, reserved, 0);
	asi_test_free_pages(pages);

	/* Atomic but sensitive: must not get pages of the reserve. */
	for (i = 0; i < PTRS_PER_PMD; i++) {
		page = asi_test_get(pages, GFP_ATOMIC | __GFP_SENSITIVE, 2);
		if (page)
			expect_kind(test, page, true, "atomic, of users");
	}
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

/* === Conversion ========================================================= */

static void pageblocks_are_converted_in_need(struct kunit *test)
{
	long before = asi_event_read(ASI_TO_ORDINARY);
	struct pages *pages;
	struct page *page;
	int i;

	skip_unless_enabled(test);

	pages = new_pages(test);
	/*
	 * More than the reserve keeps, and not cleared on free. Other tests may
	 * have left many blocks that are ordinary.
	 */
	for (i = 0; i < LEFT_BLOCKS || asi_event_read(ASI_TO_ORDINARY) == before; i++) {
		page = asi_test_get(pages, GFP_KERNEL | __GFP_NORETRY,
				    pageblock_order);
		if (!page)
			break;
		expect_kind(test, page, false, "GFP_KERNEL");
	}
	KUNIT_EXPECT_GE(test, i, NR_BLOCKS / 2);
	KUNIT_EXPECT_GT(test, asi_event_read(ASI_TO_ORDINARY), before);
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

static bool is_among(struct page *page, const unsigned long *pfns,
		     unsigned long nr)
{
	unsigned long i;

	for (i = 0; i < nr; i++)
		if (pfns[i] == page_to_pfn(page))
			return true;
	return false;
}

/* Data of others must be gone once the kernel maps a block. */
static void nothing_is_left_when_a_block_is_mapped(struct kunit *test)
{
	unsigned long *pfns, i, j, nr = 0, met = 0, left = 0;
	struct pages *pages;
	struct page *page;

	skip_unless_enabled(test);

	pages = new_pages(test);
	pfns = kunit_kcalloc(test, LEFT_BLOCKS, sizeof(*pfns), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pfns);

	for (i = 0; i < LEFT_BLOCKS; i++) {
		page = asi_test_get(pages, GFP_HIGHUSER_MOVABLE | __GFP_NORETRY,
				    pageblock_order);
		if (!page)
			break;
		memset(page_address(page), PATTERN, PAGE_SIZE << pageblock_order);
		pfns[nr++] = page_to_pfn(page);
	}
	asi_test_free_pages(pages);
	drain_all_pages(NULL);

	for (i = 0; i < 2 * LEFT_BLOCKS && met < NR_BLOCKS / 4; i++) {
		page = asi_test_get(pages, GFP_KERNEL | __GFP_NORETRY,
				    pageblock_order);
		if (!page)
			break;
		/* Memory that was ordinary since boot has anything. */
		if (!is_among(page, pfns, nr))
			continue;
		met++;
		for (j = 0; j < pageblock_nr_pages; j++)
			left += *(u8 *)page_address(page + j) == PATTERN;
	}
	asi_test_free_pages(pages);
	/* Check that any block was seen again. */
	KUNIT_EXPECT_GT(test, met, 0);
	KUNIT_EXPECT_EQ(test, left, 0);
}

/* Create a free ordinary pageblock. */
static struct page *free_ordinary_block(struct kunit *test)
{
	struct pages *pages = new_pages(test);
	struct page *page = NULL;
	int i;

	for (i = 0; i < 4; i++)
		page = asi_test_get(pages, GFP_KERNEL, pageblock_order);
	KUNIT_ASSERT_NOT_NULL(test, page);
	asi_test_free_pages(pages);
	drain_all_pages(NULL);
	return page;
}

static void no_flush_where_there_must_be_none(struct kunit *test)
{
	long refused, flushes;	/* other tasks may convert blocks as well */
	unsigned long flags;
	struct zone *zone;

	skip_unless_enabled(test);

	zone = page_zone(free_ordinary_block(test));
	refused = asi_event_read(ASI_REFUSED);
	KUNIT_EXPECT_FALSE(test, asi_convert(zone, 0, GFP_NOWAIT,
					     MIGRATE_MOVABLE));
	local_irq_save(flags);
	KUNIT_EXPECT_FALSE(test, asi_convert(zone, 0, GFP_KERNEL,
					     MIGRATE_MOVABLE));
	local_irq_restore(flags);
	KUNIT_EXPECT_GE(test, asi_event_read(ASI_REFUSED), refused + 2);
	/* A caller that must not wait for a lock gets nothing of either kind. */
	KUNIT_EXPECT_FALSE(test, asi_convert(zone, 0, 0, MIGRATE_UNMOVABLE));
	KUNIT_EXPECT_FALSE(test, asi_convert(zone, 0, 0, MIGRATE_MOVABLE));

	flushes = asi_event_read(ASI_FLUSHES);
	KUNIT_EXPECT_TRUE(test, asi_convert(zone, 0, GFP_KERNEL,
					    MIGRATE_MOVABLE));
	KUNIT_EXPECT_GE(test, asi_event_read(ASI_FLUSHES), flushes + 1);
	expect_nothing_wrong(test);
}

/* Blocks that others left free are made sensitive again, but for a few. */
static void an_excess_becomes_sensitive_again(struct kunit *test)
{
	struct pages *pages;
	struct zone *zone;
	unsigned int i, waited;
	long before;

	skip_unless_enabled(test);

	pages = new_pages(test);
	zone = page_zone(free_ordinary_block(test));
	for (i = 0; i < LEFT_BLOCKS; i++)
		if (!asi_test_get(pages, GFP_KERNEL | __GFP_NORETRY,
				  pageblock_order))
			break;
	KUNIT_ASSERT_GT(test, i, NR_BLOCKS);
	asi_test_free_pages(pages);
	drain_all_pages(NULL);

	before = asi_event_read(ASI_TO_SENSITIVE);
	/* Refused, but then somebody looks. */
	KUNIT_EXPECT_FALSE(test, asi_convert(zone, 0, GFP_NOWAIT,
					     MIGRATE_MOVABLE));
	for (waited = 0; waited < PATIENCE; waited += STEP) {
		if (asi_event_read(ASI_TO_SENSITIVE) > before)
			break;
		msleep(STEP);
	}
	KUNIT_EXPECT_LT(test, waited, PATIENCE);
	expect_nothing_wrong(test);
}

static void ordinary_memory_comes_with_interrupts_off(struct kunit *test)
{
	struct pages *pages;
	unsigned long flags;
	struct page *page;
	int i;

	skip_unless_enabled(test);

	pages = new_pages(test);
	for (i = 0; i < NR_BLOCKS; i++) {
		local_irq_save(flags);
		page = asi_test_get(pages, GFP_ATOMIC, pageblock_order);
		local_irq_restore(flags);
		if (!page)
			break;
		expect_kind(test, page, false, "GFP_ATOMIC");
	}
	KUNIT_EXPECT_GE(test, i, NR_BLOCKS / 2);
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

/* Make holes in ordinary blocks: free every other page. */
static void make_holes(struct kunit *test)
{
	struct pages *kept = new_pages(test), *freed = new_pages(test);
	unsigned int i;

	for (i = 0; i < NR_BLOCKS * 2; i++)
		KUNIT_ASSERT_NOT_NULL(test, asi_test_get(i % 2 ? kept : freed,
							 GFP_KERNEL, 1));
	asi_test_free_pages(freed);
	drain_all_pages(NULL);
}

/* Holes of ordinary blocks are free memory, but not for sensitive allocations. */
static void watermarks_count_memory_of_a_kind(struct kunit *test)
{
	long holes, free, mark;
	struct pages *pages;
	struct page *page;
	struct zone *zone;
	int idx;

	skip_unless_enabled(test);

	pages = new_pages(test);
	make_holes(test);
	page = asi_test_get(pages, GFP_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, page);
	zone = page_zone(page);
	idx = zone_idx(zone);
	KUNIT_EXPECT_EQ(test, asi_recount_holes(zone), 0);
	holes = READ_ONCE(zone->nr_ordinary_holes);
	KUNIT_ASSERT_GE(test, holes, NR_BLOCKS);

	free = totalram_pages();
	mark = free - READ_ONCE(zone->nr_free_highatomic) - holes / 2;
	KUNIT_EXPECT_TRUE(test, __zone_watermark_ok(zone, 0, mark, idx,
						    ALLOC_CMA, free));
	KUNIT_EXPECT_FALSE(test, __zone_watermark_ok(zone, 0, mark, idx,
						     ALLOC_CMA | ALLOC_SENSITIVE,
						     free));
	mark -= holes;
	KUNIT_EXPECT_TRUE(test, __zone_watermark_ok(zone, 0, mark, idx,
						    ALLOC_CMA | ALLOC_SENSITIVE,
						    free));

	KUNIT_EXPECT_TRUE(test, asi_may_serve(MIGRATE_UNMOVABLE, 1, false));
	KUNIT_EXPECT_FALSE(test, asi_may_serve(MIGRATE_UNMOVABLE, 1, true));
	KUNIT_EXPECT_TRUE(test, asi_may_serve(MIGRATE_UNMOVABLE,
					      pageblock_order, true));
	KUNIT_EXPECT_TRUE(test, asi_may_serve(MIGRATE_MOVABLE, 1, true));
}

/* Isolation moves a free block to lists of its own, and back. */
static void isolated_blocks_have_no_holes(struct kunit *test)
{
	unsigned long pfn, nr = pageblock_nr_pages;
	struct page *page;
	struct zone *zone;

	skip_unless_enabled(test);

	/* Half of it stays in use, lest the other be merged with its neighbour. */
	page = alloc_pages(GFP_KERNEL, pageblock_order + 1);
	KUNIT_ASSERT_NOT_NULL(test, page);
	zone = page_zone(page);
	pfn = page_to_pfn(page);
	split_page(page, pageblock_order + 1);
	free_contig_range(pfn, nr);
	drain_all_pages(NULL);
	KUNIT_EXPECT_EQ(test, asi_recount_holes(zone), 0);

	KUNIT_EXPECT_EQ(test, start_isolate_page_range(pfn, pfn + nr,
						       PB_ISOLATE_MODE_OTHER), 0);
	KUNIT_EXPECT_EQ(test, asi_recount_holes(zone), 0);
	undo_isolate_page_range(pfn, pfn + nr);
	KUNIT_EXPECT_EQ(test, asi_recount_holes(zone), 0);
	free_contig_range(pfn + nr, nr);
	expect_nothing_wrong(test);
}

/* Count pages of the process in ordinary blocks: every other one, of so many. */
static unsigned int count_misplaced(unsigned long start, unsigned long nr)
{
	unsigned int misplaced = 0;
	unsigned long i;
	struct page *page;

	for (i = 1; i < nr; i += 2) {
		if (get_user_pages_fast(start + i * PAGE_SIZE, 1, 0, &page) != 1)
			continue;
		misplaced += !is_migrate_sensitive(asi_get_type(page));
		put_page(page);
	}
	return misplaced;
}

/*
 * Most memory belongs to a process that freed every other page: free memory
 * consists of holes in sensitive blocks, which compaction has to gather.
 */
static void ordinary_memory_is_gathered_from_holes(struct kunit *test)
{
	unsigned long nr, i, start;
	struct pages *pages;
	struct page *page;

	skip_unless_enabled(test);

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	nr = global_zone_page_state(NR_FREE_PAGES) / 4 * 3;
	start = vm_mmap(NULL, 0, nr * PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(start));
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, start, nr * PAGE_SIZE,
					 MADV_NOHUGEPAGE), 0);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, put_user(1, (char __user *)start +
					       i * PAGE_SIZE), 0);
	for (i = 0; i < nr; i += 2)
		KUNIT_ASSERT_EQ(test, do_madvise(current->mm,
						 start + i * PAGE_SIZE,
						 PAGE_SIZE, MADV_DONTNEED), 0);

	pages = new_pages(test);
	for (i = 0; i < nr / 4; i++) {
		page = asi_test_get(pages, GFP_KERNEL | __GFP_RETRY_MAYFAIL, 0);
		if (!page)
			break;
	}
	KUNIT_EXPECT_EQ(test, i, nr / 4);
	KUNIT_EXPECT_EQ(test, count_misplaced(start, nr), 0);
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

/* === Ranges ============================================================= */

static void ranges_are_of_the_right_kind(struct kunit *test)
{
#ifdef CONFIG_CONTIG_ALLOC
	unsigned long start, end;
	struct page *page;
	int err, tries = 10;

	skip_unless_enabled(test);

	/* Another task may have allocated from the range. */
	do {
		page = free_ordinary_block(test);
		start = page_to_pfn(page);
		end = start + pageblock_nr_pages;
		err = alloc_contig_range(start, end, ACR_FLAGS_NONE,
					 GFP_HIGHUSER);
	} while (err == -EBUSY && --tries);
	KUNIT_ASSERT_EQ(test, err, 0);
	/* It was converted, and what it had is gone. */
	expect_kind(test, page, true, "given to a user");
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0, PAGE_SIZE));
	free_contig_range(start, pageblock_nr_pages);

	/* A part of a block is not enough. */
	do {
		start = page_to_pfn(free_ordinary_block(test));
		end = start + pageblock_nr_pages / 2;
		err = alloc_contig_range(start, end, ACR_FLAGS_NONE,
					 GFP_HIGHUSER);
		if (!err) {
			/* An excess of ordinary blocks was converted. */
			expect_kind(test, pfn_to_page(start), true, "a part");
			free_contig_range(start, pageblock_nr_pages / 2);
		}
	} while (!err && --tries);
	KUNIT_EXPECT_EQ(test, err, -EBUSY);

	err = alloc_contig_range(start, end, ACR_FLAGS_NONE, GFP_KERNEL);
	if (!err)
		free_contig_range(start, end - start);
	/* Another task may have allocated from the range. */
	else
		KUNIT_EXPECT_EQ(test, err, -EBUSY);
	expect_nothing_wrong(test);
#else
	kunit_skip(test, "needs CONTIG_ALLOC");
#endif
}

static void contiguous_memory_is_sensitive(struct kunit *test)
{
#ifdef CONFIG_DMA_CMA
	struct cma *cma = dev_get_cma_area(NULL);
	struct page *page;

	skip_unless_enabled(test);
	if (!cma)
		kunit_skip(test, "needs an area of CMA");

	page = cma_alloc(cma, 1, 0, true);
	KUNIT_ASSERT_NOT_NULL(test, page);
	/* CMA also serves movable allocations. */
	expect_kind(test, page, true, "CMA");
	KUNIT_EXPECT_TRUE(test, cma_release(cma, page, 1));
	expect_nothing_wrong(test);
#else
	kunit_skip(test, "needs DMA_CMA");
#endif
}

/* === Sync with the direct map =========================================== */

static void protection_is_followed(struct kunit *test)
{
	struct pages *pages;
	int i;

	skip_unless_enabled(test);

	pages = new_pages(test);
	for (i = 0; i < 2; i++) {
		struct page *page = asi_test_get(pages,
						 i ? GFP_HIGHUSER : GFP_KERNEL,
						 pageblock_order);
		unsigned long addr;

		KUNIT_ASSERT_NOT_NULL(test, page);
		addr = (unsigned long)page_address(page);

		/*
		 * One page splits the block; all pages are changed as a whole
		 * or singly.
		 */
		KUNIT_EXPECT_EQ(test, set_memory_ro(addr, 1), 0);
		expect_kind(test, page, i, "split");
		KUNIT_EXPECT_EQ(test, set_memory_rw(addr, 1), 0);
		expect_kind(test, page, i, "put together");
		KUNIT_EXPECT_EQ(test, set_memory_ro(addr, pageblock_nr_pages), 0);
		expect_kind(test, page, i, "read-only");
		KUNIT_EXPECT_EQ(test, set_memory_rw(addr, pageblock_nr_pages), 0);
		expect_kind(test, page, i, "writable again");
	}
	asi_test_free_pages(pages);
	expect_nothing_wrong(test);
}

/* === Restricted page tables of a process ================================ */

/* Far from all other mappings of the address space. */
#define LONELY	0x400000000000UL

static void expect_same_user_half(struct kunit *test, struct mm_struct *mm,
				  const char *when)
{
	pgd_t *restricted = arch_asi_pgd(mm);
	unsigned int i;

	for (i = 0; i < pgd_index(TASK_SIZE_MAX); i++)
		KUNIT_EXPECT_EQ_MSG(test, pgd_val(restricted[i]),
				    pgd_val(mm->pgd[i]), "%s: %u", when, i);
}

/* 12 KB more than without PTI, 8 KB more than with it. */
static void a_process_has_four_topmost_tables(struct kunit *test)
{
	skip_unless_enabled(test);

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	KUNIT_EXPECT_EQ(test, compound_nr(virt_to_head_page(current->mm->pgd)),
			4);
	KUNIT_EXPECT_PTR_EQ(test, arch_asi_pgd(current->mm),
			    current->mm->pgd + 2 * PTRS_PER_PGD);
}

static void user_half_is_followed(struct kunit *test)
{
	pgd_t *entry;

	skip_unless_enabled(test);

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	expect_same_user_half(test, current->mm, "new");
	entry = arch_asi_pgd(current->mm) + pgd_index(LONELY);
	KUNIT_ASSERT_EQ(test, pgd_val(*entry), 0);

	KUNIT_ASSERT_EQ(test, vm_mmap(NULL, LONELY, PAGE_SIZE,
				      PROT_READ | PROT_WRITE, MAP_PRIVATE |
				      MAP_ANONYMOUS | MAP_FIXED, 0), LONELY);
	KUNIT_ASSERT_EQ(test, put_user(1, (int __user *)LONELY), 0);
	KUNIT_EXPECT_NE(test, pgd_val(*entry), 0);
	expect_same_user_half(test, current->mm, "in use");

	KUNIT_ASSERT_EQ(test, vm_munmap(LONELY, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, pgd_val(*entry), 0);
	expect_same_user_half(test, current->mm, "unmapped");
}

/* Does a restricted address space map a kernel address? */
static bool is_reached(pgd_t *restricted, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(restricted, addr);
	p4d_t *p4d;
	pud_t *pud;

	if (pgd_none(*pgd))
		return false;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return false;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud))
		return false;
	return pud_leaf(*pud) || !pmd_none(*pmd_offset(pud, addr));
}

static void sensitive_memory_is_not_reached(struct kunit *test)
{
	pgd_t *restricted;
	struct pages *pages;
	int i;

	skip_unless_enabled(test);

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	restricted = arch_asi_pgd(current->mm);

	pages = new_pages(test);
	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		struct page *page = asi_test_get(pages,
						 requests[i].gfp | __GFP_COMP, 0);

		KUNIT_ASSERT_NOT_NULL(test, page);
		KUNIT_EXPECT_EQ_MSG(test, is_reached(restricted,
						     (unsigned long)page_address(page)),
				    !requests[i].sensitive, "%s",
				    requests[i].name);
	}
	/* The image, vmalloc space, stacks, and struct pages. */
	KUNIT_EXPECT_TRUE(test, is_reached(restricted, (unsigned long)_text));
	KUNIT_EXPECT_TRUE(test, is_reached(restricted, (unsigned long)&pages));
	KUNIT_EXPECT_TRUE(test, is_reached(restricted,
					   (unsigned long)pfn_to_page(max_pfn - 1)));
}

/* === The audit itself =================================================== */

static void audit_finds_seeded_mistakes(struct kunit *test)
{
	struct page *ordinary, *sensitive;
	struct asi_audit audit;
	struct pages *pages;
	unsigned long addr;

	skip_unless_enabled(test);

	pages = new_pages(test);
	ordinary = asi_test_get(pages, GFP_KERNEL, pageblock_order);
	sensitive = asi_test_get(pages, GFP_HIGHUSER, pageblock_order);
	KUNIT_ASSERT_NOT_NULL(test, ordinary);
	KUNIT_ASSERT_NOT_NULL(test, sensitive);
	expect_nothing_wrong(test);

	addr = (unsigned long)page_address(sensitive);
	arch_asi_set(addr, true);
	asi_audit(&audit);
	KUNIT_EXPECT_EQ(test, audit.leaks, 1);
	arch_asi_set(addr, false);
	flush_tlb_kernel_range(addr, addr + PMD_SIZE);

	addr = (unsigned long)page_address(ordinary);
	arch_asi_set(addr, false);
	asi_audit(&audit);
	KUNIT_EXPECT_EQ(test, audit.missing, 1);
	asi_sync_direct_map(addr, addr + PMD_SIZE);
	expect_nothing_wrong(test);
}

/* === Clean memory ========================================================= */

static unsigned int count_dirty(struct pages *pages)
{
	unsigned int dirty = 0;
	struct page *page;

	list_for_each_entry(page, &pages->list, lru)
		dirty += !!memchr_inv(page_address(page), 0,
				      PAGE_SIZE << page->private);
	return dirty;
}

static void asi_test_fill(struct pages *pages)
{
	struct page *page;

	list_for_each_entry(page, &pages->list, lru)
		memset(page_address(page), PATTERN, PAGE_SIZE << page->private);
}

/* Sensitive memory must be clean without __GFP_ZERO. */
static void sensitive_memory_is_clean(struct kunit *test)
{
	static const unsigned int orders[] = { 0, 1, PMD_ORDER };
	struct pages *pages;
	int i, j, round;

	skip_unless_enabled(test);
	if (!asi_gives_clean())
		kunit_skip(test, "memory is poisoned when it is freed");

	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		for (round = 0; round < 2; round++) {
			pages = new_pages(test);
			for (j = 0; j < NR_BLOCKS; j++)
				KUNIT_ASSERT_NOT_NULL(test,
						      asi_test_get(pages,
								   GFP_HIGHUSER,
								   orders[i]));
			KUNIT_EXPECT_EQ(test, count_dirty(pages), 0);
			asi_test_fill(pages);
			kunit_release_action(test, asi_test_free_pages, pages);
		}
	}
}

/* A block that becomes sensitive may hold data from its ordinary use. */
static void converted_memory_is_clean(struct kunit *test)
{
	struct pages *ordinary, *sensitive;
	unsigned int i;
	long before;

	skip_unless_enabled(test);
	if (!asi_gives_clean())
		kunit_skip(test, "memory is poisoned when it is freed");

	ordinary = new_pages(test);
	for (i = 0; i < LEFT_BLOCKS; i++)
		if (!asi_test_get(ordinary, GFP_KERNEL | __GFP_NORETRY,
				  pageblock_order))
			break;
	KUNIT_ASSERT_GT(test, i, NR_BLOCKS);
	asi_test_fill(ordinary);
	kunit_release_action(test, asi_test_free_pages, ordinary);

	before = asi_event_read(ASI_TO_SENSITIVE);
	sensitive = new_pages(test);
	while (asi_event_read(ASI_TO_SENSITIVE) < before + NR_BLOCKS / 2)
		if (!asi_test_get(sensitive, GFP_HIGHUSER | __GFP_NORETRY,
				  pageblock_order))
			break;
	KUNIT_EXPECT_GE(test, asi_event_read(ASI_TO_SENSITIVE),
			before + NR_BLOCKS / 2);
	KUNIT_EXPECT_EQ(test, count_dirty(sensitive), 0);
}

static void skip_unless_cleared_later(struct kunit *test)
{
	skip_unless_enabled(test);
	if (!asi_gives_clean())
		kunit_skip(test, "memory is poisoned when it is freed");
	if (debug_pagealloc_enabled())
		kunit_skip(test, "free memory cannot be looked at");
}

/* Has a page data, although it is not in use? */
static bool is_dirty(struct page *page)
{
	u8 first;

	/* Memory that is free has no shadow that allows to read it. */
	return !copy_from_kernel_nofault(&first, page_address(page), 1) && first;
}

/* Free pages with data in them; returns how many of them have it still. */
static unsigned int free_dirty(struct kunit *test, unsigned int order,
			       struct page **pages, unsigned int *room)
{
	unsigned int i, dirty = 0;

	for (i = 0; i < NR_BLOCKS; i++) {
		pages[i] = alloc_pages(GFP_HIGHUSER, order);
		KUNIT_ASSERT_NOT_NULL(test, pages[i]);
		memset(page_address(pages[i]), PATTERN, PAGE_SIZE << order);
	}
	asi_clean_all();
	*room = 0;
	scoped_guard(preempt) {
		for (i = 0; i < NR_BLOCKS; i++) {
			*room += __asi_may_defer(order);
			__free_pages(pages[i], order);
		}
		for (i = 0; i < NR_BLOCKS; i++)
			dirty += is_dirty(pages[i]);
	}
	asi_clean_all();
	return dirty;
}

/* To free sensitive memory, nobody has to access it. */
static void sensitive_memory_is_cleared_later(struct kunit *test)
{
	struct page *pages[NR_BLOCKS];
	unsigned int room, tries;

	skip_unless_cleared_later(test);
	/* The worker may have been called for other memory, and find this. */
	for (tries = 0; tries < TRIES; tries++)
		if (free_dirty(test, 0, pages, &room) == NR_BLOCKS)
			break;
	KUNIT_EXPECT_LT(test, tries, TRIES);
}

/* A worker does so, even if nobody asks for memory. */
static void it_is_cleared_soon(struct kunit *test)
{
	struct page *pages[NR_BLOCKS];
	unsigned int i, waited, dirty = NR_BLOCKS;

	skip_unless_cleared_later(test);
	for (i = 0; i < NR_BLOCKS; i++) {
		pages[i] = alloc_page(GFP_HIGHUSER);
		KUNIT_ASSERT_NOT_NULL(test, pages[i]);
		memset(page_address(pages[i]), PATTERN, PAGE_SIZE);
	}
	asi_clean_all();
	for (i = 0; i < NR_BLOCKS; i++)
		__free_page(pages[i]);
	/* Others may use some of them by then. */
	for (waited = 0; waited < PATIENCE && dirty > NR_BLOCKS / 2; waited += STEP) {
		msleep(STEP);
		dirty = 0;
		for (i = 0; i < NR_BLOCKS; i++)
			dirty += is_dirty(pages[i]);
	}
	KUNIT_EXPECT_LE(test, dirty, NR_BLOCKS / 2);
}

/* Those who look for free memory find what is queued. */
static void queued_memory_is_found(struct kunit *test)
{
	struct page *page;

	skip_unless_cleared_later(test);
	page = alloc_page(GFP_HIGHUSER);
	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page_address(page), PATTERN, PAGE_SIZE);
	asi_clean_all();
	__free_page(page);
	drain_all_pages(NULL);
	KUNIT_EXPECT_FALSE(test, is_dirty(page));
	KUNIT_EXPECT_TRUE(test, is_free_buddy_page(page));
}

/* The queue is short: pages that do not fit are cleared by those who free them. */
static void too_much_is_cleared_at_once(struct kunit *test)
{
	struct page *pages[NR_BLOCKS];
	unsigned int dirty, room;

	skip_unless_cleared_later(test);
	dirty = free_dirty(test, PMD_ORDER, pages, &room);
	KUNIT_EXPECT_LT(test, room, NR_BLOCKS);
	KUNIT_EXPECT_LE(test, dirty, room);
}

static struct kunit_case asi_cases[] = {
	KUNIT_CASE_PARAM(each_order_gets_its_kind, request_gen_params),
	KUNIT_CASE(lists_per_cpu_keep_the_kinds_apart),
	KUNIT_CASE(types_without_a_list_per_cpu),
	KUNIT_CASE(pageblocks_are_converted_in_need),
	KUNIT_CASE(nothing_is_left_when_a_block_is_mapped),
	KUNIT_CASE(no_flush_where_there_must_be_none),
	KUNIT_CASE(an_excess_becomes_sensitive_again),
	KUNIT_CASE(ordinary_memory_comes_with_interrupts_off),
	/* These leave many ordinary blocks behind. */
	KUNIT_CASE_SLOW(atomic_reserve_is_ordinary),
	KUNIT_CASE(isolated_blocks_have_no_holes),
	KUNIT_CASE_SLOW(ordinary_memory_is_gathered_from_holes),
	KUNIT_CASE(watermarks_count_memory_of_a_kind),
	KUNIT_CASE(ranges_are_of_the_right_kind),
	KUNIT_CASE(contiguous_memory_is_sensitive),
	KUNIT_CASE(protection_is_followed),
	KUNIT_CASE(a_process_has_four_topmost_tables),
	KUNIT_CASE(user_half_is_followed),
	KUNIT_CASE(sensitive_memory_is_not_reached),
	KUNIT_CASE(audit_finds_seeded_mistakes),
	KUNIT_CASE(sensitive_memory_is_clean),
	KUNIT_CASE(converted_memory_is_clean),
	KUNIT_CASE(sensitive_memory_is_cleared_later),
	KUNIT_CASE(it_is_cleared_soon),
	KUNIT_CASE(queued_memory_is_found),
	KUNIT_CASE(too_much_is_cleared_at_once),
	{}
};

static struct kunit_suite asi_suite = {
	.name = "asi",
	.test_cases = asi_cases,
};

kunit_test_suite(asi_suite);
