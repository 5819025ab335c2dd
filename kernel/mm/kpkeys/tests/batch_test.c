// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of batching: one level switch for a run of entries.
 */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/kpkeys_batch.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <asm/pgalloc.h>

#include "../pool.h"
#include "test.h"

static bool batched_boot(void)
{
	return protected_boot() && kpkeys_batch_enabled();
}

/* The register inside a section, with and without batching. */
static u64 level_reg_batch(void)
{
	return batched_boot() ? level_reg_pgtables() : level_reg_default();
}

static struct ptdesc *new_table(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);

	KUNIT_ASSERT_NOT_NULL(test, pt);
	return pt;
}

static void fill(pte_t *table)
{
	int i;

	for (i = 0; i < PTRS_PER_PTE; i++)
		set_pte(table + i, pfn_pte(i + 1, PAGE_KERNEL));
}

static unsigned long switches(void)
{
	return this_cpu_read(kpkeys_stats[KPKEYS_STAT_SWITCHES]);
}

static void section_switches_once(struct kunit *test)
{
	struct ptdesc *pt = new_table(test);
	unsigned long flags, nr;

	/* Interrupts off, so that only the section is counted. */
	local_irq_save(flags);
	nr = switches();
	kpkeys_batch_begin();
	fill(ptdesc_address(pt));
	kpkeys_batch_end();
	nr = switches() - nr;
	local_irq_restore(flags);

	if (!protected_boot())
		KUNIT_EXPECT_EQ(test, nr, 0);
	else if (!kpkeys_batch_enabled())
		KUNIT_EXPECT_EQ(test, nr, PTRS_PER_PTE);
	else
		KUNIT_EXPECT_EQ(test, nr, 1);
	EXPECT_LEVEL_DEFAULT(test);
	pagetable_free(pt);
}

static void sections_pause(struct kunit *test)
{
	u64 inside, paused, resumed;
	bool empty;

	skip_unless_protected(test);

	kpkeys_batch_begin();
	inside = arch_kpkeys_read_reg();
	kpkeys_batch_pause();
	paused = arch_kpkeys_read_reg();
	kpkeys_batch_resume();
	resumed = arch_kpkeys_read_reg();
	/* Else another frame at this address might be raised. */
	empty = kpkeys_ledger_is_top(0);
	kpkeys_batch_end();

	KUNIT_EXPECT_EQ(test, inside, level_reg_batch());
	KUNIT_EXPECT_EQ(test, paused, level_reg_default());
	KUNIT_EXPECT_EQ(test, resumed, level_reg_batch());
	KUNIT_EXPECT_TRUE(test, empty);
	EXPECT_LEVEL_DEFAULT(test);
}

/* Functions with a batch of their own that few callers have on some targets. */
static void mapping_of_memory_ends_its_section(struct kunit *test)
{
	struct vm_struct *area = get_vm_area(2 * PAGE_SIZE, VM_MAP);
	struct page *page = alloc_page(GFP_KERNEL);
	unsigned long addr;

	KUNIT_ASSERT_NOT_NULL(test, area);
	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = (unsigned long)area->addr;

	KUNIT_EXPECT_EQ(test, vmap_page_range(addr, addr + PAGE_SIZE, page_to_phys(page),
					      PAGE_KERNEL), 0);
	EXPECT_LEVEL_DEFAULT(test);
	KUNIT_EXPECT_PTR_EQ(test, vmalloc_to_page(area->addr), page);

	free_vm_area(area);
	__free_page(page);
}

static void remapping_ends_its_section(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);
	struct vm_area_struct *vma;
	unsigned long addr;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	addr = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));

	scoped_guard(mmap_write_lock, current->mm) {
		vma = find_vma(current->mm, addr);
		KUNIT_EXPECT_EQ(test, remap_pfn_range(vma, addr, page_to_pfn(page), PAGE_SIZE,
						      vma->vm_page_prot), 0);
	}
	EXPECT_LEVEL_DEFAULT(test);

	KUNIT_EXPECT_EQ(test, vm_munmap(addr, PAGE_SIZE), 0);
	__free_page(page);
}

/* tlb_next_batch() does this for huge pages, outside of sections. */
static void pausing_no_section_raises_nothing(struct kunit *test)
{
	u64 after;

	skip_unless_protected(test);

	preempt_disable();
	kpkeys_batch_pause();
	kpkeys_batch_resume();
	after = arch_kpkeys_read_reg();
	preempt_enable();
	KUNIT_EXPECT_EQ(test, after, level_reg_default());
}

#ifdef CONFIG_ARCH_HAS_LAZY_MMU_MODE
/* The nesting depth of lazy MMU sections is in writable memory. */
static void forged_nesting_raises_nothing(struct kunit *test)
{
	struct lazy_mmu_state *state = &current->lazy_mmu_state;
	u64 resumed, left;

	skip_unless_protected(test);

	state->enable_count = 1;
	lazy_mmu_mode_pause();
	lazy_mmu_mode_resume();
	resumed = arch_kpkeys_read_reg();
	lazy_mmu_mode_enable();
	lazy_mmu_mode_disable();
	left = arch_kpkeys_read_reg();
	state->enable_count = 0;
	KUNIT_EXPECT_EQ(test, resumed, level_reg_default());
	KUNIT_EXPECT_EQ(test, left, level_reg_default());
	EXPECT_LEVEL_DEFAULT(test);
}
#else
static void forged_nesting_raises_nothing(struct kunit *test)
{
	kunit_skip(test, "there is no lazy MMU mode");
}
#endif

