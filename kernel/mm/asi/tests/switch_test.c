// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of address space isolation: entering and leaving the restricted
 * address space. They need asi=on.
 */
#include <kunit/test.h>
#include <linux/asi.h>
#include <linux/gfp.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_context.h>
#include <linux/nmi.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/apic.h>
#include <asm/asi.h>
#include <asm/cpu_entry_area.h>
#include <asm/cpufeature.h>
#include <asm/nmi.h>
#include <asm/tlbflush.h>

#include "../../page_alloc.h"
#include "../asi.h"

#define VALUE		0x5a
/* Retries, because an interrupt may leave the restricted address space. */
#define TRIES		10

#define skip_unless_enabled(test)					\
	do {								\
		if (!asi_enabled())					\
			kunit_skip(test, "needs asi=on");		\
	} while (0)

/* === A process and its memory =========================================== */

static void put_memory(void *page)
{
	__free_page(page);
}

/* A page, sensitive or not depending on @gfp. */
static u8 *switch_test_memory(struct kunit *test, gfp_t gfp)
{
	struct page *page = alloc_page(gfp | __GFP_ZERO);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_memory, page),
			0);
	*(u8 *)page_address(page) = VALUE;
	return page_address(page);
}

static void switch_test_unmap(void *addr)
{
	vunmap(addr);
}

/* Give the test thread an mm: it needs a user address space to enter. */
static void switch_test_attach(struct kunit *test)
{
	skip_unless_enabled(test);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
}

static void put_other(void *mm)
{
	mmput(mm);
}

static struct mm_struct *other_process(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_other, mm), 0);
	return mm;
}

static unsigned long switch_test_count(enum asi_switch what)
{
	return this_cpu_read(asi_switches[what]);
}

/*
 * Actions run with interrupts off, so that nothing else switches. The
 * expectations print, so they come after interrupts are enabled again.
 */
struct seen {
	bool before;
	bool after;
	u8 value;
	int error;
	unsigned long events;
};

static void expect_seen(struct kunit *test, const struct seen *seen,
			bool before, bool after, unsigned long events)
{
	KUNIT_EXPECT_EQ(test, seen->before, before);
	KUNIT_EXPECT_EQ(test, seen->after, after);
	KUNIT_EXPECT_EQ(test, seen->events, events);
}

/* Enter, perform an action, and record the resulting state. */
#define observe(seen, event, action) do {				\
	unsigned long flags_;						\
									\
	local_irq_save(flags_);						\
	asi_enter();							\
	(seen).before = asi_restricted();				\
	(seen).events = switch_test_count(event);					\
	action;								\
	(seen).events = switch_test_count(event) - (seen).events;			\
	(seen).after = asi_restricted();				\
	asi_exit(ASI_EXIT_TEMPORARY_MM);				\
	local_irq_restore(flags_);					\
} while (0)

/* === Four top-level tables ================================================ */

/* The asi suite tests the kernel page tables. */
static void user_mode_has_the_same_tables(struct kunit *test)
{
	unsigned long addr;
	pgd_t *user;

	switch_test_attach(test);
	if (!cpu_feature_enabled(X86_FEATURE_PTI))
		kunit_skip(test, "needs pti=on");

	/* Populate the user half. */
	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	user = kernel_to_user_pgdp(current->mm->pgd);
	KUNIT_EXPECT_NE(test, pgd_val(user[pgd_index(addr)]), 0);
	KUNIT_EXPECT_NE(test, pgd_val(user[pgd_index(CPU_ENTRY_AREA_BASE)]), 0);
	KUNIT_EXPECT_MEMEQ(test, asi_restricted_pgd(user), user, PAGE_SIZE);
}

/* === Faults =============================================================== */

