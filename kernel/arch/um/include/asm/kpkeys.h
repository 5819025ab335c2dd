/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kpkeys on the host CPU's user protection keys.
 */
#ifndef __UM_KPKEYS_H
#define __UM_KPKEYS_H

#include <linux/types.h>
#include <sysdep/pkey.h>

struct faultinfo;
struct kpkeys_range;
struct pt_regs;
struct uml_pt_regs;

#ifdef CONFIG_UML_PKU

#define KPKEYS_PKEY_DEFAULT	0
#define KPKEYS_PKEY_PGTABLES	UM_PKEY_PGTABLES
#define KPKEYS_PKEY_LEDGER	UM_PKEY_LEDGER
#define KPKEYS_PKEY_STATE	UM_PKEY_STATE
#define KPKEYS_PKEY_CRED	UM_PKEY_CRED
#define KPKEYS_PKEY_SECRET	UM_PKEY_SECRET

#ifdef CONFIG_UML_PKU_MOCK
#define KPKEYS_ARCH_NAME	"a mock: nothing is protected"
#else
#define KPKEYS_ARCH_NAME	"um/pku"
#endif

static inline bool arch_kpkeys_enabled(void)
{
	return um_pku_active;
}

static inline int arch_max_pkey(void)
{
	return arch_kpkeys_enabled() ? UM_PKEY_MAX : KPKEYS_PKEY_DEFAULT;
}

static __always_inline u64 arch_kpkeys_read_reg(void)
{
	return um_read_pkru();
}

/* A macro, so that any compiler uses the value as an immediate operand. */
#define arch_kpkeys_level_reg(level)					\
	((level) == KPKEYS_LVL_PGTABLES ? UM_PKRU_PGTABLES :		\
	 (level) == KPKEYS_LVL_STATE ? UM_PKRU_STATE :			\
	 (level) == KPKEYS_LVL_CRED ? UM_PKRU_CRED :			\
	 (level) == KPKEYS_LVL_SECRET ? UM_PKRU_SECRET : UM_PKRU_DEFAULT)

/*
 * The shadow word is raised only while the register is: it is set after the
 * register is raised and cleared before the register is lowered. An interrupt
 * in between is harmless, because it resets both.
 */
#define arch_kpkeys_write_level(level) do {				\
	if ((level) == KPKEYS_LVL_DEFAULT)				\
		um_set_pkru_shadow(KPKEYS_LVL_DEFAULT);			\
	um_write_pkru(arch_kpkeys_level_reg(level));			\
	if ((level) != KPKEYS_LVL_DEFAULT)				\
		um_set_pkru_shadow(level);				\
} while (0)

/* Checked for each entry written; reading the register is slower. */
static __always_inline bool arch_kpkeys_level_in_force(const int level)
{
	return um_pkru_shadow() == level;
}

/*
 * UML has no jump labels: a static key costs another load and compare for each
 * entry written. Until arch_kpkeys_init() the shadow word is raised, so that it
 * answers both questions. Only statistics need to distinguish them.
 */
#define arch_kpkeys_guard_enabled(enabled)				\
	(IS_ENABLED(CONFIG_KPKEYS_STATS) ? (enabled) : true)

/* User registers of a task, wherever its stack is. */
#define KPKEYS_NR_REGS			MAX_REG_NR
#define arch_kpkeys_user_regs(task, stack)				\
	((void)(stack), (task)->thread.regs.regs.gp)

/* The TLBs are the host's, which flushes what it unmaps. */
#define arch_kpkeys_flush_tlbs()	do { } while (0)

/* Which task is the current one, as a word in memory says. */
#define arch_kpkeys_set_current(task)	(cpu_tasks[uml_curr_cpu()] = (task))

const char *arch_kpkeys_init(void);
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code);
void um_kpkeys_set_physmem(unsigned long start);
int arch_set_memory_pkey(unsigned long addr, int numpages, int pkey);
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max);
bool um_kpkeys_fault(const struct faultinfo *fi, unsigned long ip,
		     struct uml_pt_regs *regs, void *mc);

#else

static inline void um_kpkeys_set_physmem(unsigned long start) { }

static inline bool um_kpkeys_fault(const struct faultinfo *fi, unsigned long ip,
				   struct uml_pt_regs *regs, void *mc)
{
	return false;
}

#endif /* CONFIG_UML_PKU */

#endif /* __UM_KPKEYS_H */
