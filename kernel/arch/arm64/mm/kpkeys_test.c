// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: register values and page table entries of kpkeys. Most cases need no
 * CPU with POE.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/extable.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include <asm/asm-extable.h>
#include <asm/cpufeature.h>
#include <asm/mmu.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/por.h>
#include <asm/ptrace.h>
#include <asm/sections.h>
#include <asm/text-patching.h>

#include "../../../mm/kpkeys/kpkeys.h"

static void overlays_of_levels(struct kunit *test)
{
	static const struct {
		u64 por;
		unsigned long writes;	/* to these keys */
	} levels[] = {
		{ POR_EL1_DEFAULT, BIT(0) },
		{ POR_EL1_PGTABLES, BIT(0) | BIT(ARM64_PKEY_PGTABLES) | BIT(ARM64_PKEY_LEDGER) },
		{ POR_EL1_STATE, BIT(0) | BIT(ARM64_PKEY_STATE) | BIT(ARM64_PKEY_LEDGER) },
		{ POR_EL1_CRED, BIT(0) | BIT(ARM64_PKEY_CRED) | BIT(ARM64_PKEY_LEDGER) },
		{ POR_EL1_SECRET, BIT(0) | BIT(ARM64_PKEY_SECRET) | BIT(ARM64_PKEY_LEDGER) },
	};
	int i, pkey;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		u64 por = levels[i].por;

		for (pkey = 0; pkey < 8; pkey++) {
			KUNIT_EXPECT_EQ(test, por_elx_allows_read(por, pkey),
					pkey < ARM64_PKEY_SECRET ||
					test_bit(pkey, &levels[i].writes));
			KUNIT_EXPECT_EQ(test, por_elx_allows_write(por, pkey),
					test_bit(pkey, &levels[i].writes));
			KUNIT_EXPECT_EQ(test, por_elx_allows_exec(por, pkey), !pkey);
		}
		KUNIT_EXPECT_EQ(test, !!(por & POR_EL1_RAISED), i > 0);
	}
}

static u64 por_permission(u64 pir, int index)
{
	return (pir >> PIRx_ELx_PERM_SHIFT(index)) & PIE_MASK;
}

static void permissions_of_entries(struct kunit *test)
{
	u64 pir = PIE_E1;

	/* PIE leaves the permissions to the overlay. */
	KUNIT_EXPECT_EQ(test, por_permission(pir, pte_pi_index(_PAGE_KERNEL)),
			PIE_RW_O);
}

static void an_entry_is_tagged_and_untagged(struct kunit *test)
{
	pteval_t plain = pgprot_val(PAGE_KERNEL);
	pteval_t tagged = pgprot_val(arm64_kpkeys_prot());

	if (!arch_kpkeys_enabled()) {
		KUNIT_EXPECT_EQ(test, tagged, plain);
		KUNIT_EXPECT_FALSE(test, arm64_kpkeys_tagged(tagged));
		return;
	}

	KUNIT_EXPECT_TRUE(test, arm64_kpkeys_tagged(tagged));
	KUNIT_EXPECT_FALSE(test, arm64_kpkeys_tagged(plain));
	KUNIT_EXPECT_EQ(test, arm64_kpkeys_untag(tagged), plain);
	KUNIT_EXPECT_EQ(test, arm64_kpkeys_untag(plain), plain);
	/* Must be a kernel entry, because writes to these need barriers. */
	KUNIT_EXPECT_TRUE(test, pte_valid_not_user(__pte(tagged)));
	KUNIT_EXPECT_TRUE(test, pte_write(__pte(tagged)));
}

static void user_entries_are_none_of_the_kernel(struct kunit *test)
{
	const pgprot_t prots[] = { PAGE_SHARED, PAGE_SHARED_EXEC, PAGE_READONLY };
	int i;

	for (i = 0; i < ARRAY_SIZE(prots); i++) {
		pte_t pte = __pte(pgprot_val(prots[i]) | PTE_VALID);

		KUNIT_EXPECT_FALSE(test, pte_valid_not_user(pte));
		/* With a key of the same number, which is one of user pages. */
		pte = __pte(pte_val(pte) | ARM64_PTE_PGTABLES);
		KUNIT_EXPECT_FALSE(test, arch_kpkeys_pte_tagged(pte));
	}
}

