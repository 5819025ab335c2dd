// SPDX-License-Identifier: GPL-2.0-only
/*
 * kpkeys on protection keys for supervisor pages (PKS).
 */
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_ledger.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/sched/debug.h>

#include <asm/cpufeature.h>
#include <asm/extable.h>
#include <asm/pks.h>
#include <asm/processor-flags.h>
#include <asm/tlbflush.h>
#include <asm/trapnr.h>
#include <asm/trap_pf.h>

DEFINE_STATIC_KEY_FALSE_RO(x86_pks_key);

/* Not among the hot ones, which must fit into one cache line and fill it. */
DEFINE_PER_CPU(u32, x86_pks_at_entry);

/* === The register ======================================================= */

static bool nopks __initdata;

static int __init early_nopks(char *arg)
{
	nopks = true;
	setup_clear_cpu_cap(X86_FEATURE_PKS);
	return 0;
}
early_param("nopks", early_nopks);

/**
 * arch_kpkeys_init() - Switch PKS on and put the boot CPU at the default level.
 *
 * The bit in CR4 is pinned later on, and set on the other CPUs with those that
 * are.
 *
 * Context: boot, one CPU.
 * Return: NULL, or why there are no protection keys.
 */
const char * __init arch_kpkeys_init(void)
{
	if (nopks)
		return "disabled by nopks";
	if (boot_cpu_has(X86_FEATURE_XENPV))
		return "a Xen PV guest has no protection keys for kernel memory";
	if (!boot_cpu_has(X86_FEATURE_PKS))
		return "the CPU has no protection keys for kernel memory (PKS)";

	x86_write_pkrs(PKRS_DEFAULT);
	cr4_set_bits(X86_CR4_PKS);
	static_branch_enable(&x86_pks_key);
	return NULL;
}

/**
 * x86_pks_start_cpu() - Put a CPU that comes up at the default level.
 *
 * A reset leaves the register at zero, where all keys allow everything.
 *
 * Context: first thing on that CPU, after CR4.
 */
void noinstr x86_pks_start_cpu(void)
{
	if (arch_kpkeys_enabled())
		x86_write_pkrs(PKRS_DEFAULT);
}

/**
 * x86_pks_resume() - The same after a suspend, before there is per-CPU data.
 *
 * Context: the resuming CPU, interrupts off.
 */
void noinstr x86_pks_resume(void)
{
	if (arch_kpkeys_enabled())
		x86_write_pkrs(PKRS_DEFAULT);
}

/**
 * x86_pks_leaked() - End a level that would survive the return to user mode.
 *
 * Context: the return to user mode, interrupts off.
 */
void x86_pks_leaked(void)
{
	kpkeys_lower();
	kpkeys_level_leaked();
}

/**
 * x86_pks_switch() - No level is held across a context switch.
 *
 * Frames that were to be raised again belong to this CPU: the task goes on at
 * the default level, wherever it does.
 *
 * Context: the context switch, before the current task changes.
 */
void x86_pks_switch(void)
{
	if (!arch_kpkeys_enabled())
		return;

	kpkeys_assert_current_default();
	if (unlikely(raw_cpu_read(kpkeys_ledger.level)))
		kpkeys_lower();
	if (unlikely(!kpkeys_ledger_is_top(0))) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_ledger_clear();
		kpkeys_lower();
	}
}

/**
 * x86_pks_return_to_raised() - Raise the level of the frame that is returned to.
 *
 * Its only caller has found in the ledger that the stack pointer is that of the
 * topmost frame. It is asked once more, for the sake of any other caller.
 *
 * Context: the assembler at the end of an exception, with the stack pointer at
 * struct pt_regs; interrupts off.
 */
void noinstr x86_pks_return_to_raised(void)
{
	/* Above the saved frame pointer and the return address. */
	unsigned long frame = (unsigned long)__builtin_frame_address(0) + 16;

	if (!kpkeys_ledger_is_top(frame))
		return;

	x86_write_pkrs(PKRS_PGTABLES);
	raw_cpu_write(kpkeys_ledger.level, raw_cpu_read(kpkeys_ledger.top_level));
	kpkeys_ledger_pop();
	__preempt_count_sub(PREEMPT_OFFSET);
}

/**
 * x86_pks_interrupted() - The register of the code that was interrupted last.
 *
 * For reports: a handler itself is at the default level.
 *
 * Return: what the register was when this CPU last entered a handler from
 * kernel mode.
 */