static void sensitive_memory_is_a_fault_and_an_exit(struct kunit *test)
{
	struct seen seen = {};
	u8 *addr;

	switch_test_attach(test);
	addr = switch_test_memory(test, GFP_HIGHUSER);

	observe(seen, ASI_EXIT_FAULT, seen.value = READ_ONCE(*addr));
	expect_seen(test, &seen, true, false, 1);
	KUNIT_EXPECT_EQ(test, seen.value, VALUE);

	observe(seen, ASI_EXIT_FAULT, WRITE_ONCE(*addr, VALUE + 1));
	expect_seen(test, &seen, true, false, 1);
	KUNIT_EXPECT_EQ(test, *addr, VALUE + 1);

	/* A single exit, despite more accesses. */
	observe(seen, ASI_EXIT_FAULT, memset(addr, 0, PAGE_SIZE));
	expect_seen(test, &seen, true, false, 1);
}

static int in_the_image = VALUE;
static DEFINE_PER_CPU(u8, per_cpu_value);

static void other_memory_is_neither(struct kunit *test)
{
	struct seen seen = {};
	u8 on_the_stack = VALUE;
	u8 *page, *slab, *area;

	switch_test_attach(test);
	page = switch_test_memory(test, GFP_KERNEL);
	slab = kunit_kzalloc(test, 64, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slab);
	area = vmalloc(PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, area);

	observe(seen, ASI_EXIT_FAULT, ({
		WRITE_ONCE(*page, VALUE);
		WRITE_ONCE(*slab, VALUE);
		WRITE_ONCE(*area, VALUE);
		WRITE_ONCE(on_the_stack, VALUE);
		WRITE_ONCE(in_the_image, VALUE);
		this_cpu_write(per_cpu_value, VALUE);
		(void)READ_ONCE(virt_to_page(page)->flags);
	}));
	expect_seen(test, &seen, true, true, 0);
	vfree(area);
}

/* An address that is mapped nowhere faults again, as a real fault. */
static void a_wild_address_is_a_real_fault(struct kunit *test)
{
	struct seen seen = {};
	u8 *area, value;

	switch_test_attach(test);
	area = vmalloc(PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, area);

	/* vmalloc() leaves a guard page behind the area. */
	observe(seen, ASI_EXIT_FAULT,
		seen.error = copy_from_kernel_nofault(&value, area + PAGE_SIZE, 1));
	expect_seen(test, &seen, true, false, 1);
	KUNIT_EXPECT_EQ(test, seen.error, -EFAULT);
	vfree(area);
}

static void it_is_not_reached_without_leaving(struct kunit *test)
{
	struct seen seen = {};
	u8 *addr, value;

	if (!IS_ENABLED(CONFIG_ASI_DEBUG))
		kunit_skip(test, "needs ASI_DEBUG");
	switch_test_attach(test);
	addr = switch_test_memory(test, GFP_HIGHUSER);

	observe(seen, ASI_EXIT_FAULT, ({
		this_cpu_write(asi_stay, true);
		seen.error = copy_from_kernel_nofault(&value, addr, 1);
		this_cpu_write(asi_stay, false);
	}));
	expect_seen(test, &seen, true, true, 0);
	KUNIT_EXPECT_EQ(test, seen.error, -EFAULT);
}

/* It is mapped, and so there is nothing to be had by leaving. */
static void a_protection_fault_stays(struct kunit *test)
{
	u8 *memory, *addr, value = 0;
	struct seen seen = {};
	struct page *page;

	switch_test_attach(test);
	memory = switch_test_memory(test, GFP_KERNEL);
	page = virt_to_page(memory);
	addr = vmap(&page, 1, VM_MAP, PAGE_KERNEL_RO);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, switch_test_unmap,
							addr), 0);

	observe(seen, ASI_EXIT_FAULT,
		seen.error = copy_to_kernel_nofault(addr, &value, 1));
	expect_seen(test, &seen, true, true, 0);
	KUNIT_EXPECT_EQ(test, seen.error, -EFAULT);
	KUNIT_EXPECT_EQ(test, *memory, VALUE);
}

/* User memory is the same in both address spaces. */
static void a_fault_of_user_memory_stays(struct kunit *test)
{
	struct seen seen = {};
	unsigned long user;
	u8 value;

	switch_test_attach(test);
	user = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(user));

	observe(seen, ASI_EXIT_FAULT,
		seen.error = copy_from_user_nofault(&value, (u8 __user *)user, 1));
	expect_seen(test, &seen, true, true, 0);
	KUNIT_EXPECT_EQ(test, seen.error, -EFAULT);
}

