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
#include <linux/kpkeys_mappings.h>
#include <linux/kpkeys_secret.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>

#include <asm/cpufeature.h>
#include <asm/extable.h>
#include <asm/kdebug.h>
#include <asm/pks.h>
#include <asm/processor-flags.h>
#include <asm/tlbflush.h>
#include <asm/trapnr.h>
#include <asm/trap_pf.h>

DEFINE_STATIC_KEY_FALSE_RO(x86_pks_key);

/* Not in the cache-hot per-CPU section, which is one full cache line. */
DEFINE_PER_CPU(u32, x86_pks_at_entry);

/* === The register ======================================================= */

static bool nopks __initdata;

static int __init pks_early_nopks(char *arg)
{
	nopks = true;
	setup_clear_cpu_cap(X86_FEATURE_PKS);
	return 0;
}
early_param("nopks", pks_early_nopks);

/**
 * arch_kpkeys_init() - Enable PKS and set the boot CPU to the default level.
 *
 * CR4.PKS is pinned later in boot, and set on other CPUs with the pinned bits.
 *
 * Context: boot, one CPU.
 * Return: NULL, or the reason why there are no protection keys.
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
 * x86_pks_start_cpu() - Set a starting CPU to the default level.
 *
 * Reset clears the register, which allows every access with every key.
 *
 * Context: on that CPU, right after CR4 is set.
 */
void noinstr x86_pks_start_cpu(void)
{
	if (arch_kpkeys_enabled())
		x86_write_pkrs(PKRS_DEFAULT);
}

/**
 * x86_pks_resume() - Set the default level on resume, without per-CPU data.
 *
 * Context: the resuming CPU, interrupts off.
 */
void noinstr x86_pks_resume(void)
{
	if (arch_kpkeys_enabled())
		x86_write_pkrs(PKRS_DEFAULT);
}

/**
 * x86_pks_leaked() - Lower a level that was not lowered in time.
 * @ti_work: flags of the work left before the return to user mode.
 *
 * Context: the return to user mode, interrupts off.
 *
 * Return: @ti_work, which the caller so need not save across the call.
 */
unsigned long x86_pks_leaked(unsigned long ti_work)
{
	kpkeys_lower();
	kpkeys_level_leaked();

	return ti_work;
}

/**
 * x86_pks_switch() - End any raised level on a context switch.
 *
 * Ledger frames belong to this CPU: the task resumes at the default level,
 * wherever it runs.
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

/* x86_write_pkrs() in machine code; negative where the value is. */
static const s16 pks_write[] = {
	0xb9, MSR_IA32_PKRS & 0xff, MSR_IA32_PKRS >> 8, 0, 0,	/* movl, %ecx */
	0x31, 0xd2,						/* xorl %edx, %edx */
	0xb8, -1, -1, -1, -1,					/* movl, %eax */
	0x0f, 0x30,						/* wrmsr */
};

static __always_inline bool pks_is_write(const u8 *start, unsigned int from,
					 unsigned int to)
{
	unsigned int i;

	for (i = from; i < to; i++)
		if (pks_write[i] >= 0 && start[i] != pks_write[i])
			return false;
	return true;
}

/**
 * x86_pks_restart_write() - Begin a write of the register anew.
 * @regs: registers of interrupted kernel code.
 *
 * Between its first instruction and WRMSR, number and value are in general
 * registers, now on the stack. Only their code is out of an attacker's reach.
 *
 * Context: the entry of an interrupt or exception.
 */
void noinstr x86_pks_restart_write(struct pt_regs *regs)
{
	/* Bytes of the instructions that have run. */
	static const u8 done[] = { 5, 7, 12 };
	unsigned int i;

	/* After a jump to nowhere there is no code. */
	if (regs->ip < __START_KERNEL_map)
		return;

	for (i = 0; i < ARRAY_SIZE(done); i++) {
		const u8 *start = (const u8 *)regs->ip - done[i];

		/* First the code ahead: there may be no memory before it. */
		if (pks_is_write(start, done[i], ARRAY_SIZE(pks_write)) &&
		    pks_is_write(start, 0, done[i])) {
			regs->ip = (unsigned long)start;
			return;
		}
	}
}

/**
 * x86_pks_enter() - Have a handler start at the default level.
 * @regs: registers of interrupted kernel code.
 *
 * Raised code must not be preempted, because its frame is in the ledger of this
 * CPU.
 *
 * Context: the entry of an interrupt or exception, where raised code was
 * interrupted, or code that may have begun to write the register.
 */
void noinstr x86_pks_enter(struct pt_regs *regs)
{
	unsigned long level;
	u32 pkrs;

	if (regs->cx == MSR_IA32_PKRS)
		x86_pks_restart_write(regs);

	pkrs = x86_read_pkrs();
	raw_cpu_write(x86_pks_at_entry, pkrs);
	level = kpkeys_level_of(pkrs);
	if (level != KPKEYS_LVL_DEFAULT) {
		if (kpkeys_ledger_push((unsigned long)regs, level))
			__preempt_count_add(PREEMPT_OFFSET);
		raw_cpu_write(kpkeys_ledger.level, 0);
	}
	x86_write_pkrs(PKRS_DEFAULT);
}

/**
 * x86_pks_return_to_raised() - Raise the level of the frame to return to.
 *
 * The only caller has matched the stack pointer against the ledger. Check
 * again, so that no other caller can raise the level.
 *
 * Context: called by assembler at the end of an exception, with the stack
 * pointer at struct pt_regs; interrupts off.
 */