u32 x86_pks_interrupted(void)
{
	return raw_cpu_read(x86_pks_at_entry);
}

/* === Violations ========================================================= */

static int pkey_of(unsigned long address)
{
	unsigned int level;
	pte_t *pte = lookup_address(address, &level);

	if (!pte)
		return KPKEYS_PKEY_DEFAULT;
	return (pte_flags(*pte) & _PAGE_PKEY_MASK) >> _PAGE_BIT_PKEY_BIT0;
}

/**
 * x86_pks_lazy_write() - Do a write of <asm/pgtable_lazy.h> that was refused.
 * @regs: registers at the fault.
 * @val: the register whose value was to be written, one of @regs.
 * @op: the instruction, one of EX_PKS_*.
 * @error_code: what the CPU says of the fault.
 * @address: where the value was to be written to.
 *
 * Only if it was a page table, and refused because of the level.
 *
 * Context: the page fault handler, at the default level.
 * Return: true if it is done.
 */
bool x86_pks_lazy_write(struct pt_regs *regs, unsigned long *val, int op,
			unsigned long error_code, unsigned long address)
{
	unsigned long *ptr = (unsigned long *)address;

	if (!(error_code & X86_PF_PK) || pkey_of(address) != X86_PKEY_PGTABLES)
		return false;

	guard(kpkeys_hardened_pgtables)();
	switch (op) {
	case EX_PKS_MOV:
		WRITE_ONCE(*ptr, *val);
		return true;
	case EX_PKS_XCHG:
		*val = xchg(ptr, *val);
		return true;
	case EX_PKS_CMPXCHG:
		if (try_cmpxchg(ptr, &regs->ax, *val))
			regs->flags |= X86_EFLAGS_ZF;
		else
			regs->flags &= ~X86_EFLAGS_ZF;
		return true;
	}
	return false;
}

/**
 * x86_pks_fault() - Handle a fault if a protection key of the kernel caused it.
 * @regs: registers at the fault.
 * @error_code: what the CPU says of it.
 * @address: the address that was to be accessed.
 *
 * Context: the page fault handler.
 * Return: true if a key caused it and the instruction may go on, as the write was
 * done again or a test expects this; does not return otherwise. False if
 * something else caused the fault.
 */
bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
		   unsigned long address)
{
	struct kpkeys_violation violation = {
		.addr = address,
		.pkey_reg = x86_pks_interrupted(),
	};

	if (!(error_code & X86_PF_PK) || !arch_kpkeys_enabled())
		return false;

	/* If one is stepped over, this tells the instruction it stands for. */
	if (kprobe_page_fault(regs, X86_TRAP_PF))
		return true;
	if (ex_get_fixup_type(regs->ip) == EX_TYPE_PKS &&
	    fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return true;

	violation.ip = regs->ip;
	violation.pkey = pkey_of(address);
	kpkeys_report_violation(&violation);

	if (kpkeys_violation_is_expected() &&
	    fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return true;

	show_regs(regs);
	kpkeys_violation_die();
}

/* === What is tagged, as the CPU sees it ================================= */

/**
 * arch_kpkeys_tagged_ranges() - List what carries a key other than the default.
 * @ranges: receives the ranges, in ascending order.
 * @max: how many fit.
 *
 * Reads the linear map instead of remembering what was tagged, so that the
 * checker sees the truth.
 *
 * Context: may sleep.
 * Return: number of ranges, more than @max if they did not fit.
 */
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max)
{
	unsigned long end = (unsigned long)__va(PFN_PHYS(max_pfn));
	unsigned long addr, size, last_end = 0;
	unsigned int level;
	pte_t *pte;
	int nr = 0;

	for (addr = PAGE_OFFSET; addr < end; addr += size) {
		pte = lookup_address(addr, &level);
		size = pte ? page_level_size(level) : PAGE_SIZE;
		if (!pte || !(pte_flags(*pte) & _PAGE_PRESENT) ||
		    !(pte_flags(*pte) & _PAGE_PKEY_MASK))
			continue;

		if (nr && last_end == addr) {
			if (nr <= max)
				ranges[nr - 1].end = addr + size;
		} else {
			if (nr < max)
				ranges[nr] = (struct kpkeys_range) {
					.start = addr, .end = addr + size,
				};
			nr++;
		}
		last_end = addr + size;
	}
	return nr;
}