/* === CR3 writes ========================================================== */

static void flushing_stays(struct kunit *test)
{
	struct seen seen = {};

	switch_test_attach(test);
	observe(seen, ASI_EXIT_FAULT, flush_tlb_local());
	expect_seen(test, &seen, true, true, 0);
	observe(seen, ASI_EXIT_FAULT, __flush_tlb_all());
	expect_seen(test, &seen, true, true, 0);
}

static void the_same_process_stays(struct kunit *test)
{
	struct mm_struct *mm;
	struct seen seen = {};

	switch_test_attach(test);
	mm = current->mm;
	observe(seen, ASI_EXIT_SWITCH_MM, switch_mm_irqs_off(mm, mm, current));
	expect_seen(test, &seen, true, true, 0);

	/* Via a kernel thread, without and with a pending TLB flush. */
	observe(seen, ASI_EXIT_SWITCH_MM, ({
		enter_lazy_tlb(mm, current);
		switch_mm_irqs_off(mm, mm, current);
	}));
	expect_seen(test, &seen, true, true, 0);
	observe(seen, ASI_EXIT_SWITCH_MM, ({
		enter_lazy_tlb(mm, current);
		inc_mm_tlb_gen(mm);
		switch_mm_irqs_off(mm, mm, current);
	}));
	expect_seen(test, &seen, true, true, 0);
	/* Nor is it a switch to another one. */
	observe(seen, ASI_SWITCH_MM, ({
		enter_lazy_tlb(mm, current);
		inc_mm_tlb_gen(mm);
		switch_mm_irqs_off(mm, mm, current);
	}));
	expect_seen(test, &seen, true, true, 0);
}

static void another_process_stays(struct kunit *test)
{
	struct mm_struct *mm, *other;
	struct seen seen = {};

	switch_test_attach(test);
	mm = current->mm;
	other = other_process(test);
	observe(seen, ASI_SWITCH_MM, ({
		switch_mm_irqs_off(mm, other, current);
		switch_mm_irqs_off(other, mm, current);
	}));
	expect_seen(test, &seen, true, true, 2);
}

static void what_is_of_no_process_leaves(struct kunit *test)
{
	struct seen seen = {};
	struct mm_struct *mm;

	switch_test_attach(test);
	mm = current->mm;
	observe(seen, ASI_EXIT_SWITCH_MM, ({
		switch_mm_irqs_off(mm, &init_mm, current);
		switch_mm_irqs_off(&init_mm, mm, current);
	}));
	expect_seen(test, &seen, true, false, 1);
}

static void a_temporary_address_space_leaves(struct kunit *test)
{
	struct mm_struct *other;
	struct seen seen = {};

	switch_test_attach(test);
	other = other_process(test);
	observe(seen, ASI_EXIT_TEMPORARY_MM,
		unuse_temporary_mm(use_temporary_mm(other)));
	expect_seen(test, &seen, true, false, 1);
}

/* === TLB flushes ========================================================== */

/* An address, and two PTEs for it whose pages differ in the first byte. */
struct exchanged {
	u8 *addr;
	pte_t *pte;
	pte_t before;
	pte_t after;
};

static pte_t entry_for(const pte_t *pte, const u8 *memory)
{
	pgprot_t prot = pte_pgprot(*pte);

	/* Any flush removes global entries from both address spaces. */
	pgprot_val(prot) &= ~_PAGE_GLOBAL;
	return pfn_pte(page_to_pfn(virt_to_page(memory)), prot);
}

static void map_for_exchange(struct kunit *test, struct exchanged *map)
{
	u8 *before = switch_test_memory(test, GFP_KERNEL);
	u8 *after = switch_test_memory(test, GFP_KERNEL);
	struct page *page = virt_to_page(before);
	unsigned int level;

	*after = (u8)~VALUE;
	map->addr = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, map->addr);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, switch_test_unmap,
							map->addr), 0);
	map->pte = lookup_address((unsigned long)map->addr, &level);
	KUNIT_ASSERT_NOT_NULL(test, map->pte);
	map->before = entry_for(map->pte, before);
	map->after = entry_for(map->pte, after);
}