static void a_level_is_what_the_register_says(struct kunit *test)
{
	if (!arch_kpkeys_enabled())
		kunit_skip(test, "there are no keys in this boot");

	KUNIT_EXPECT_EQ(test, arch_kpkeys_read_reg(), POR_EL1_DEFAULT);
	KUNIT_EXPECT_NE(test, POR_EL1_PGTABLES, POR_EL1_DEFAULT);
}

#define MOVZ_DEFAULT(reg)	(0xd2800000 | (POR_EL1_DEFAULT & 0xffff) << 5 | (reg))
#define MOVK_DEFAULT(reg)	(0xf2a00000 | (POR_EL1_DEFAULT >> 16) << 5 | (reg))
#define MSR_POR(reg)		(0xd5000000 | SYS_POR_EL1 | (reg))

static const u32 lowering[] = {
	MOVZ_DEFAULT(3), MOVK_DEFAULT(3), MSR_POR(3),
	0xd5033fdf,				/* isb */
	MOVZ_DEFAULT(4), MOVK_DEFAULT(3), MSR_POR(3),
	MOVZ_DEFAULT(3), MOVK_DEFAULT(4), MSR_POR(3),
};

/* Where code goes on that was interrupted before an instruction, raised. */
static int resumed_at(int insn)
{
	struct pt_regs regs = { .pc = (unsigned long)&lowering[insn] };

	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_ledger_push((unsigned long)&regs, KPKEYS_LVL_PGTABLES);
		__preempt_count_add(PREEMPT_OFFSET);
		kpkeys_lower();
		arm64_kpkeys_return_to_raised((unsigned long)&regs);
		kpkeys_lower();
	}
	return (const u32 *)regs.pc - lowering;
}

/* The value was in X3, and X3 on the stack. */
static void interrupted_lowering_is_begun_anew(struct kunit *test)
{
	if (!arch_kpkeys_enabled())
		kunit_skip(test, "there are no protection keys");

	KUNIT_EXPECT_EQ(test, resumed_at(0), 0);
	KUNIT_EXPECT_EQ(test, resumed_at(1), 0);
	KUNIT_EXPECT_EQ(test, resumed_at(2), 0);
	KUNIT_EXPECT_EQ(test, resumed_at(3), 3);
	/* An instruction before it loads another register. */
	KUNIT_EXPECT_EQ(test, resumed_at(5), 5);
	KUNIT_EXPECT_EQ(test, resumed_at(6), 6);
	KUNIT_EXPECT_EQ(test, resumed_at(8), 8);
	KUNIT_EXPECT_EQ(test, resumed_at(9), 9);
}

/* As the assembler writes it. */
static noinline void kpkeys_lower_here(void)
{
	kpkeys_lower();
}

static void lowering_is_recognised(struct kunit *test)
{
	const u32 *code = (const u32 *)kpkeys_lower_here;
	u32 reg = 0;
	int i;

	for (i = 0; i < 16; i++) {
		reg = code[i] & 0x1f;
		if (code[i] == MOVZ_DEFAULT(reg) &&
		    code[i + 1] == MOVK_DEFAULT(reg) &&
		    code[i + 2] == MSR_POR(reg))
			break;
	}
	KUNIT_EXPECT_LT(test, i, 16);
}

/* The redone instruction may have lost a race. */
static void lazy_cas_tells_how_it_ended(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	int data = FIELD_PREP(EX_DATA_KPKEYS, EX_DATA_KPKEYS_CAS) |
		   FIELD_PREP(EX_DATA_REG_NEW, 4) |
		   FIELD_PREP(EX_DATA_REG_OLD, 9);
	struct pt_regs regs = { .regs[4] = 8, .regs[9] = 7 };
	u64 *table;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = ptdesc_address(pt);

	arm64_kpkeys_lazy_write(&regs, data, table);
	KUNIT_EXPECT_EQ(test, regs.regs[9], 0);
	KUNIT_EXPECT_EQ(test, *table, 0);

	arm64_kpkeys_lazy_write(&regs, data, table);
	KUNIT_EXPECT_EQ(test, regs.regs[9], 0);
	KUNIT_EXPECT_EQ(test, *table, 8);
	KUNIT_EXPECT_EQ(test, regs.regs[4], 8);
	pagetable_free(pt);
}

