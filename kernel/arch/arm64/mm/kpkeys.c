// SPDX-License-Identifier: GPL-2.0-only
/* kpkeys on permission overlays (POE). */
#include <kunit/static_stub.h>
#include <linux/bitfield.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/extable.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_mappings.h>
#include <linux/kpkeys_secret.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/set_memory.h>

#include <asm/asm-extable.h>
#include <asm/cpufeature.h>
#include <asm/esr.h>
#include <asm/extable.h>
#include <asm/insn-def.h>
#include <asm/memory.h>
#include <asm/pgalloc.h>
#include <asm/sections.h>
#include <asm/system_misc.h>

DEFINE_STATIC_KEY_FALSE_RO(arm64_kpkeys_key);
/* Page table helpers are inlined into modules. */
EXPORT_SYMBOL(arm64_kpkeys_key);

DEFINE_PER_CPU(u64, arm64_kpkeys_at_entry);

/* === The register ======================================================= */

/**
 * arch_kpkeys_init() - Find out whether there are keys, and use them.
 *
 * __cpu_setup() has set this CPU to the default level, as it does with all.
 *
 * Context: boot, one CPU, its features are known.
 * Return: NULL, or the reason why there are no protection keys.
 */
const char * __init arch_kpkeys_init(void)
{
	if (!can_set_direct_map())
		return "the linear map is made of blocks, rodata=full makes it of pages";
	/*
	 * The kernel's initial tables are in rodata, which must be read-only.
	 */
	if (!rodata_enabled)
		return "rodata=off";

	if (!system_supports_poe())
		return "the CPU has no permission overlays (POE)";
	if (!(read_sysreg_s(SYS_TCR2_EL1) & TCR2_EL1_POE))
		return "the hypervisor does not permit access to POR_EL1";

	static_branch_enable(&arm64_kpkeys_key);
	return NULL;
}

/**
 * arm64_kpkeys_leaked() - Lower a level that was not lowered in time.
 *
 * Context: the return to user mode, interrupts off.
 */
void arm64_kpkeys_leaked(void)
{
	arm64_write_por_el1(POR_EL1_DEFAULT);
	kpkeys_level_leaked();
}

/**
 * arm64_kpkeys_switch() - End any raised level on a context switch.
 *
 * Ledger frames belong to this CPU: the task resumes at the default level,
 * wherever it runs.
 *
 * Context: the context switch, before the current task changes.
 */
void arm64_kpkeys_switch(void)
{
	if (!arch_kpkeys_enabled())
		return;

	kpkeys_assert_current_default();
	if (unlikely(arch_kpkeys_read_reg() != POR_EL1_DEFAULT))
		arm64_write_por_el1(POR_EL1_DEFAULT);
	if (unlikely(!kpkeys_ledger_is_top(0))) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_ledger_clear();
		kpkeys_lower();
	}
}

/* MOVZ and MOVK of both halves of POR_EL1_DEFAULT, and MSR POR_EL1, for X0. */
static const u32 lowering[] = {
	0xd2800000 | (POR_EL1_DEFAULT & 0xffff) << 5,
	0xf2a00000 | (POR_EL1_DEFAULT >> 16) << 5,
	0xd5000000 | SYS_POR_EL1,
};

/*
 * If the next instructions lower the level, go back to the first: it begins to
 * load the value, which was on the stack meanwhile.
 */
static __always_inline void kpkeys_restart_lowering(struct pt_regs *regs)
{
	unsigned int done, i;

	for (done = 1; done < ARRAY_SIZE(lowering); done++) {
		const __le32 *start = (const __le32 *)regs->pc - done;
		/* First the code ahead: there may be no memory before it. */
		u32 reg = le32_to_cpu(start[done]) - lowering[done];

		if (reg >= 31)
			continue;
		for (i = 0; i < ARRAY_SIZE(lowering); i++)
			if (le32_to_cpu(start[i]) != (lowering[i] | reg))
				break;
		if (i == ARRAY_SIZE(lowering)) {
			regs->pc = (unsigned long)start;
			return;
		}
	}
}