void noinstr x86_pks_return_to_raised(void)
{
	/* Skip the saved frame pointer and the return address. */
	unsigned long frame = (unsigned long)__builtin_frame_address(0) + 16;

	if (!kpkeys_ledger_is_top(frame))
		return;

	switch (kpkeys_ledger_top_level()) {
	case KPKEYS_LVL_STATE:
		x86_write_pkrs(PKRS_STATE);
		break;
	case KPKEYS_LVL_CRED:
		x86_write_pkrs(PKRS_CRED);
		break;
	case KPKEYS_LVL_SECRET:
		x86_write_pkrs(PKRS_SECRET);
		break;
	default:
		x86_write_pkrs(PKRS_PGTABLES);
	}
	raw_cpu_write(kpkeys_ledger.level, raw_cpu_read(kpkeys_ledger.top_level));
	kpkeys_ledger_pop();
	__preempt_count_sub(PREEMPT_OFFSET);
}

/**
 * x86_pks_interrupted() - Get the register of the last interrupted kernel code.
 *
 * For reports: a handler itself runs at the default level.
 *
 * Return: the register at the last entry of this CPU from kernel mode.
 */
u32 x86_pks_interrupted(void)
{
	return raw_cpu_read(x86_pks_at_entry);
}

/* === Violations ========================================================= */

static int pks_pkey_of(unsigned long address)
{
	unsigned int level;
	pte_t *pte = lookup_address(address, &level);

	if (!pte)
		return KPKEYS_PKEY_DEFAULT;
	return (pte_flags(*pte) & _PAGE_PKEY_MASK) >> _PAGE_BIT_PKEY_BIT0;
}

/**
 * arch_kpkeys_die() - End the current task as any that oopses.
 * @regs: registers at the violation.
 * @code: error code of the fault.
 *
 * Context: the fault handler.
 */
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code)
{
	die("kpkeys violation", regs, code);
}

/**
 * x86_pks_lazy_write() - Redo a refused write of <asm/pgtable_lazy.h>.
 * @regs: registers at the fault.
 * @val: the source operand, one of @regs.
 * @op: the instruction, one of EX_PKS_*.
 * @error_code: error code of the fault.
 * @address: the faulting address.
 *
 * Only writes that the key of page tables or of the ledger refused are redone,
 * and not if the entry would map what has a key, which the batch did not ask.
 *
 * Context: the page fault handler, at the default level.
 * Return: true if the write was done, or refused and reported.
 */
bool x86_pks_lazy_write(struct pt_regs *regs, unsigned long *val, int op,
			unsigned long error_code, unsigned long address)
{
	unsigned long *ptr = (unsigned long *)address;
	int pkey = pks_pkey_of(address);
	pte_t pte = __pte(*val);

	if (!(error_code & X86_PF_PK) ||
	    (pkey != X86_PKEY_PGTABLES && pkey != X86_PKEY_LEDGER))
		return false;
	if (op == EX_PKS_MOV && !kpkeys_may_map(pte_pfn(pte), 1, pte_present(pte)))
		return true;

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
 * x86_pks_fault() - Handle a fault that a kernel protection key caused.
 * @regs: registers at the fault.
 * @error_code: its error code.
 * @address: the faulting address.
 *
 * Does not return after a violation, unless a test expects it.
 *
 * Context: the page fault handler.
 * Return: true if the write was redone, a read has come across a secret page, or
 * a test expects the violation; false if a key did not cause the fault.
 */
bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
		   unsigned long address)
{
	struct kpkeys_violation violation = {
		.addr = address,
		.is_read = !(error_code & X86_PF_WRITE),
		.pkey_reg = x86_pks_interrupted(),
	};

	if (!(error_code & X86_PF_PK) || !arch_kpkeys_enabled())
		return false;

	/* May be a single-stepped copy; this sets regs->ip to the original. */
	if (kprobe_page_fault(regs, X86_TRAP_PF))
		return true;
	if (ex_get_fixup_type(regs->ip) == EX_TYPE_PKS &&
	    fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return true;

	if (ex_get_fixup_type(regs->ip) == EX_TYPE_ZEROPAD &&
	    kpkeys_secret_is_overrun(&violation) &&
	    fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return true;

	violation.ip = regs->ip;
	violation.pkey = pks_pkey_of(address);
	kpkeys_report_violation(&violation);

	if (kpkeys_violation_is_expected() &&
	    fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return true;

	kpkeys_violation_die(regs, error_code);
}

/* === Tagged ranges, as the CPU sees them ================================ */

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
	unsigned long end = (unsigned long)__va(PFN_PHYS(max_pfn));
	unsigned long addr, size, last_end = 0;
	int nr = 0, pkey, last_pkey = 0;
	unsigned int level;
	pte_t *pte;

	for (addr = PAGE_OFFSET; addr < end; addr += size) {
		pte = lookup_address(addr, &level);
		size = pte ? page_level_size(level) : PAGE_SIZE;
		if (!pte || !(pte_flags(*pte) & _PAGE_PRESENT) ||
		    !(pte_flags(*pte) & _PAGE_PKEY_MASK))
			continue;

		pkey = (pte_flags(*pte) & _PAGE_PKEY_MASK) >> _PAGE_BIT_PKEY_BIT0;
		if (nr && last_end == addr && last_pkey == pkey) {
			if (nr <= max)
				ranges[nr - 1].end = addr + size;
		} else {
			if (nr < max)
				ranges[nr] = (struct kpkeys_range) {
					.start = addr, .end = addr + size,
					.pkey = pkey,
				};
			nr++;
		}
		last_end = addr + size;
		last_pkey = pkey;
	}
	return nr;
}