/* XZR ignores writes and reads as zero. */
static void lazy_writes_take_any_register(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	int str = FIELD_PREP(EX_DATA_KPKEYS, EX_DATA_KPKEYS_STR) |
		  FIELD_PREP(EX_DATA_REG_NEW, 30) |
		  FIELD_PREP(EX_DATA_REG_OLD, 31);
	int swp = FIELD_PREP(EX_DATA_KPKEYS, EX_DATA_KPKEYS_SWP) |
		  FIELD_PREP(EX_DATA_REG_NEW, 31) |
		  FIELD_PREP(EX_DATA_REG_OLD, 0);
	struct pt_regs regs = { .regs[30] = 5, .sp = 6 };
	u64 *table;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = ptdesc_address(pt);

	arm64_kpkeys_lazy_write(&regs, str, table);
	KUNIT_EXPECT_EQ(test, *table, 5);
	KUNIT_EXPECT_EQ(test, regs.sp, 6);
	arm64_kpkeys_lazy_write(&regs, swp, table);
	KUNIT_EXPECT_EQ(test, *table, 0);
	KUNIT_EXPECT_EQ(test, regs.regs[0], 5);
	pagetable_free(pt);
}

#ifdef lazy_set_ptes
/* An instruction that would be redone, storing x0. It does not run. */
static unsigned long lazy_instruction(void)
{
	unsigned long pc;

	asm volatile("	adr	%[pc], 1f\n"
		     "	b	2f\n"
		     "1:	str	x0, [%[pc]]\n"
		     "2:\n" __DEFINE_ASM_GPR_NUMS
		     _ASM_EXTABLE_KPKEYS(STR, "x0", "xzr")
		     : [pc] "=r" (pc));
	return pc;
}

/*
 * The refused write is identified by system registers, because the stack may be
 * forged. The attack here is a forged write to a page table.
 */
static void saved_registers_are_not_believed(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	struct pt_regs forged = { .regs[0] = 8, .pc = lazy_instruction() };
	u64 *table, same = 0;
	bool done;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = ptdesc_address(pt);
	KUNIT_EXPECT_NOT_NULL(test, search_kernel_exception_table(forged.pc));

	scoped_guard(irqsave) {
		kpkeys_test_write(table, &same, sizeof(same));
		done = __arm64_kpkeys_lazy_abort(&forged);
	}
	KUNIT_EXPECT_FALSE(test, done);
	KUNIT_EXPECT_EQ(test, *table, 0);
	pagetable_free(pt);
}

/* A breakpoint in what the handler calls leaves its own address. */
static bool break_while_asked(const struct pt_regs *regs, int data)
{
	write_sysreg((unsigned long)break_while_asked, elr_el1);
	return true;
}

static bool redo_refused_write(struct pt_regs *regs, u64 *entry)
{
	guard(irqsave)();
	write_sysreg(regs->pc, elr_el1);
	write_sysreg((unsigned long)entry, far_el1);
	write_sysreg(FIELD_PREP(ESR_ELx_EC_MASK, ESR_ELx_EC_DABT_CUR) | ESR_ELx_WNR |
		     ESR_ELx_FSC_PERM_L(3), esr_el1);
	return __arm64_kpkeys_lazy_abort(regs);
}

static void overwritten_registers_are_noticed(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	struct pt_regs regs = { .regs[0] = 8, .pc = lazy_instruction() };
	u64 *table;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = ptdesc_address(pt);

	kunit_activate_static_stub(test, arm64_kpkeys_lazy_may_map, break_while_asked);
	KUNIT_EXPECT_FALSE(test, redo_refused_write(&regs, table));
	KUNIT_EXPECT_EQ(test, *table, 0);
	kunit_deactivate_static_stub(test, arm64_kpkeys_lazy_may_map);

	KUNIT_EXPECT_EQ(test, redo_refused_write(&regs, table),
			kpkeys_hardened_pgtables_enabled());
	KUNIT_EXPECT_EQ(test, *table, kpkeys_hardened_pgtables_enabled() ? 8 : 0);
	pagetable_free(pt);
}

struct urgent {
	struct task_struct *task;
	unsigned long daif;
	bool waits;
};