/**
 * arm64_kpkeys_return_to_raised() - Raise the level of the frame to return to.
 * @frame: its struct pt_regs.
 *
 * Does nothing unless @frame is on top of the ledger.
 *
 * Context: called by assembler at the end of an exception, exceptions masked.
 */
void noinstr arm64_kpkeys_return_to_raised(unsigned long frame)
{
	if (!kpkeys_ledger_is_top(frame))
		return;

	kpkeys_restart_lowering((struct pt_regs *)frame);
	switch (kpkeys_ledger_top_level()) {
	case KPKEYS_LVL_STATE:
		arm64_write_por_el1(POR_EL1_STATE);
		break;
	case KPKEYS_LVL_CRED:
		arm64_write_por_el1(POR_EL1_CRED);
		break;
	case KPKEYS_LVL_SECRET:
		arm64_write_por_el1(POR_EL1_SECRET);
		break;
	default:
		arm64_write_por_el1(POR_EL1_PGTABLES);
	}
	kpkeys_ledger_pop();
	__preempt_count_sub(PREEMPT_OFFSET);
}

/* === Tagged ranges, as the CPU sees them ================================ */

struct scan {
	struct kpkeys_range *ranges;
	int nr, max;
	unsigned long last_end;
	int last_pkey;
	pteval_t last;
};

static int kpkeys_scan_add(struct mm_walk *walk, pteval_t val,
			   unsigned long addr, unsigned long end)
{
	int pkey = FIELD_GET(PTE_PO_IDX_MASK, val);
	struct scan *scan = walk->private;

	scan->last = val;
	if (!pte_valid(__pte(val)) || !arm64_kpkeys_tagged(val))
		return 0;

	if (scan->nr && scan->last_end == addr && scan->last_pkey == pkey) {
		if (scan->nr <= scan->max)
			scan->ranges[scan->nr - 1].end = end;
	} else {
		if (scan->nr < scan->max)
			scan->ranges[scan->nr] = (struct kpkeys_range) {
				.start = addr, .end = end, .pkey = pkey,
			};
		scan->nr++;
	}
	scan->last_end = end;
	scan->last_pkey = pkey;
	return 0;
}

static int kpkeys_scan_pud(pud_t *entry, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	pud_t pud = pudp_get(entry);

	return pud_leaf(pud) ? kpkeys_scan_add(walk, pud_val(pud), addr, next) : 0;
}

static int kpkeys_scan_pmd(pmd_t *entry, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	pmd_t pmd = pmdp_get(entry);

	return pmd_leaf(pmd) ? kpkeys_scan_add(walk, pmd_val(pmd), addr, next) : 0;
}

static int kpkeys_scan_pte(pte_t *entry, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	return kpkeys_scan_add(walk, pte_val(__ptep_get(entry)), addr, next);
}

static const struct mm_walk_ops scan_ops = {
	.pud_entry = kpkeys_scan_pud,
	.pmd_entry = kpkeys_scan_pmd,
	.pte_entry = kpkeys_scan_pte,
};

/**
 * arch_kpkeys_tagged_ranges() - List ranges with a key other than the default.
 * @ranges: receives the ranges, in ascending order.
 * @max: size of @ranges.
 *
 * Reads the linear map, so that the checker does not depend on records.
 *
 * Context: may sleep.
 * Return: number of ranges, more than @max if they do not fit.
 */
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max)
{
	struct scan scan = { .ranges = ranges, .max = max };

	walk_kernel_page_table_range_lockless(_PAGE_OFFSET(vabits_actual),
					      PAGE_END, &scan_ops, NULL, &scan);
	return scan.nr;
}

/* The leaf entry of a kernel address, or 0. */
static pteval_t kpkeys_leaf_of(unsigned long addr)
{
	struct scan scan = { };

	addr = PAGE_ALIGN_DOWN(addr);
	walk_kernel_page_table_range_lockless(addr, addr + PAGE_SIZE, &scan_ops,
					      NULL, &scan);
	return scan.last;
}