/*
 * Cache the address in both address spaces, change the PTE, flush, and look:
 * returns the number of address spaces that see the new page.
 */
static unsigned int switch_test_exchange(const struct exchanged *map,
					 bool restricted,
					 void (*flush)(unsigned long addr))
{
	unsigned long flags;
	u8 here, there;

	local_irq_save(flags);
	set_pte(map->pte, map->before);
	__flush_tlb_all();
	asi_enter();
	(void)READ_ONCE(*map->addr);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	(void)READ_ONCE(*map->addr);

	if (restricted)
		asi_enter();
	set_pte(map->pte, map->after);
	flush((unsigned long)map->addr);
	here = READ_ONCE(*map->addr);
	if (restricted)
		asi_exit(ASI_EXIT_TEMPORARY_MM);
	else
		asi_enter();
	there = READ_ONCE(*map->addr);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	__flush_tlb_all();
	local_irq_restore(flags);

	return (here == (u8)~VALUE) + (there == (u8)~VALUE);
}

/*
 * The same for a kernel address and another process: kernel memory is not
 * global, and with PCID, the TLB has entries of it for each process.
 */
static void what_is_flushed_is_so_in_other_processes(struct kunit *test)
{
	struct mm_struct *mm, *other;
	struct exchanged map;
	unsigned long flags;
	u8 there;

	switch_test_attach(test);
	map_for_exchange(test, &map);
	other = other_process(test);
	mm = current->mm;

	local_irq_save(flags);
	set_pte(map.pte, map.before);
	__flush_tlb_all();
	switch_mm_irqs_off(mm, other, current);
	(void)READ_ONCE(*map.addr);
	switch_mm_irqs_off(other, mm, current);

	set_pte(map.pte, map.after);
	flush_tlb_one_kernel((unsigned long)map.addr);
	switch_mm_irqs_off(mm, other, current);
	there = READ_ONCE(*map.addr);
	switch_mm_irqs_off(other, mm, current);
	__flush_tlb_all();
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, there, (u8)~VALUE);
}

/* A switch that need not flush must, if a flush was only noted. */
static void what_is_stale_is_flushed_by_a_switch(struct kunit *test)
{
	struct mm_struct *mm, *other;
	struct exchanged map;
	unsigned long flags;
	u8 there;

	switch_test_attach(test);
	map_for_exchange(test, &map);
	other = other_process(test);
	mm = current->mm;

	local_irq_save(flags);
	set_pte(map.pte, map.before);
	__flush_tlb_all();
	asi_enter();
	switch_mm_irqs_off(mm, other, current);
	switch_mm_irqs_off(other, mm, current);
	(void)READ_ONCE(*map.addr);
	asi_exit(ASI_EXIT_TEMPORARY_MM);

	set_pte(map.pte, map.after);
	flush_tlb_local();
	switch_mm_irqs_off(mm, other, current);
	asi_enter();
	switch_mm_irqs_off(other, mm, current);
	there = READ_ONCE(*map.addr);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	__flush_tlb_all();
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, there, (u8)~VALUE);
}

/* Convert ordinary pageblocks that are free, until this one is sensitive. */
static bool convert_to_sensitive(struct page *page)
{
	unsigned long addr = (unsigned long)page_address(page);
	bool sensitive = false;

	while (!sensitive && asi_convert(page_zone(page), 0, GFP_KERNEL,
					 MIGRATE_MOVABLE))
		asi_look(page, addr, &sensitive);
	return sensitive;
}