/* Notes which exceptions are masked when it gets the CPU. */
static int urgent_note_masks(void *data)
{
	struct urgent *urgent = data;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		if (READ_ONCE(urgent->waits)) {
			urgent->daif = read_sysreg(daif);
			WRITE_ONCE(urgent->waits, false);
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void urgent_start(struct kunit *test, struct urgent *urgent)
{
	urgent->task = kthread_create(urgent_note_masks, urgent, "kpkeys_urgent");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, urgent->task);
	kthread_bind(urgent->task, smp_processor_id());
	sched_set_fifo(urgent->task);
	wake_up_process(urgent->task);
	/* Until it waits. */
	while (READ_ONCE(urgent->task->__state) != TASK_INTERRUPTIBLE)
		schedule_timeout_uninterruptible(1);
}

static void task_runs_when_a_write_is_redone(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO, 0);
	struct urgent urgent = { };
	pte_t *table;

	if (!kpkeys_hardened_pgtables_enabled() || !static_key_enabled(&arm64_lazy_ptes_key))
		kunit_skip(test, "writes are not redone in this boot");
	KUNIT_ASSERT_NOT_NULL(test, pt);
	table = ptdesc_address(pt);

	guard(migrate)();
	urgent_start(test, &urgent);
	preempt_disable();
	WRITE_ONCE(urgent.waits, true);
	wake_up_process(urgent.task);
	preempt_enable_no_resched();
	lazy_set_ptes(&init_mm, 0, table, pfn_pte(1, PAGE_KERNEL), 1);

	KUNIT_EXPECT_FALSE(test, READ_ONCE(urgent.waits));
	KUNIT_EXPECT_EQ(test, urgent.daif & (PSR_A_BIT | PSR_D_BIT), 0);
	kthread_stop(urgent.task);
	pagetable_free(pt);
}
#endif

/* The pool tags whole blocks, so page tables do not split any. */
static void the_pool_leaves_blocks_whole(struct kunit *test)
{
	struct ptdesc *pt;
	pmd_t pmd;

	if (!system_supports_bbml3())
		kunit_skip(test, "the linear map is made of pages");
	if (PAGE_SIZE > SZ_4K)
		kunit_skip(test, "blocks of the pool are smaller than those of the linear map");
	if (!kpkeys_hardened_pgtables_enabled())
		kunit_skip(test, "page tables are not hardened in this boot");

	pt = pagetable_alloc(GFP_PGTABLE_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, pt);
	pmd = pmdp_get(pmd_off_k((unsigned long)ptdesc_address(pt)));
	KUNIT_EXPECT_TRUE(test, pmd_leaf(pmd));
	KUNIT_EXPECT_TRUE(test, arm64_kpkeys_tagged(pmd_val(pmd)));
	pagetable_free(pt);
}

static int count_block(unsigned long *nr, bool is_block)
{
	*nr += is_block;
	return 0;
}

static int count_pud(pud_t *pud, unsigned long addr, unsigned long next,
		     struct mm_walk *walk)
{
	return count_block(walk->private, pud_leaf(pudp_get(pud)));
}

static int count_pmd(pmd_t *pmd, unsigned long addr, unsigned long next,
		     struct mm_walk *walk)
{
	return count_block(walk->private, pmd_leaf(pmdp_get(pmd)));
}

static int count_pte(pte_t *pte, unsigned long addr, unsigned long next,
		     struct mm_walk *walk)
{
	return count_block(walk->private, pte_cont(__ptep_get(pte)));
}

static const struct mm_walk_ops count_ops = {
	.pud_entry = count_pud,
	.pmd_entry = count_pmd,
	.pte_entry = count_pte,
};

/* Without BBML3 the linear map is made of pages, except for the image. */
static void no_block_is_left(struct kunit *test)
{
	unsigned long image = (unsigned long)lm_alias(_stext);
	unsigned long image_end = (unsigned long)lm_alias(__init_begin);
	unsigned long nr = 0;

	if (system_supports_bbml3())
		kunit_skip(test, "the linear map is made of blocks");
	if (!arch_kpkeys_enabled())
		kunit_skip(test, "there are no protection keys");

	walk_kernel_page_table_range_lockless(_PAGE_OFFSET(vabits_actual), image,
					      &count_ops, NULL, &nr);
	walk_kernel_page_table_range_lockless(image_end, PAGE_END, &count_ops,
					      NULL, &nr);
	KUNIT_EXPECT_EQ(test, nr, 0);
}