static bool kpkeys_is_writable(unsigned long addr)
{
	pteval_t leaf = kpkeys_leaf_of(addr);

	return pte_valid(__pte(leaf)) && !(leaf & PTE_RDONLY);
}

/**
 * arm64_kpkeys_read_only() - Is this page table part of the kernel's rodata?
 * @table: a page table, by either of its addresses.
 *
 * The initial page tables of the kernel, its trampoline and its identity
 * mapping are in rodata, which becomes read-only at the end of boot. They are
 * changed through the fixmap.
 *
 * Return: true if it is one and, after boot, both of its mappings are
 * read-only.
 */
bool arm64_kpkeys_read_only(const void *table)
{
	phys_addr_t phys = __virt_to_phys_nodebug((unsigned long)table);

	if (!rodata_enabled || phys < __pa_symbol(_text) ||
	    phys >= __pa_symbol(__init_begin))
		return false;
	return system_state < SYSTEM_RUNNING ||
	       (!kpkeys_is_writable((unsigned long)__va(phys)) &&
		!kpkeys_is_writable(__phys_to_kimg(phys)));
}

/* === Lazy writes ======================================================== */

DEFINE_STATIC_KEY_FALSE_RO(arm64_lazy_ptes_key);

static int __init kpkeys_lazy_ptes_init(void)
{
	if (cpus_have_final_cap(ARM64_HAS_LSE_ATOMICS) &&
	    kpkeys_batch_enabled())
		static_branch_enable(&arm64_lazy_ptes_key);
	return 0;
}
arch_initcall(kpkeys_lazy_ptes_init);

/**
 * arm64_kpkeys_lazy_write() - Redo a refused write of <asm/pgtable_lazy.h>.
 * @regs: registers at the fault.
 * @data: instruction and operands, from the exception table.
 * @entry: the entry to write.
 *
 * Context: the fault handler, at the default level.
 */
void arm64_kpkeys_lazy_write(struct pt_regs *regs, int data, u64 *entry)
{
	int reg_old = FIELD_GET(EX_DATA_REG_OLD, data);
	u64 new = pt_regs_read_reg(regs, FIELD_GET(EX_DATA_REG_NEW, data));
	u64 old = pt_regs_read_reg(regs, reg_old);

	scoped_guard(kpkeys_hardened_pgtables) {
		switch (FIELD_GET(EX_DATA_KPKEYS, data)) {
		case EX_DATA_KPKEYS_STR:
			WRITE_ONCE(*entry, new);
			break;
		case EX_DATA_KPKEYS_SWP:
			old = xchg_relaxed(entry, new);
			break;
		case EX_DATA_KPKEYS_CAS:
			old = cmpxchg_relaxed(entry, old, new);
			break;
		}
	}
	pt_regs_write_reg(regs, reg_old, old);
}

/**
 * arm64_kpkeys_lazy_may_map() - Would this write map what has a key?
 * @regs: registers at the fault.
 * @data: instruction and operands, from the exception table.
 *
 * The batch did not ask. Not static, so that tests can stub it.
 *
 * Context: as arm64_kpkeys_lazy_write().
 * Return: false if so.
 */
bool arm64_kpkeys_lazy_may_map(const struct pt_regs *regs, int data)
{
	pte_t pte;

	KUNIT_STATIC_STUB_REDIRECT(arm64_kpkeys_lazy_may_map, regs, data);

	pte = __pte(pt_regs_read_reg(regs, FIELD_GET(EX_DATA_REG_NEW, data)));
	if (FIELD_GET(EX_DATA_KPKEYS, data) != EX_DATA_KPKEYS_STR)
		return true;
	return kpkeys_may_map(pte_pfn(pte), 1, pte_present(pte));
}

