// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of PKS: interrupts, NMIs and exceptions at every step of a level
 * switch, writes to the register by others, warnings, initial page tables.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kdebug.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_batch.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/smp.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/debugreg.h>
#include <asm/extable_fixup_types.h>
#include <asm/mmu_context.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/pgalloc.h>
#include <asm/pks.h>
#include <asm/realmode.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>

#include "../../../mm/kpkeys/kpkeys.h"
#ifdef CONFIG_X86_MCE
#include "../kernel/cpu/mce/internal.h"
#endif

#define STORM_JIFFIES	(2 * HZ)
#define TIMER_NS	(100 * NSEC_PER_USEC)

/* Written by handlers on the CPU under test. */
static struct storm {
	struct hrtimer timer;
	int cpu;
	bool over;
	atomic_t nmis, timers;
	atomic_t raised;	/* handlers that interrupted a raised level */
	atomic_t bad;		/* handlers that found something wrong */
} storm;

/* Invariants of any handler. */
static void pks_storm_look(void)
{
	if (x86_read_pkrs() != PKRS_DEFAULT || raw_cpu_read(kpkeys_ledger.level))
		atomic_inc(&storm.bad);
	if (x86_pks_interrupted() == PKRS_PGTABLES)
		atomic_inc(&storm.raised);
	scoped_guard(kpkeys_hardened_pgtables) {
		if (x86_read_pkrs() != PKRS_PGTABLES)
			atomic_inc(&storm.bad);
	}
	if (x86_read_pkrs() != PKRS_DEFAULT)
		atomic_inc(&storm.bad);
}