/* In place during boot, through the fixmap afterwards. */
static void root_is_written(struct kunit *test)
{
	pgd_t *pgdp = pgd_offset_k(PAGE_END - 1);

	/* Find a part of the linear map without memory. */
	while (pgd_val(READ_ONCE(*pgdp)) && pgdp > swapper_pg_dir)
		pgdp--;
	if (pgd_val(READ_ONCE(*pgdp)))
		kunit_skip(test, "each entry of the root is in use");

	/* An invalid entry, which the CPU ignores. */
	set_swapper_pgd(pgdp, __pgd(BIT(12)));
	KUNIT_EXPECT_EQ(test, pgd_val(READ_ONCE(*pgdp)), BIT(12));
	set_swapper_pgd(pgdp, __pgd(0));
	KUNIT_EXPECT_EQ(test, pgd_val(READ_ONCE(*pgdp)), 0);
}

/* As if the address of an instruction had been forged to that of a table. */
static void tables_are_not_patched(struct kunit *test)
{
	bool refused = IS_ENABLED(CONFIG_KPKEYS_CHECK_MAPPINGS) &&
		       kpkeys_hardened_pgtables_enabled();
	pte_t *table;

	if (IS_ENABLED(CONFIG_DEBUG_VIRTUAL))
		kunit_skip(test, "Linux notices that this is no address of code");

	table = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, table);
	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, aarch64_insn_write(table, AARCH64_BREAK_FAULT),
			refused ? -EFAULT : 0);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, pte_val(*table), refused ? 0 : AARCH64_BREAK_FAULT);
	set_pte(table, __pte(0));
	pte_free_kernel(&init_mm, table);
}

static u64 loaded_root(void)
{
	return read_sysreg(ttbr0_el1) & TTBRx_EL1_BADDR;
}

static u64 ttbr_of(pgd_t *root)
{
	return phys_to_ttbr(virt_to_phys(root)) & TTBRx_EL1_BADDR;
}

/* By the scheduler, and by what leaves the identity map. */
static void forged_root_is_not_loaded(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc(), *other = mm_alloc();
	u64 expected;
	pgd_t *root;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_NOT_NULL(test, other);
	if (system_uses_ttbr0_pan()) {
		mmput(mm);
		mmput(other);
		kunit_skip(test, "the root is loaded on return to user mode");
	}
	root = mm->pgd;
	expected = ttbr_of(kpkeys_hardened_pgtables_enabled() ? root : other->pgd);

	/* Other CPUs would keep what they have loaded. */
	migrate_disable();
	kpkeys_expect_violation(true);
	WRITE_ONCE(mm->pgd, other->pgd);
	kthread_use_mm(mm);
	KUNIT_EXPECT_EQ(test, loaded_root(), expected);
	scoped_guard(irqsave)
		cpu_uninstall_idmap();
	KUNIT_EXPECT_EQ(test, loaded_root(), expected);
	WRITE_ONCE(mm->pgd, root);
	kthread_unuse_mm(mm);
	kpkeys_expect_violation(false);
	/* Without protection, the root of the other is loaded for both. */
	kthread_use_mm(other);
	KUNIT_EXPECT_EQ(test, loaded_root(), ttbr_of(other->pgd));
	kthread_unuse_mm(other);
	migrate_enable();
	mmput(mm);
	mmput(other);
}

static void expect_linked(struct kunit *test, void *table, bool linked)
{
	KUNIT_EXPECT_EQ(test, kpkeys_is_linked(virt_to_page(table)),
			linked && kpkeys_hardened_pgtables_enabled());
}

