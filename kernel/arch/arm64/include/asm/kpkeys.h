/* SPDX-License-Identifier: GPL-2.0-only */
/* kpkeys on permission overlays (POE). */
#ifndef __ASM_KPKEYS_H
#define __ASM_KPKEYS_H

#ifdef CONFIG_ARM64_KPKEYS

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/kpkeys_ledger.h>
#include <linux/preempt.h>
#include <linux/types.h>

#include <asm/barrier.h>
#include <asm/kpkeys_regs.h>
#include <asm/percpu.h>
#include <asm/pgtable-prot.h>
#include <asm/por.h>

struct kpkeys_range;
struct pt_regs;

#define KPKEYS_PKEY_DEFAULT	0
#define KPKEYS_PKEY_PGTABLES	ARM64_PKEY_PGTABLES
#define KPKEYS_PKEY_LEDGER	ARM64_PKEY_LEDGER
#define KPKEYS_PKEY_STATE	ARM64_PKEY_STATE
#define KPKEYS_PKEY_CRED	ARM64_PKEY_CRED
#define KPKEYS_PKEY_SECRET	ARM64_PKEY_SECRET

#define KPKEYS_ARCH_NAME	"arm64/poe"

/* Are keys in use? */
DECLARE_STATIC_KEY_FALSE(arm64_kpkeys_key);

/* The register at the last entry of this CPU from kernel mode. */
DECLARE_PER_CPU(u64, arm64_kpkeys_at_entry);

void arm64_kpkeys_leaked(void);

static __always_inline bool arch_kpkeys_enabled(void)
{
	return static_branch_unlikely(&arm64_kpkeys_key);
}

static inline int arch_max_pkey(void)
{
	return arch_kpkeys_enabled() ? ARM64_PKEY_MAX : KPKEYS_PKEY_DEFAULT;
}

static __always_inline u64 arch_kpkeys_read_reg(void)
{
	return read_sysreg_s(SYS_POR_EL1);
}

#define arch_kpkeys_level_reg(level)					\
	((level) == KPKEYS_LVL_PGTABLES ? POR_EL1_PGTABLES :		\
	 (level) == KPKEYS_LVL_STATE ? POR_EL1_STATE :			\
	 (level) == KPKEYS_LVL_CRED ? POR_EL1_CRED :			\
	 (level) == KPKEYS_LVL_SECRET ? POR_EL1_SECRET : POR_EL1_DEFAULT)

#define arch_kpkeys_write_level(level) do {				\
	if ((level) == KPKEYS_LVL_PGTABLES)				\
		arm64_write_por_el1(POR_EL1_PGTABLES);			\
	else if ((level) == KPKEYS_LVL_STATE)				\
		arm64_write_por_el1(POR_EL1_STATE);			\
	else if ((level) == KPKEYS_LVL_CRED)				\
		arm64_write_por_el1(POR_EL1_CRED);			\
	else if ((level) == KPKEYS_LVL_SECRET)				\
		arm64_write_por_el1(POR_EL1_SECRET);			\
	else								\
		arm64_write_por_el1(POR_EL1_DEFAULT);			\
} while (0)

#define arch_kpkeys_level_in_force(level)				\
	(arch_kpkeys_read_reg() == arch_kpkeys_level_reg(level))

/* === Entries ============================================================ */

/* A key, and that of page tables, in an entry of the kernel. */
#define ARM64_PTE_PKEY(pkey)	FIELD_PREP(PTE_PO_IDX_MASK, (pteval_t)(pkey))
#define ARM64_PTE_PGTABLES	ARM64_PTE_PKEY(ARM64_PKEY_PGTABLES)

/* Protection of a page table mapping outside the linear map. */
static inline pgprot_t arm64_kpkeys_prot(void)
{
	return __pgprot(_PAGE_KERNEL |
			(arch_kpkeys_enabled() ? ARM64_PTE_PGTABLES : 0));
}

/* Untag an entry for a copy of the linear map, used at the default level. */
static inline pteval_t arm64_kpkeys_untag(pteval_t val)
{
	return arch_kpkeys_enabled() ? val & ~PTE_PO_IDX_MASK : val;
}

/* Does a kernel entry give its page a key? */
static __always_inline bool arm64_kpkeys_tagged(pteval_t val)
{
	return arch_kpkeys_enabled() && val & PTE_PO_IDX_MASK;
}

/* Kernel addresses start here. */
#define arch_kpkeys_walk_addr(addr)	((addr) | _PAGE_OFFSET(vabits_actual))

/* User pages have keys of their own: as pte_valid_not_user(). */
static inline bool arm64_kpkeys_tagged_kernel(pteval_t val)
{
	return (val & (PTE_VALID | PTE_USER | PTE_UXN)) ==
	       (PTE_VALID | PTE_UXN) && arm64_kpkeys_tagged(val);
}