static void table_is_protected_after_a_section(struct kunit *test)
{
	struct ptdesc *pt = new_table(test);

	kpkeys_batch_begin();
	fill(ptdesc_address(pt));
	kpkeys_batch_end();
	EXPECT_PROTECTED(test, ptdesc_address(pt));
	pagetable_free(pt);
}

/* Runs at any level: expectations that hold do not allocate. */
static void expect_lazy_writers_work(struct kunit *test, pte_t *table)
{
	pte_t pte;

	lazy_set_ptes(&init_mm, 0, table, pfn_pte(1, PAGE_KERNEL), 2);
	KUNIT_EXPECT_EQ(test, pte_pfn(ptep_get(table)), 1);
	KUNIT_EXPECT_EQ(test, pte_pfn(ptep_get(table + 1)), 2);

	lazy_wrprotect_ptes(&init_mm, 0, table, 1);
	KUNIT_EXPECT_FALSE(test, pte_write(ptep_get(table)));
	KUNIT_EXPECT_TRUE(test, pte_write(ptep_get(table + 1)));
	lazy_wrprotect_ptes(&init_mm, 0, table, 2);
	KUNIT_EXPECT_FALSE(test, pte_write(ptep_get(table + 1)));

	pte = lazy_get_and_clear_full_ptes(&init_mm, 0, table, 2, 0);
	KUNIT_EXPECT_EQ(test, pte_pfn(pte), 1);
	KUNIT_EXPECT_FALSE(test, pte_write(pte));
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table)));
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table + 1)));

	lazy_set_ptes(&init_mm, 0, table, pfn_pte(1, PAGE_KERNEL), 2);
	lazy_clear_full_ptes(&init_mm, 0, table, 2, 1);
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table)));
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table + 1)));

	/* arm64 handles single entries differently. */
	lazy_set_ptes(&init_mm, 0, table, pfn_pte(1, PAGE_KERNEL), 1);
	KUNIT_EXPECT_EQ(test, pte_pfn(ptep_get(table)), 1);
	pte = lazy_get_and_clear_full_ptes(&init_mm, 0, table, 1, 0);
	KUNIT_EXPECT_EQ(test, pte_pfn(pte), 1);
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table)));
	lazy_set_ptes(&init_mm, 0, table, pfn_pte(1, PAGE_KERNEL), 1);
	lazy_clear_full_ptes(&init_mm, 0, table, 1, 0);
	KUNIT_EXPECT_TRUE(test, pte_none(ptep_get(table)));
}

/* A writer must not rely on a level that was raised earlier. */
static void lazy_writers_at_any_level(struct kunit *test)
{
	unsigned long violations = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct ptdesc *pt = new_table(test);
	pte_t *table = ptdesc_address(pt);

	kpkeys_batch_begin();
	expect_lazy_writers_work(test, table);
	kpkeys_batch_end();
	EXPECT_LEVEL_DEFAULT(test);
	expect_lazy_writers_work(test, table);
	EXPECT_LEVEL_DEFAULT(test);

	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), violations);
	EXPECT_PROTECTED(test, table);
	pagetable_free(pt);
}

struct irq_sample {
	struct hrtimer timer;
	pte_t *table;
	u64 on_entry, in_guard, behind_guard;
	bool done;
};

static enum hrtimer_restart sample_in_irq(struct hrtimer *timer)
{
	struct irq_sample *sample = container_of(timer, typeof(*sample), timer);

	sample->on_entry = arch_kpkeys_read_reg();
	/* Must raise the level itself, although a section was interrupted. */
	set_pte(sample->table, pfn_pte(1, PAGE_KERNEL));
	scoped_guard(kpkeys_hardened_pgtables) {
		sample->in_guard = arch_kpkeys_read_reg();
	}
	sample->behind_guard = arch_kpkeys_read_reg();
	WRITE_ONCE(sample->done, true);
	return HRTIMER_NORESTART;
}