/* Returns whether the CPU stayed until the block was sensitive. */
static bool see_a_block_converted(struct kunit *test, struct seen *seen)
{
	struct page *page = alloc_pages(GFP_KERNEL, pageblock_order);
	unsigned long flags;
	bool stayed;
	u8 *addr;

	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = page_address(page);
	__free_pages(page, pageblock_order);
	drain_all_pages(NULL);

	/* Another task could have the TLB flushed for its own reasons. */
	preempt_disable();
	local_irq_save(flags);
	asi_enter();
	local_irq_restore(flags);
	copy_from_kernel_nofault(&seen->value, addr, 1);
	stayed = convert_to_sensitive(page);

	local_irq_save(flags);
	stayed &= asi_restricted();
	seen->events = switch_test_count(ASI_EXIT_FAULT);
	copy_from_kernel_nofault(&seen->value, addr, 1);
	seen->events = switch_test_count(ASI_EXIT_FAULT) - seen->events;
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	local_irq_restore(flags);
	preempt_enable();
	return stayed;
}

static void what_becomes_sensitive_is_flushed(struct kunit *test)
{
	struct seen seen = {};
	int tries;

	switch_test_attach(test);
	if (debug_pagealloc_enabled())
		kunit_skip(test, "free memory cannot be looked at");
	for (tries = 0; tries < TRIES; tries++)
		if (see_a_block_converted(test, &seen))
			break;
	KUNIT_EXPECT_LT(test, tries, TRIES);
	KUNIT_EXPECT_EQ(test, seen.events, 1);
}

static void flush_nothing(unsigned long addr)
{
}

static void flush_local(unsigned long addr)
{
	flush_tlb_local();
}

static void flush_everything(unsigned long addr)
{
	__flush_tlb_all();
}

static void what_is_flushed_is_so_in_both(struct kunit *test)
{
	struct exchanged map;
	int i;

	switch_test_attach(test);
	map_for_exchange(test, &map);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, switch_test_exchange(&map, i,
							   flush_tlb_one_kernel), 2);
		KUNIT_EXPECT_EQ(test, switch_test_exchange(&map, i,
							   flush_local), 2);
		KUNIT_EXPECT_EQ(test, switch_test_exchange(&map, i,
							   flush_everything), 2);
		/*
		 * Not an expectation: shows whether the TLB would have been
		 * stale.
		 */
		kunit_info(test, "%s, and nothing flushed: new in %u of 2",
			   i ? "restricted" : "unrestricted",
			   switch_test_exchange(&map, i, flush_nothing));
	}
}

/* === NMIs ================================================================= */

static bool nmi_came, nmi_began_restricted;
static void (*nmi_does)(void);

static int in_nmi_test(unsigned int type, struct pt_regs *regs)
{
	if (nmi_came)
		return NMI_DONE;
	nmi_began_restricted = asi_restricted();
	nmi_does();
	WRITE_ONCE(nmi_came, true);
	return NMI_HANDLED;
}

static void no_more_nmis(void *unused)
{
	unregister_nmi_handler(NMI_LOCAL, "asi_test");
}

static void have_nmi_do(struct kunit *test, void (*does)(void))
{
	nmi_does = does;
	nmi_came = false;
	KUNIT_ASSERT_EQ(test, register_nmi_handler(NMI_LOCAL, in_nmi_test, 0,
						   "asi_test"), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, no_more_nmis,
							NULL), 0);
}

static void send_nmi(void)
{
	int tries = 1000000;

	__apic_send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
	while (!READ_ONCE(nmi_came) && --tries)
		cpu_relax();
}

static void expect_nmi(struct kunit *test, bool began_restricted)
{
	KUNIT_EXPECT_TRUE(test, nmi_came);
	KUNIT_EXPECT_EQ(test, nmi_began_restricted, began_restricted);
}

static u8 *nmi_reads;

static void read_in_nmi(void)
{
	(void)READ_ONCE(*nmi_reads);
}

/* The NMI may arrive right before user mode. */
static void an_nmi_ends_where_it_began(struct kunit *test)
{
	struct seen seen = {}, reads = {};

	switch_test_attach(test);
	nmi_reads = switch_test_memory(test, GFP_HIGHUSER);
	have_nmi_do(test, read_in_nmi);
	observe(seen, ASI_REENTER, ({
		reads.events = switch_test_count(ASI_EXIT_FAULT);
		send_nmi();
		reads.events = switch_test_count(ASI_EXIT_FAULT) - reads.events;
	}));
	expect_nmi(test, true);
	expect_seen(test, &seen, true, true, 1);
	KUNIT_EXPECT_EQ(test, reads.events, 1);
}