#define arch_kpkeys_pte_tagged(pte)	arm64_kpkeys_tagged_kernel(pte_val(pte))

/* In the read-only part of the kernel image, by either of its addresses. */
bool arm64_kpkeys_read_only(const void *table);
#define arch_kpkeys_read_only(table)	arm64_kpkeys_read_only(table)

/* === Exceptions ========================================================= */

#define ARCH_IRQENTRY_KPKEYS

/* Raised code must not be preempted: its frame is in this CPU's ledger. */
static __always_inline void arch_irqentry_enter_kpkeys(struct pt_regs *regs)
{
	unsigned long level;
	u64 reg;

	if (!arch_kpkeys_enabled())
		return;

	reg = arch_kpkeys_read_reg();
	raw_cpu_write(arm64_kpkeys_at_entry, reg);
	if (likely(reg == POR_EL1_DEFAULT))
		return;

	level = reg == POR_EL1_PGTABLES ? KPKEYS_LVL_PGTABLES :
		reg == POR_EL1_STATE ? KPKEYS_LVL_STATE :
		reg == POR_EL1_CRED ? KPKEYS_LVL_CRED :
		reg == POR_EL1_SECRET ? KPKEYS_LVL_SECRET : KPKEYS_LVL_DEFAULT;
	if (level != KPKEYS_LVL_DEFAULT &&
	    kpkeys_ledger_push((unsigned long)regs, level))
		__preempt_count_add(PREEMPT_OFFSET);
	arm64_write_por_el1(POR_EL1_DEFAULT);
}

/* Each system call asks. */
static __always_inline bool arm64_kpkeys_is_raised(void)
{
	return arch_kpkeys_enabled() &&
	       arch_kpkeys_read_reg() & POR_EL1_RAISED;
}

static __always_inline void arm64_kpkeys_exit_to_user(void)
{
	if (unlikely(arm64_kpkeys_is_raised()))
		arm64_kpkeys_leaked();
}

/*
 * User registers of a task, as task_pt_regs() of a stack that is known. Behind
 * them is what the kernel itself needs.
 */
#define KPKEYS_NR_REGS	(offsetof(struct pt_regs, sdei_ttbr1) / sizeof(long))
#define arch_kpkeys_user_regs(task, stack)				\
	((void)(task),							\
	 (unsigned long *)((stack) + THREAD_SIZE - sizeof(struct pt_regs)))
/*
 * All bits but those of a mitigation of speculation, which the kernel sets in
 * other tasks as well, while these run or do not.
 */
#define arch_kpkeys_reg_mask(i)						\
	((i) == offsetof(struct pt_regs, pstate) / sizeof(long) ?	\
	 ~(PSR_SSBS_BIT | PSR_AA32_SSBS_BIT) : ~0UL)

const char *arch_kpkeys_init(void);
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code);
int arch_set_memory_pkey(unsigned long addr, int numpages, int pkey);
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max);

void arm64_kpkeys_switch(void);
void arm64_kpkeys_return_to_raised(unsigned long frame);
bool arm64_kpkeys_lazy_may_map(const struct pt_regs *regs, int data);
void arm64_kpkeys_lazy_write(struct pt_regs *regs, int data, u64 *entry);
bool arm64_kpkeys_can_split(void);
bool __arm64_kpkeys_lazy_abort(struct pt_regs *regs);
bool arm64_kpkeys_data_abort(unsigned long addr, unsigned long esr,
			     struct pt_regs *regs);

/* Kernel addresses have bit 55 set; the bits above may be a tag. */
static __always_inline bool arm64_kpkeys_may_refuse(unsigned long addr)
{
	return arch_kpkeys_enabled() && addr & BIT(55);
}

static __always_inline bool arm64_kpkeys_lazy_abort(unsigned long addr,
						    struct pt_regs *regs)
{
	return arm64_kpkeys_may_refuse(addr) && __arm64_kpkeys_lazy_abort(regs);
}

static __always_inline bool
arm64_kpkeys_fault(unsigned long addr, unsigned long esr, struct pt_regs *regs)
{
	return arm64_kpkeys_may_refuse(addr) &&
	       arm64_kpkeys_data_abort(addr, esr, regs);
}
#else
static inline void arm64_kpkeys_switch(void) { }
static inline void arm64_kpkeys_exit_to_user(void) { }

static inline bool arm64_kpkeys_lazy_abort(unsigned long far,
					   struct pt_regs *regs)
{
	return false;
}

static inline bool arm64_kpkeys_fault(unsigned long addr, unsigned long esr,
				      struct pt_regs *regs)
{
	return false;
}

static inline bool arm64_kpkeys_tagged(u64 val)
{
	return false;
}

static inline u64 arm64_kpkeys_untag(u64 val)
{
	return val;
}

#define arm64_kpkeys_prot()	PAGE_KERNEL
#endif /* CONFIG_ARM64_KPKEYS */

#endif /* __ASM_KPKEYS_H */