static void interrupt_section(struct kunit *test, bool held_back)
{
	struct ptdesc *pt = new_table(test);
	struct irq_sample sample = { .table = ptdesc_address(pt) };
	unsigned long long spins = 0;
	unsigned long flags;
	u64 after;

	hrtimer_setup_on_stack(&sample.timer, sample_in_irq, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_HARD);
	/* Stay on this CPU: the timer interrupts it. */
	preempt_disable();
	hrtimer_start(&sample.timer, ms_to_ktime(5), HRTIMER_MODE_REL_HARD);
	kpkeys_batch_begin();
	while (!READ_ONCE(sample.done) && spins++ < 1ULL << 30) {
		if (!held_back)
			continue;
		/*
		 * Mostly disabled, so that the interrupt arrives when they are
		 * enabled.
		 */
		local_irq_save(flags);
		udelay(100);
		local_irq_restore(flags);
	}
	after = arch_kpkeys_read_reg();
	fill(ptdesc_address(pt));
	kpkeys_batch_end();
	preempt_enable();
	hrtimer_cancel(&sample.timer);
	destroy_hrtimer_on_stack(&sample.timer);

	KUNIT_ASSERT_TRUE(test, sample.done);
	KUNIT_EXPECT_EQ(test, sample.on_entry, level_reg_default());
	KUNIT_EXPECT_EQ(test, sample.in_guard, level_reg_pgtables());
	KUNIT_EXPECT_EQ(test, sample.behind_guard, level_reg_default());
	if (!held_back)
		KUNIT_EXPECT_EQ(test, after, level_reg_batch());
	EXPECT_LEVEL_DEFAULT(test);
	EXPECT_PROTECTED(test, ptdesc_address(pt));
	pagetable_free(pt);
}

static void interrupt_inside_section(struct kunit *test)
{
	skip_unless_protected(test);
	interrupt_section(test, false);
}

static void held_back_interrupt_inside_section(struct kunit *test)
{
	skip_unless_protected(test);
	interrupt_section(test, true);
}

static enum hrtimer_restart count_tick(struct hrtimer *timer)
{
	struct irq_sample *sample = container_of(timer, typeof(*sample), timer);

	sample->on_entry++;
	hrtimer_forward_now(timer, us_to_ktime(100));
	return HRTIMER_RESTART;
}

/* Interrupts must be harmless at any instruction of a guard. */
static void writes_survive_interrupts(struct kunit *test)
{
	struct ptdesc *pt = new_table(test);
	struct irq_sample sample = { };
	unsigned long end;

	hrtimer_setup_on_stack(&sample.timer, count_tick, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_HARD);
	preempt_disable();
	hrtimer_start(&sample.timer, us_to_ktime(100), HRTIMER_MODE_REL_HARD);
	end = jiffies + HZ / 5;
	while (time_before(jiffies, end)) {
		kpkeys_batch_begin();
		fill(ptdesc_address(pt));
		kpkeys_batch_end();
	}
	preempt_enable();
	hrtimer_cancel(&sample.timer);
	destroy_hrtimer_on_stack(&sample.timer);

	KUNIT_EXPECT_GT(test, sample.on_entry, 0);
	EXPECT_LEVEL_DEFAULT(test);
	pagetable_free(pt);
}

static void allocation_inside_section_warns(struct kunit *test)
{
	struct kmem_cache *cache;
	void *p, *first;

	skip_unless_protected(test);
	if (!batched_boot() || !IS_ENABLED(CONFIG_KPKEYS_DEBUG))
		kunit_skip(test, "needs KPKEYS_DEBUG and batching");

	/* With a slab that has room: a new one would warn for its page as well. */
	cache = kmem_cache_create("kpkeys_batch_test", 8, 8, SLAB_NO_MERGE, NULL);
	KUNIT_ASSERT_NOT_NULL(test, cache);
	first = kmem_cache_alloc(cache, GFP_KERNEL);
	kunit_warning_suppress(test) {
		kpkeys_batch_begin();
		p = kmem_cache_alloc(cache, GFP_ATOMIC);
		kpkeys_batch_end();
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_NOT_NULL(test, first);
	if (p)
		kmem_cache_free(cache, p);
	if (first)
		kmem_cache_free(cache, first);
	kmem_cache_destroy(cache);
	EXPECT_LEVEL_DEFAULT(test);
}

static struct kunit_case batch_cases[] = {
	KUNIT_CASE(section_switches_once),
	KUNIT_CASE(sections_pause),
	KUNIT_CASE(mapping_of_memory_ends_its_section),
	KUNIT_CASE(remapping_ends_its_section),
	KUNIT_CASE(pausing_no_section_raises_nothing),
	KUNIT_CASE(forged_nesting_raises_nothing),
	KUNIT_CASE(table_is_protected_after_a_section),
	KUNIT_CASE(lazy_writers_at_any_level),
	KUNIT_CASE(interrupt_inside_section),
	KUNIT_CASE(held_back_interrupt_inside_section),
	KUNIT_CASE(writes_survive_interrupts),
	KUNIT_CASE(allocation_inside_section_warns),
	{}
};

/* No batch raises while processes are searched for mappings. */
static int keep_searches_off(struct kunit *test)
{
	disable_delayed_work_sync(&kpkeys_pgtables_pool.sync->work);
	return 0;
}

static void allow_searches(struct kunit *test)
{
	enable_delayed_work(&kpkeys_pgtables_pool.sync->work);
}

static struct kunit_suite batch_suite = {
	.name = "kpkeys_batch",
	.init = keep_searches_off,
	.exit = allow_searches,
	.test_cases = batch_cases,
};

kunit_test_suite(batch_suite);
