/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Protection keys for supervisor pages (PKS): lifetime of the register.
 *
 * Interrupt and exception handlers start at the default level, and a context
 * switch ends any raised level. <asm/kpkeys.h> translates levels for the rest
 * of the kernel.
 */
#ifndef _ASM_X86_PKS_H
#define _ASM_X86_PKS_H

#include <linux/types.h>

#include <asm/ptrace.h>

#ifdef CONFIG_X86_PKS

#include <linux/jump_label.h>
#include <linux/kpkeys_ledger.h>
#include <linux/preempt.h>
#include <asm/msr-index.h>
#include <asm/percpu.h>

#define X86_PKEY_PGTABLES	1
#define X86_PKEY_LEDGER		2	/* written at every raised level */
#define X86_PKEY_STATE		3
#define X86_PKEY_CRED		4
#define X86_PKEY_SECRET		5	/* not even read by default */
#define X86_PKEY_MAX		5

/*
 * PKRS: two bits per key, access-disable below write-disable. The default is
 * write-disable for keys in use, and access-disable for secrets and others.
 */
#define PKRS_DEFAULT		0x555556a8U
#define PKRS_PGTABLES		0x55555680U	/* page tables: read-write */
#define PKRS_STATE		0x55555608U	/* state: read-write */
#define PKRS_CRED		0x55555488U	/* credentials: read-write */
#define PKRS_SECRET		0x55555288U	/* secrets: read-write */

/* Does the CPU have PKS, and is it in use? */
DECLARE_STATIC_KEY_FALSE(x86_pks_key);

unsigned long x86_pks_leaked(unsigned long ti_work);

/* The register at the last entry of this CPU from kernel mode. */
DECLARE_PER_CPU(u32, x86_pks_at_entry);

static __always_inline u32 x86_read_pkrs(void)
{
	u32 low, high;

	asm volatile("rdmsr" : "=a" (low), "=d" (high) : "c" (MSR_IA32_PKRS));
	return low;
}

/*
 * Immediate operands inside the asm: the compiler could keep an input operand
 * in a register across calls and spill it to the stack, where an arbitrary
 * write can change it. x86_pks_restart_write() knows these instructions.
 */
#define x86_write_pkrs(pkrs) do {					\
	asm volatile("movl %1, %%ecx\n\t"				\
		     "xorl %%edx, %%edx\n\t"				\
		     "movl %0, %%eax\n\t"				\
		     "wrmsr"						\
		     : : "i" (pkrs), "i" (MSR_IA32_PKRS)		\
		     : "eax", "ecx", "edx", "memory", "cc");		\
} while (0)

void x86_pks_restart_write(struct pt_regs *regs);
void x86_pks_enter(struct pt_regs *regs);

#define ARCH_IRQENTRY_KPKEYS

/*
 * Check the register, because the level in memory is set late and cleared
 * early. A write of the register begins with the number.
 */
static __always_inline void arch_irqentry_enter_kpkeys(struct pt_regs *regs)
{
	if (!static_branch_unlikely(&x86_pks_key))
		return;

	if (likely(regs->cx != MSR_IA32_PKRS)) {
		u32 pkrs = x86_read_pkrs();

		raw_cpu_write(x86_pks_at_entry, pkrs);
		if (likely(pkrs == PKRS_DEFAULT))
			return;
	}
	x86_pks_enter(regs);
}

/* The level of this CPU; must be the default in user mode. */
static __always_inline unsigned long x86_pks_level(void)
{
	return raw_cpu_read(kpkeys_ledger.level);
}

static __always_inline unsigned long x86_pks_exit_work(unsigned long ti_work)
{
	/* Read anew, lest every system call keep the level for here. */
	if (unlikely(this_cpu_read(kpkeys_ledger.level)))
		return x86_pks_leaked(ti_work);

	return ti_work;
}

void x86_pks_start_cpu(void);
void x86_pks_switch(void);
void x86_pks_resume(void);
void x86_pks_return_to_raised(void);
u32 x86_pks_interrupted(void);
bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
		   unsigned long address);
bool x86_pks_lazy_write(struct pt_regs *regs, unsigned long *val, int op,
			unsigned long error_code, unsigned long address);

#else

static inline void x86_pks_start_cpu(void) { }
static inline void x86_pks_switch(void) { }
static inline void x86_pks_resume(void) { }
static inline unsigned long x86_pks_level(void) { return 0; }
static inline u32 x86_pks_interrupted(void) { return 0; }

static inline unsigned long x86_pks_exit_work(unsigned long ti_work)
{
	return ti_work;
}

static inline bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
				 unsigned long address)
{
	return false;
}

#endif /* CONFIG_X86_PKS */

#endif /* _ASM_X86_PKS_H */