/* Did a key refuse this access? */
static bool kpkeys_is_violation(unsigned long addr, unsigned long esr)
{
	return ESR_ELx_EC(esr) == ESR_ELx_EC_DABT_CUR && is_ttbr1_addr(addr) &&
	       esr_fsc_is_permission_fault(esr) &&
	       arm64_kpkeys_tagged(kpkeys_leaf_of(addr));
}

/**
 * __arm64_kpkeys_lazy_abort() - Redo a refused write of a batch.
 * @regs: registers at the fault.
 *
 * The instruction and its address come from system registers. An attacker could
 * have forged them in @regs, which are on the stack, to have any write done.
 *
 * Context: the handler of an abort in the kernel, at the default level, before
 * another exception can occur.
 * Return: true if the write was done, or refused and reported.
 */
bool __arm64_kpkeys_lazy_abort(struct pt_regs *regs)
{
	const struct exception_table_entry *ex;
	unsigned long addr;

	if (!(read_sysreg(esr_el1) & ESR_ELx_WNR) ||
	    !kpkeys_is_violation(untagged_addr(read_sysreg(far_el1)),
				 read_sysreg(esr_el1)))
		return false;

	/*
	 * Not in modules: their exception tables are found via writable memory.
	 */
	ex = search_kernel_exception_table(read_sysreg(elr_el1));
	if (!ex || ex->type != EX_TYPE_KPKEYS)
		return false;

	if (!arm64_kpkeys_lazy_may_map(regs, ex->data)) {
		regs->pc = (unsigned long)&ex->fixup + ex->fixup;
		return true;
	}

	/*
	 * A breakpoint in what was called, as of a kprobe, has overwritten the
	 * system registers: the write counts as a violation then.
	 */
	if (read_sysreg(elr_el1) != (unsigned long)&ex->insn + ex->insn)
		return false;

	/*
	 * Read it again: a call may have spilled the first value to the stack.
	 */
	addr = untagged_addr(read_sysreg(far_el1));
	regs->pc = (unsigned long)&ex->fixup + ex->fixup;
	arm64_kpkeys_lazy_write(regs, ex->data, (u64 *)addr);
	return true;
}

/* === Violations ========================================================= */

/**
 * arch_kpkeys_die() - End the current task as any that oopses.
 * @regs: registers at the violation.
 * @code: syndrome of the fault.
 *
 * Context: the fault handler.
 */
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code)
{
	die("kpkeys violation", regs, code);
}

static bool arm64_is_zeropad(const struct pt_regs *regs)
{
	const struct exception_table_entry *entry = search_exception_tables(regs->pc);

	return entry && entry->type == EX_TYPE_LOAD_UNALIGNED_ZEROPAD;
}

/**
 * arm64_kpkeys_data_abort() - Handle a fault that a protection key caused.
 * @addr: the faulting address.
 * @esr: syndrome of the fault.
 * @regs: registers at the fault.
 *
 * Does not return after a violation, unless a test expects it.
 *
 * Context: the handler of a fault in the kernel, at the default level.
 * Return: true if a read has come across a secret page, or a test expects the
 * violation; false if a key did not cause the fault.
 */
bool arm64_kpkeys_data_abort(unsigned long addr, unsigned long esr,
			     struct pt_regs *regs)
{
	struct kpkeys_violation violation = {
		.addr = addr,
		.ip = regs->pc,
		.is_read = !(esr & ESR_ELx_WNR),
		.pkey_reg = raw_cpu_read(arm64_kpkeys_at_entry),
	};

	if (!kpkeys_is_violation(addr, esr))
		return false;
	/* The page may have lost its key meanwhile, and then what says so. */
	if (arm64_is_zeropad(regs) &&
	    (kpkeys_secret_is_overrun(&violation) || !kpkeys_is_violation(addr, esr)) &&
	    fixup_exception(regs, esr))
		return true;

	violation.pkey = FIELD_GET(PTE_PO_IDX_MASK, kpkeys_leaf_of(addr));
	kpkeys_report_violation(&violation);
	if (kpkeys_violation_is_expected() && fixup_exception(regs, esr))
		return true;

	kpkeys_violation_die(regs, esr);
}
