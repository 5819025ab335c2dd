/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kpkeys on x86's protection keys for supervisor pages (PKS).
 */
#ifndef _ASM_X86_KPKEYS_H
#define _ASM_X86_KPKEYS_H

#include <asm/asm.h>
#include <asm/cpufeature.h>
#include <asm/extable_fixup_types.h>
#include <asm/pks.h>

struct kpkeys_range;

#define KPKEYS_PKEY_DEFAULT	0
#define KPKEYS_PKEY_PGTABLES	X86_PKEY_PGTABLES
#define KPKEYS_PKEY_LEDGER	X86_PKEY_LEDGER
#define KPKEYS_PKEY_STATE	X86_PKEY_STATE
#define KPKEYS_PKEY_CRED	X86_PKEY_CRED
#define KPKEYS_PKEY_SECRET	X86_PKEY_SECRET

#define KPKEYS_ARCH_NAME	"x86/pks"

static __always_inline bool arch_kpkeys_enabled(void)
{
	return static_branch_unlikely(&x86_pks_key);
}

static inline int arch_max_pkey(void)
{
	return arch_kpkeys_enabled() ? X86_PKEY_MAX : KPKEYS_PKEY_DEFAULT;
}

static __always_inline u64 arch_kpkeys_read_reg(void)
{
	return x86_read_pkrs();
}

/* A macro, so that any compiler uses the value as an immediate operand. */
#define arch_kpkeys_level_reg(level)					\
	((level) == KPKEYS_LVL_PGTABLES ? PKRS_PGTABLES :		\
	 (level) == KPKEYS_LVL_STATE ? PKRS_STATE :			\
	 (level) == KPKEYS_LVL_CRED ? PKRS_CRED :			\
	 (level) == KPKEYS_LVL_SECRET ? PKRS_SECRET : PKRS_DEFAULT)

/*
 * The level in memory is raised only while the register is: it is set after the
 * register is raised and cleared before the register is lowered. It lies in the
 * ledger, which is writable at a raised level only. If a context switch lowered
 * the register meanwhile, which is a bug, the write that clears the level
 * faults and is redone by the fault handler.
 */
#define arch_kpkeys_write_level(lvl) do {				\
	if ((lvl) == KPKEYS_LVL_DEFAULT) {				\
		unsigned long __none = KPKEYS_LVL_DEFAULT;		\
									\
		asm volatile("1:\tmovq %[none], " __percpu_arg([word]) "\n" \
			     "2:\n"					\
			     _ASM_EXTABLE_TYPE_REG(1b, 2b,		\
				EX_TYPE_PKS | EX_DATA_IMM(EX_PKS_MOV), %[none]) \
			     : [word] "=m" (__my_cpu_var(kpkeys_ledger.level)) \
			     : [none] "r" (__none));			\
	}								\
	x86_write_pkrs(arch_kpkeys_level_reg(lvl));			\
	if ((lvl) != KPKEYS_LVL_DEFAULT)				\
		raw_cpu_write(kpkeys_ledger.level, lvl);		\
} while (0)

/* Checked for each entry written; reading the register is slower. */
static __always_inline bool arch_kpkeys_level_in_force(const int level)
{
	return raw_cpu_read(kpkeys_ledger.level) == level;
}

/* With PTI the kernel has a second PGD, but never a restricted one. */
#define arch_kpkeys_pgd_order(mm)					\
	((mm) == &init_mm ? boot_cpu_has(X86_FEATURE_PTI) : pgd_allocation_order())

#define arch_kpkeys_walk_addr(addr)					\
	__canonical_address(addr, __VIRTUAL_MASK_SHIFT + 1)

/* User pages have keys of their own. */
#define arch_kpkeys_pte_tagged(pte)					\
	(!(pte_flags(pte) & _PAGE_USER) && pte_flags(pte) & _PAGE_PKEY_MASK)

/* User registers of a task, as task_pt_regs() of a stack that is known. */
#define KPKEYS_NR_REGS	(sizeof(struct pt_regs) / sizeof(long))
#define arch_kpkeys_user_regs(task, stack)				\
	((void)(task),							\
	 (unsigned long *)((stack) + THREAD_SIZE - TOP_OF_KERNEL_STACK_PADDING) - \
	 KPKEYS_NR_REGS)

/* Which task is the current one, as a word in memory says. */
#define arch_kpkeys_set_current(task)	this_cpu_write(current_task, task)

const char *arch_kpkeys_init(void);
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code);
int arch_set_memory_pkey(unsigned long addr, int numpages, int pkey);
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max);

#endif /* _ASM_X86_KPKEYS_H */