static void tables_of_the_kernel_are_noted(struct kunit *test)
{
	p4d_t top = __p4d(0);
	pud_t *upper;
	pmd_t *middle;
	pte_t *lower;

	if (mm_pud_folded(&init_mm))
		kunit_skip(test, "needs four levels");
	upper = pud_alloc_one(&init_mm, 0);
	middle = pmd_alloc_one(&init_mm, 0);
	lower = pte_alloc_one_kernel(&init_mm);
	KUNIT_ASSERT_NOT_NULL(test, upper);
	KUNIT_ASSERT_NOT_NULL(test, middle);
	KUNIT_ASSERT_NOT_NULL(test, lower);

	pmd_populate_kernel(&init_mm, middle, lower);
	expect_linked(test, lower, true);
	pud_populate(&init_mm, upper, middle);
	expect_linked(test, middle, true);
	p4d_populate(&init_mm, &top, upper);
	expect_linked(test, upper, true);

	p4d_clear(&top);
	expect_linked(test, upper, false);
	__p4d_populate(&top, __pa(upper), P4D_TYPE_TABLE | P4D_TABLE_UXN);
	expect_linked(test, upper, true);

	p4d_clear(&top);
	pud_clear(upper);
	expect_linked(test, middle, false);
	pmd_clear(middle);
	expect_linked(test, lower, false);
	pud_free(&init_mm, upper);
	pmd_free(&init_mm, middle);
	pte_free_kernel(&init_mm, lower);
}

static struct kunit_case arm64_cases[] = {
	KUNIT_CASE(overlays_of_levels),
	KUNIT_CASE(permissions_of_entries),
	KUNIT_CASE(an_entry_is_tagged_and_untagged),
	KUNIT_CASE(user_entries_are_none_of_the_kernel),
	KUNIT_CASE(a_level_is_what_the_register_says),
	KUNIT_CASE(interrupted_lowering_is_begun_anew),
	KUNIT_CASE(lowering_is_recognised),
	KUNIT_CASE(lazy_cas_tells_how_it_ended),
	KUNIT_CASE(lazy_writes_take_any_register),
#ifdef lazy_set_ptes
	KUNIT_CASE(saved_registers_are_not_believed),
	KUNIT_CASE(overwritten_registers_are_noticed),
	KUNIT_CASE(task_runs_when_a_write_is_redone),
#endif
	KUNIT_CASE(the_pool_leaves_blocks_whole),
	KUNIT_CASE(no_block_is_left),
	KUNIT_CASE(root_is_written),
	KUNIT_CASE(tables_are_not_patched),
	KUNIT_CASE(forged_root_is_not_loaded),
	KUNIT_CASE(tables_of_the_kernel_are_noted),
	{}
};

static struct kunit_suite arm64_suite = {
	.name = "kpkeys_arm64",
	.test_cases = arm64_cases,
};

kunit_test_suite(arm64_suite);

static void __init free_table(const void *entry)
{
	pagetable_dtor_free(virt_to_ptdesc(PTR_ALIGN_DOWN(entry, PAGE_SIZE)));
}

/* Map pages, with new tables, as for EFI runtime services. */
static void __init tables_of_another_mm_are_filled(struct kunit *test)
{
	phys_addr_t phys = __pa_symbol(_stext);
	unsigned long addr = PMD_SIZE;
	struct mm_struct *mm = mm_alloc();
	pgd_t *pgd;
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t *pte;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	create_pgd_mapping(mm, phys, addr, 2 * PAGE_SIZE, PAGE_KERNEL_RO, true);

	pgd = pgd_offset(mm, addr);
	p4d = p4d_offset(pgd, addr);
	pud = pud_offset(p4d, addr);
	pmd = pmd_offset(pud, addr);
	pte = pte_offset_kernel(pmd, addr);
	KUNIT_EXPECT_EQ(test, pte_pfn(__ptep_get(pte)), PHYS_PFN(phys));
	KUNIT_EXPECT_EQ(test, pte_pfn(__ptep_get(pte + 1)), PHYS_PFN(phys) + 1);
	KUNIT_EXPECT_TRUE(test, pte_none(__ptep_get(pte + 2)));

	pmd_clear(pmd);
	free_table(pte);
	if (!mm_pmd_folded(mm)) {
		pud_clear(pud);
		free_table(pmd);
	}
	if (!mm_pud_folded(mm)) {
		p4d_clear(p4d);
		free_table(pud);
	}
	if (!mm_p4d_folded(mm)) {
		pgd_clear(pgd);
		free_table(p4d);
	}
	mmput(mm);
}

static struct kunit_case __refdata arm64_init_cases[] = {
	KUNIT_CASE(tables_of_another_mm_are_filled),
	{}
};

static struct kunit_suite arm64_init_suite = {
	.name = "kpkeys_arm64_init",
	.test_cases = arm64_init_cases,
};

kunit_test_init_section_suites(&arm64_init_suite);
