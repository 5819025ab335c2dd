/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Protection keys for supervisor pages (PKS): the register over time.
 *
 * Handlers of interrupts and exceptions begin at the default level, and a
 * context switch ends whatever level there was. What kernel code uses keys for
 * is told by <asm/kpkeys.h>.
 */
#ifndef _ASM_X86_PKS_H
#define _ASM_X86_PKS_H

#include <linux/types.h>

struct pt_regs;

#ifdef CONFIG_X86_PKS

#include <linux/jump_label.h>
#include <asm/msr-index.h>
#include <asm/percpu.h>

#define X86_PKEY_PGTABLES	1
#define X86_PKEY_MAX		1

/* PKRS: two bits per key, access-disable below write-disable. */
#define PKRS_DEFAULT		0x55555558U	/* key 1: write-disable */
#define PKRS_PGTABLES		0x55555550U	/* key 1: read-write */

/* Does the CPU have keys, and do we use them? */
DECLARE_STATIC_KEY_FALSE(x86_pks_key);

/*
 * The level this CPU was raised to, or zero. It says raised only while the
 * register is: set after the one and cleared before the other. Whoever changes
 * it by an arbitrary write makes guards switch too often, or not at all so that
 * the write they guard faults.
 */
DECLARE_PER_CPU(u32, x86_pks_shadow);

/* The register when this CPU last entered a handler from kernel mode. */
DECLARE_PER_CPU(u32, x86_pks_at_entry);

/* How often a handler found that the shadow word said raised, and lied. */
DECLARE_PER_CPU(unsigned long, x86_pks_lies);

static __always_inline u32 x86_read_pkrs(void)
{
	u32 low, high;

	asm volatile("rdmsr" : "=a" (low), "=d" (high) : "c" (MSR_IA32_PKRS));
	return low;
}

/*
 * Immediate operands within the asm: as an input the compiler may keep the
 * value in a register across calls, so that it ends up on the stack, where an
 * arbitrary write can change it.
 */
#define x86_write_pkrs(pkrs) do {					\
	asm volatile("movl %0, %%eax\n\t"				\
		     "movl %1, %%ecx\n\t"				\
		     "xorl %%edx, %%edx\n\t"				\
		     "wrmsr"						\
		     : : "i" (pkrs), "i" (MSR_IA32_PKRS)		\
		     : "eax", "ecx", "edx", "memory", "cc");		\
} while (0)

#define ARCH_IRQENTRY_KPKEYS

/**
 * struct arch_irqentry_kpkeys - what a handler interrupted.
 * @raised: the register was raised.
 * @shadow: the shadow word.
 */
struct arch_irqentry_kpkeys {
	bool raised;
	u32 shadow;
};

/*
 * Reads the register, as the shadow word can be forged, and what is saved here
 * decides what comes back.
 */
static __always_inline void
arch_irqentry_enter_kpkeys(struct arch_irqentry_kpkeys *saved)
{
	u32 pkrs;

	if (!static_branch_unlikely(&x86_pks_key))
		return;

	pkrs = x86_read_pkrs();
	raw_cpu_write(x86_pks_at_entry, pkrs);
	saved->raised = pkrs == PKRS_PGTABLES;
	saved->shadow = raw_cpu_read(x86_pks_shadow);
	if (IS_ENABLED(CONFIG_KPKEYS_DEBUG) && saved->shadow && !saved->raised)
		raw_cpu_inc(x86_pks_lies);
	raw_cpu_write(x86_pks_shadow, 0);
	if (pkrs != PKRS_DEFAULT)
		x86_write_pkrs(PKRS_DEFAULT);
}

static __always_inline void
arch_irqentry_exit_kpkeys(const struct arch_irqentry_kpkeys *saved)
{
	if (!static_branch_unlikely(&x86_pks_key))
		return;

	if (saved->raised)
		x86_write_pkrs(PKRS_PGTABLES);
	raw_cpu_write(x86_pks_shadow, saved->shadow);
}

void x86_pks_start_cpu(void);
void x86_pks_switch(void);
void x86_pks_resume(void);
u32 x86_pks_interrupted(void);
unsigned long x86_pks_shadow_lies(void);
bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
		   unsigned long address);
bool x86_pks_lazy_write(struct pt_regs *regs, unsigned long *val, int op,
			unsigned long error_code, unsigned long address);

#else

static inline void x86_pks_start_cpu(void) { }
static inline void x86_pks_switch(void) { }
static inline void x86_pks_resume(void) { }
static inline u32 x86_pks_interrupted(void) { return 0; }

static inline bool x86_pks_fault(struct pt_regs *regs, unsigned long error_code,
				 unsigned long address)
{
	return false;
}

#endif /* CONFIG_X86_PKS */

#endif /* _ASM_X86_PKS_H */