static struct mm_struct *nmi_other;

static void patch_in_nmi(void)
{
	unuse_temporary_mm(use_temporary_mm(nmi_other));
}

/* A debugger may interrupt a kernel thread, which drops its lazy mm. */
static void an_nmi_does_not_restrict_other_tables(struct kunit *test)
{
	struct seen seen = {};
	struct mm_struct *mm;

	switch_test_attach(test);
	mm = current->mm;
	nmi_other = other_process(test);
	have_nmi_do(test, patch_in_nmi);
	observe(seen, ASI_REENTER, ({
		enter_lazy_tlb(mm, current);
		send_nmi();
		seen.error = this_cpu_read(cpu_tlbstate.loaded_mm) != &init_mm;
		switch_mm_irqs_off(NULL, mm, current);
	}));
	expect_nmi(test, true);
	KUNIT_EXPECT_EQ(test, seen.error, 0);
	expect_seen(test, &seen, true, false, 0);
}

static void an_nmi_does_not_enter(struct kunit *test)
{
	struct seen seen = {};

	switch_test_attach(test);
	nmi_reads = switch_test_memory(test, GFP_HIGHUSER);
	have_nmi_do(test, read_in_nmi);
	observe(seen, ASI_REENTER, ({
		(void)READ_ONCE(*nmi_reads);
		send_nmi();
	}));
	expect_nmi(test, false);
	expect_seen(test, &seen, true, false, 0);
}

/* An exception in an NMI leaves it to the NMI to return. */
static void the_first_of_nested_nmis_returns(struct kunit *test)
{
	struct pt_regs first = {}, second = {};
	struct seen seen = {};

	switch_test_attach(test);
	observe(seen, ASI_REENTER, ({
		asi_nmi_enter(&first);
		asi_nmi_enter(&second);
		asi_nmi_exit(&second);
		asi_exit(ASI_EXIT_TEMPORARY_MM);
		asi_nmi_exit(&first);
	}));
	expect_seen(test, &seen, true, true, 1);

	/* The next one has nothing to return to, although it looks the same. */
	observe(seen, ASI_REENTER, ({
		asi_exit(ASI_EXIT_TEMPORARY_MM);
		asi_nmi_enter(&first);
		asi_nmi_exit(&first);
	}));
	expect_seen(test, &seen, true, false, 0);
}

static struct kunit_case asi_switch_cases[] = {
	KUNIT_CASE(user_mode_has_the_same_tables),
	KUNIT_CASE(sensitive_memory_is_a_fault_and_an_exit),
	KUNIT_CASE(other_memory_is_neither),
	KUNIT_CASE(a_wild_address_is_a_real_fault),
	KUNIT_CASE(it_is_not_reached_without_leaving),
	KUNIT_CASE(a_protection_fault_stays),
	KUNIT_CASE(a_fault_of_user_memory_stays),
	KUNIT_CASE(flushing_stays),
	KUNIT_CASE(the_same_process_stays),
	KUNIT_CASE(another_process_stays),
	KUNIT_CASE(what_is_of_no_process_leaves),
	KUNIT_CASE(a_temporary_address_space_leaves),
	KUNIT_CASE(what_is_flushed_is_so_in_both),
	KUNIT_CASE(what_is_flushed_is_so_in_other_processes),
	KUNIT_CASE(what_is_stale_is_flushed_by_a_switch),
	KUNIT_CASE(what_becomes_sensitive_is_flushed),
	KUNIT_CASE(an_nmi_ends_where_it_began),
	KUNIT_CASE(an_nmi_does_not_enter),
	KUNIT_CASE(an_nmi_does_not_restrict_other_tables),
	KUNIT_CASE(the_first_of_nested_nmis_returns),
	{}
};

static struct kunit_suite asi_switch_suite = {
	.name = "asi_switch",
	.test_cases = asi_switch_cases,
};

kunit_test_suite(asi_switch_suite);