static int on_nmi(unsigned int val, struct pt_regs *regs)
{
	if (raw_smp_processor_id() != READ_ONCE(storm.cpu))
		return NMI_DONE;
	atomic_inc(&storm.nmis);
	pks_storm_look();
	return NMI_HANDLED;
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	atomic_inc(&storm.timers);
	pks_storm_look();
	hrtimer_forward_now(timer, ns_to_ktime(TIMER_NS));
	return READ_ONCE(storm.over) ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

static void send_nmi(void)
{
	__apic_send_IPI(storm.cpu, NMI_VECTOR);
}

static int pks_storm_send(void *unused)
{
	while (!kthread_should_stop()) {
		send_nmi();
		cond_resched();
	}
	return 0;
}

/* Did enough handlers run for the test to mean something? */
static bool pks_storm_was_heavy(void)
{
	return atomic_read(&storm.nmis) > 100 && atomic_read(&storm.timers) > 100 &&
	       atomic_read(&storm.raised) > 10;
}

static void write_under_storm(struct kunit *test, unsigned long *table)
{
	unsigned long end = jiffies + STORM_JIFFIES;
	unsigned long latest = end + 10 * HZ;
	unsigned int i = 0, wrong = 0;

	/* An emulated CPU may be given little time. */
	while (time_before(jiffies, end) ||
	       (!pks_storm_was_heavy() && time_before(jiffies, latest))) {
		i++;
		/*
		 * Sometimes hit both ends of the window with a self-sent NMI.
		 */
		if (i % 64 == 0)
			send_nmi();
		scoped_guard(kpkeys_hardened_pgtables) {
			WRITE_ONCE(table[i % 512], i);
			wrong += x86_read_pkrs() != PKRS_PGTABLES;
			if (i % 64 == 32)
				send_nmi();
			wrong += x86_read_pkrs() != PKRS_PGTABLES;
		}
		wrong += x86_read_pkrs() != PKRS_DEFAULT;

		kpkeys_batch_begin();
		scoped_guard(kpkeys_hardened_pgtables) {
			WRITE_ONCE(table[i % 512], i);
		}
		scoped_guard(kpkeys_hardened_pgtables) {
			WRITE_ONCE(table[i % 512], 0);
		}
		kpkeys_batch_end();
		wrong += x86_read_pkrs() != PKRS_DEFAULT;
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void storm_of_interrupts_and_nmis(struct kunit *test)
{
	struct task_struct *task = NULL;
	struct ptdesc *pt;
	bool empty;
	int other;

	if (!kpkeys_hardened_pgtables_enabled())
		kunit_skip(test, "page tables are not hardened in this boot");
	if (!boot_cpu_has(X86_FEATURE_APIC))
		kunit_skip(test, "no APIC to send NMIs with");

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, pt);

	memset(&storm, 0, sizeof(storm));
	/* A context switch would end the level. */
	migrate_disable();
	storm.cpu = smp_processor_id();
	KUNIT_EXPECT_EQ(test, register_nmi_handler(NMI_LOCAL, on_nmi, 0,
						   "kpkeys_storm"), 0);
	other = cpumask_any_but(cpu_online_mask, storm.cpu);
	if (other < nr_cpu_ids) {
		task = kthread_run_on_cpu(pks_storm_send, NULL, other, "kpkeys_storm/%u");
		if (IS_ERR(task))
			task = NULL;
	}
	hrtimer_setup(&storm.timer, on_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&storm.timer, ns_to_ktime(TIMER_NS),
		      HRTIMER_MODE_REL_PINNED_HARD);

	write_under_storm(test, ptdesc_address(pt));

	WRITE_ONCE(storm.over, true);
	hrtimer_cancel(&storm.timer);
	if (task)
		kthread_stop(task);
	unregister_nmi_handler(NMI_LOCAL, "kpkeys_storm");
	empty = kpkeys_ledger_is_top(0) && !raw_cpu_read(kpkeys_ledger.depth);
	migrate_enable();
	pagetable_free(pt);

	kunit_info(test, "%d NMIs, %d timer interrupts, %d at a raised level",
		   atomic_read(&storm.nmis), atomic_read(&storm.timers),
		   atomic_read(&storm.raised));
	KUNIT_EXPECT_EQ(test, atomic_read(&storm.bad), 0);
	KUNIT_EXPECT_TRUE(test, empty);
	KUNIT_EXPECT_TRUE(test, pks_storm_was_heavy());
}

static noinline void pks_lower(void)
{
	kpkeys_lower();
}

/* Where the write of the register begins in pks_lower(), and its WRMSR. */
static const u8 *pks_write_of_lowering(void)
{
	static const u8 number[] = { 0xb9, MSR_IA32_PKRS & 0xff, MSR_IA32_PKRS >> 8 };
	const u8 *code = (const u8 *)pks_lower;
	int i;

	for (i = 0; i < 64; i++)
		if (!memcmp(code + i, number, sizeof(number)))
			return code + i;
	return NULL;
}

#define PKS_WRMSR	12
#define MOST_STEPS	16

static const u8 *pks_stepped;
static int pks_forged;

/* An attacker on another CPU, who changes a saved register in time. */
static int pks_forge_value(struct notifier_block *nb, unsigned long event, void *data)
{
	struct die_args *args = data;
	struct pt_regs *regs = args->regs;
	unsigned long done = regs->ip - (unsigned long)pks_stepped;

	if (event != DIE_DEBUG || user_mode(regs) || !(regs->flags & X86_EFLAGS_TF))
		return NOTIFY_DONE;

	if (done <= PKS_WRMSR) {
		regs->ax = PKRS_PGTABLES;
		/* A write that is begun anew never gets there. */
		if (++pks_forged == MOST_STEPS || done == PKS_WRMSR)
			regs->flags &= ~X86_EFLAGS_TF;
	}
	*(unsigned long *)ERR_PTR(args->err) &= ~DR_STEP;
	return NOTIFY_STOP;
}

static struct notifier_block pks_forge = { .notifier_call = pks_forge_value };

static void interrupted_write_takes_no_saved_value(struct kunit *test)
{
	u32 pkrs;

	if (!arch_kpkeys_enabled())
		kunit_skip(test, "there are no protection keys");
	pks_stepped = pks_write_of_lowering();
	KUNIT_ASSERT_NOT_NULL(test, pks_stepped);
	KUNIT_ASSERT_EQ(test, pks_stepped[PKS_WRMSR + 1], 0x30);
	pks_forged = 0;
	KUNIT_ASSERT_EQ(test, register_die_notifier(&pks_forge), 0);

	preempt_disable();
	kpkeys_raise(KPKEYS_LVL_PGTABLES);
	/* An exception after each instruction from now on. */
	asm volatile("pushfq\n\t"
		     "orq %0, (%%rsp)\n\t"
		     "popfq" : : "i" (X86_EFLAGS_TF) : "memory", "cc");
	pks_lower();
	pkrs = x86_read_pkrs();
	kpkeys_lower();
	preempt_enable();

	unregister_die_notifier(&pks_forge);
	KUNIT_EXPECT_GT(test, pks_forged, 0);
	KUNIT_EXPECT_EQ(test, pkrs, PKRS_DEFAULT);
}

static void only_a_write_is_begun_anew(struct kunit *test)
{
	static const u8 code[] = {
		0xb9, 0xe1, 0x06, 0, 0, 0x31, 0xd2, 0xb8, 1, 2, 3, 4, 0x0f, 0x30,
		/* The same, but for the number of the register. */
		0xb9, 0xe2, 0x06, 0, 0, 0x31, 0xd2, 0xb8, 1, 2, 3, 4, 0x0f, 0x30,
	};
	struct pt_regs regs = { };
	unsigned int i;

	for (i = 0; i < sizeof(code); i++) {
		unsigned int now = i == 5 || i == 7 || i == 12 ? 0 : i;

		regs.ip = (unsigned long)code + i;
		x86_pks_restart_write(&regs);
		KUNIT_EXPECT_EQ(test, regs.ip, (unsigned long)code + now);
	}
}

/* Like the MSR number of a perf event after an arbitrary write. */
static u32 any_msr = MSR_IA32_PKRS;

static void register_is_not_written_by_number(struct kunit *test)
{
	u32 regs[8] = { [0] = PKRS_PGTABLES, [1] = MSR_IA32_PKRS };
	u32 pkrs;

	if (!boot_cpu_has(X86_FEATURE_PKS))
		kunit_skip(test, "the CPU has no PKS, or it is not to be used");

	preempt_disable();
	pkrs = x86_read_pkrs();
	wrmsrq(READ_ONCE(any_msr), PKRS_PGTABLES);
	KUNIT_EXPECT_EQ(test, x86_read_pkrs(), pkrs);
	wrmsrns(READ_ONCE(any_msr), PKRS_PGTABLES);
	KUNIT_EXPECT_EQ(test, x86_read_pkrs(), pkrs);
	KUNIT_EXPECT_EQ(test, wrmsrq_safe(READ_ONCE(any_msr), PKRS_PGTABLES),
			-EIO);
	KUNIT_EXPECT_EQ(test, x86_read_pkrs(), pkrs);
	KUNIT_EXPECT_EQ(test, wrmsr_safe_regs(regs), -EIO);
	KUNIT_EXPECT_EQ(test, x86_read_pkrs(), pkrs);
#ifdef CONFIG_X86_MCE
	mce_wrmsrq(READ_ONCE(any_msr), PKRS_PGTABLES);
	KUNIT_EXPECT_EQ(test, x86_read_pkrs(), pkrs);
#endif
	preempt_enable();

	/* Reading works, so the number is right. */
	KUNIT_EXPECT_EQ(test, rdmsrq_safe(READ_ONCE(any_msr), &(u64){ 0 }), 0);
}

/* Redo a write only to a page table, and only if a key refused it. */
static void lazy_write_goes_to_tables_only(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	unsigned long *data = kunit_kzalloc(test, sizeof(*data), GFP_KERNEL);
	unsigned long *table, val = 1;
	struct pt_regs regs = { };

	KUNIT_ASSERT_NOT_NULL(test, pt);
	KUNIT_ASSERT_NOT_NULL(test, data);
	table = ptdesc_address(pt);

	KUNIT_EXPECT_FALSE(test, x86_pks_lazy_write(&regs, &val, EX_PKS_MOV, X86_PF_PK,
						    (unsigned long)data));
	KUNIT_EXPECT_EQ(test, *data, 0);
	KUNIT_EXPECT_FALSE(test, x86_pks_lazy_write(&regs, &val, EX_PKS_MOV, X86_PF_WRITE,
						    (unsigned long)table));
	KUNIT_EXPECT_EQ(test, *table, 0);

	KUNIT_EXPECT_EQ(test, kpkeys_hardened_pgtables_enabled(),
			x86_pks_lazy_write(&regs, &val, EX_PKS_MOV, X86_PF_PK,
					   (unsigned long)table));
	KUNIT_EXPECT_EQ(test, *table, kpkeys_hardened_pgtables_enabled());
	pagetable_free(pt);
}

/* The redone instruction may have lost a race. */
static void lazy_cmpxchg_tells_how_it_ended(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	struct pt_regs regs = { .ax = 7, .flags = X86_EFLAGS_ZF };
	unsigned long table, val = 8;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = (unsigned long)ptdesc_address(pt);
	if (!kpkeys_hardened_pgtables_enabled()) {
		pagetable_free(pt);
		kunit_skip(test, "page tables are not hardened in this boot");
	}

	KUNIT_EXPECT_TRUE(test, x86_pks_lazy_write(&regs, &val, EX_PKS_CMPXCHG, X86_PF_PK,
						   table));
	KUNIT_EXPECT_FALSE(test, regs.flags & X86_EFLAGS_ZF);
	KUNIT_EXPECT_EQ(test, regs.ax, 0);
	KUNIT_EXPECT_EQ(test, *(unsigned long *)table, 0);

	KUNIT_EXPECT_TRUE(test, x86_pks_lazy_write(&regs, &val, EX_PKS_CMPXCHG, X86_PF_PK,
						   table));
	KUNIT_EXPECT_TRUE(test, regs.flags & X86_EFLAGS_ZF);
	KUNIT_EXPECT_EQ(test, *(unsigned long *)table, 8);
	pagetable_free(pt);
}

/* The UD2 handler has its own entry and exit code. */
static void warning_starts_at_the_default_level(struct kunit *test)
{
	unsigned long flags;
	u32 at_entry;

	if (!kpkeys_hardened_pgtables_enabled())
		kunit_skip(test, "page tables are not hardened");

	kunit_warning_suppress(test) {
		local_irq_save(flags);
		raw_cpu_write(x86_pks_at_entry, PKRS_DEFAULT);
		scoped_guard(kpkeys_hardened_pgtables) {
			WARN_ON(true);
		}
		at_entry = raw_cpu_read(x86_pks_at_entry);
		local_irq_restore(flags);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, at_entry, PKRS_PGTABLES);
}

/* A suspend leaves the register as reset does. */
static void resume_sets_the_default_level(struct kunit *test)
{
	u64 reg;

	if (!arch_kpkeys_enabled())
		kunit_skip(test, "no kernel protection keys");

	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		x86_pks_resume();
		reg = arch_kpkeys_read_reg();
		/* The ledger has the level still. */
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_lower();
	}
	KUNIT_EXPECT_EQ(test, reg, PKRS_DEFAULT);
}

static phys_addr_t loaded_root(void)
{
	return __read_cr3() & CR3_ADDR_MASK;
}

/* In each way to load an address space: to a new number, and to one that it had. */
static void forged_root_is_not_loaded(struct kunit *test)
{
	struct mm_struct *mm, *other;
	unsigned long cr3;
	phys_addr_t expected;
	pgd_t *root;
	int i;

	if (IS_ENABLED(CONFIG_DEBUG_VM))
		kunit_skip(test, "Linux warns that mm->pgd is not what is loaded");

	mm = mm_alloc();
	other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_NOT_NULL(test, other);
	root = mm->pgd;
	expected = __pa(kpkeys_hardened_pgtables_enabled() ? root : other->pgd);

	/* Other CPUs would keep what they have loaded. */
	migrate_disable();
	kpkeys_expect_violation(true);
	WRITE_ONCE(mm->pgd, other->pgd);
	for (i = 0; i < 2; i++) {
		kthread_use_mm(mm);
		KUNIT_EXPECT_EQ(test, loaded_root(), expected);
		kthread_unuse_mm(mm);
		kthread_use_mm(other);
		KUNIT_EXPECT_EQ(test, loaded_root(), __pa(other->pgd));
		kthread_unuse_mm(other);
	}

	kthread_use_mm(mm);
	scoped_guard(irqsave)
		cr3 = __get_current_cr3_fast();
	KUNIT_EXPECT_EQ(test, cr3 & CR3_ADDR_MASK, expected);
	kunit_warning_suppress(test) {
		scoped_guard(irqsave)
			initialize_tlbstate_and_flush();
	}
	KUNIT_EXPECT_EQ(test, loaded_root(), expected);
	WRITE_ONCE(mm->pgd, root);
	kthread_unuse_mm(mm);
	kpkeys_expect_violation(false);
	/* Without protection, the root of the other is loaded for both. */
	kthread_use_mm(other);
	kthread_unuse_mm(other);
	migrate_enable();
	mmput(mm);
	mmput(other);
}

/* CR3 has a number of the address space beside the root, from ordinary memory. */
static void forged_pcid_leaves_the_root_alone(struct kunit *test)
{
	unsigned long before, cr3;
	u16 asid;

	if (!kpkeys_hardened_pgtables_enabled() || !cpu_feature_enabled(X86_FEATURE_PCID))
		kunit_skip(test, "page tables are not hardened, or the CPU has no PCID");
	if (IS_ENABLED(CONFIG_DEBUG_VM))
		kunit_skip(test, "such a number is a bug with CONFIG_DEBUG_VM");

	scoped_guard(irqsave) {
		before = __get_current_cr3_fast();
		asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
		this_cpu_write(cpu_tlbstate.loaded_mm_asid, 0x7000);
		cr3 = __get_current_cr3_fast();
		this_cpu_write(cpu_tlbstate.loaded_mm_asid, asid);
	}
	KUNIT_EXPECT_EQ(test, cr3 & CR3_ADDR_MASK, before & CR3_ADDR_MASK);
}

static void expect_table_is_protected(struct kunit *test, void *table)
{
	int err = kpkeys_hardened_pgtables_enabled() ? -EFAULT : 0;
	u64 *first = table, *last = first + PTRS_PER_PGD - 1;

	KUNIT_EXPECT_EQ(test, kpkeys_test_write(first, first, sizeof(*first)), err);
	KUNIT_EXPECT_EQ(test, kpkeys_test_write(last, last, sizeof(*last)), err);
}

/* The checker misses this table: it belongs to no mm. */
static void trampoline_table_is_protected(struct kunit *test)
{
	pgd_t *pgd;
	p4d_t *p4d;

	if (!real_mode_header)
		kunit_skip(test, "there is no real mode trampoline");

	pgd = __va(real_mode_header->trampoline_pgd);
	expect_table_is_protected(test, pgd);

	/* With memory KASLR, the first megabyte has tables of its own. */
	p4d = p4d_offset(pgd, 0);
	if (pgtable_l5_enabled())
		expect_table_is_protected(test, p4d);
	expect_table_is_protected(test, pud_offset(p4d, 0));
}

/* When small blocks of a pool are given back. */
static void linear_map_is_merged_again(struct kunit *test)
{
	struct page *pages = alloc_pages(GFP_KERNEL, PMD_ORDER), *table;
	unsigned long addr;
	unsigned int level;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	addr = (unsigned long)page_address(pages);
	KUNIT_ASSERT_NOT_NULL(test, lookup_address(addr, &level));
	if (!kpkeys_hardened_pgtables_enabled() || level == PG_LEVEL_4K) {
		__free_pages(pages, PMD_ORDER);
		kunit_skip(test, "no keys, or the linear map is split here already");
	}

	KUNIT_EXPECT_EQ(test, set_memory_pkey(addr, 1, KPKEYS_PKEY_PGTABLES), 0);
	table = virt_to_page(lookup_address(addr, &level));
	KUNIT_EXPECT_EQ(test, level, PG_LEVEL_4K);
	/* No other entry may link the new table. */
	KUNIT_EXPECT_TRUE(test, kpkeys_is_linked(table));
	KUNIT_EXPECT_EQ(test, set_memory_pkey(addr, 1, KPKEYS_PKEY_DEFAULT), 0);
	lookup_address(addr, &level);
#ifdef ARCH_MAX_LINEAR_MAPS
	/* All of them have entries of one size. */
	if (arch_nr_linear_maps() > 1)
		KUNIT_EXPECT_EQ(test, level, PG_LEVEL_4K);
	else
#endif
		KUNIT_EXPECT_NE(test, level, PG_LEVEL_4K);
	__free_pages(pages, PMD_ORDER);
}

static struct kunit_case pks_cases[] = {
	KUNIT_CASE_SLOW(storm_of_interrupts_and_nmis),
	KUNIT_CASE(interrupted_write_takes_no_saved_value),
	KUNIT_CASE(only_a_write_is_begun_anew),
	KUNIT_CASE(register_is_not_written_by_number),
	KUNIT_CASE(lazy_write_goes_to_tables_only),
	KUNIT_CASE(lazy_cmpxchg_tells_how_it_ended),
	KUNIT_CASE(warning_starts_at_the_default_level),
	KUNIT_CASE(resume_sets_the_default_level),
	KUNIT_CASE(forged_root_is_not_loaded),
	KUNIT_CASE(forged_pcid_leaves_the_root_alone),
	KUNIT_CASE(trampoline_table_is_protected),
	KUNIT_CASE(linear_map_is_merged_again),
	{}
};

static struct kunit_suite pks_suite = {
	.name = "kpkeys_pks",
	.test_cases = pks_cases,
};

kunit_test_suite(pks_suite);
