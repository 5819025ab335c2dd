/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kpkeys on permission overlays (POE). For tests, permission indirection (PIE)
 * can replace them where there are none; it protects, but is slow.
 */
#ifndef __ASM_KPKEYS_H
#define __ASM_KPKEYS_H

#ifdef CONFIG_ARM64_KPKEYS

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

extern const char *arm64_kpkeys_name;
#define KPKEYS_ARCH_NAME	arm64_kpkeys_name

/* Are keys in use, and is PIE in the place of POE? */
DECLARE_STATIC_KEY_FALSE(arm64_kpkeys_key);
DECLARE_STATIC_KEY_FALSE(arm64_kpkeys_pie_key);

/* The register at the last entry of this CPU from kernel mode. */
DECLARE_PER_CPU(u64, arm64_kpkeys_at_entry);

void arm64_kpkeys_leaked(void);

static __always_inline bool arch_kpkeys_enabled(void)
{
	return static_branch_unlikely(&arm64_kpkeys_key);
}

static __always_inline bool arm64_kpkeys_pie(void)
{
	return IS_ENABLED(CONFIG_ARM64_KPKEYS_PIE_TEST) &&
	       static_branch_unlikely(&arm64_kpkeys_pie_key);
}

static inline int arch_max_pkey(void)
{
	return arch_kpkeys_enabled() ? ARM64_PKEY_MAX : KPKEYS_PKEY_DEFAULT;
}

static __always_inline u64 arch_kpkeys_read_reg(void)
{
	if (arm64_kpkeys_pie())
		return read_sysreg_s(SYS_PIR_EL1);
	return arm64_read_por_el1();
}

/* The register value for DEFAULT or PGTABLES. */
#define arm64_pkey_reg(which)						\
	(arm64_kpkeys_pie() ? PIR_EL1_##which : POR_EL1_##which)

/*
 * Immediates, for the same reason as in <asm/por.h>. Unlike overlays,
 * permissions of PIR_EL1 may be cached in TLBs. Flush all of this CPU's TLB,
 * because any entry may map a page table.
 */
#define __arm64_write_pir(value) do {					\
	u64 __scratch;							\
									\
	asm volatile("movz	%0, (%1) & 0xffff\n"			\
		     "movk	%0, ((%1) >> 16) & 0xffff, lsl #16\n"	\
		     "movk	%0, ((%1) >> 32) & 0xffff, lsl #32\n"	\
		     "movk	%0, ((%1) >> 48) & 0xffff, lsl #48\n"	\
		     __msr_s(SYS_PIR_EL1, "%x0")			\
		     "isb\n"						\
		     "tlbi	vmalle1\n"				\
		     "dsb	nsh\n"					\
		     "isb\n"						\
		     : "=&r" (__scratch)				\
		     : "i" (value)					\
		     : "memory");					\
} while (0)

#define arm64_write_pkey_reg(which) do {				\
	if (arm64_kpkeys_pie())						\
		__arm64_write_pir(PIR_EL1_##which);			\
	else								\
		arm64_write_por_el1(POR_EL1_##which);			\
} while (0)

#define arch_kpkeys_level_reg(level)					\
	((level) == KPKEYS_LVL_PGTABLES ? arm64_pkey_reg(PGTABLES) :	\
					  arm64_pkey_reg(DEFAULT))

#define arch_kpkeys_write_level(level) do {				\
	if ((level) == KPKEYS_LVL_PGTABLES)				\
		arm64_write_pkey_reg(PGTABLES);				\
	else								\
		arm64_write_pkey_reg(DEFAULT);				\
} while (0)

#define arch_kpkeys_level_in_force(level)				\
	(arch_kpkeys_read_reg() == arch_kpkeys_level_reg(level))

/* === Entries ============================================================ */

/* Bits to set, and to clear, in the entry of a page table in the linear map. */
static __always_inline pteval_t arm64_kpkeys_tag_set(void)
{
	return arm64_kpkeys_pie() ? 0 : PTE_PO_IDX_0;
}

static __always_inline pteval_t arm64_kpkeys_tag_clear(void)
{
	return arm64_kpkeys_pie() ? PTE_UXN : 0;
}

/* Protection of a page table mapping outside the linear map. */
static inline pgprot_t arm64_kpkeys_prot(void)
{
	pteval_t val = _PAGE_KERNEL;

	if (arch_kpkeys_enabled())
		val = (val & ~arm64_kpkeys_tag_clear()) | arm64_kpkeys_tag_set();
	return __pgprot(val);
}

/* Untag an entry for a copy of the linear map, used at the default level. */
static inline pteval_t arm64_kpkeys_untag(pteval_t val)
{
	if (!arch_kpkeys_enabled())
		return val;
	return (val & ~arm64_kpkeys_tag_set()) | arm64_kpkeys_tag_clear();
}

/* Does a kernel entry tag its page as a page table? */
static __always_inline bool arm64_kpkeys_tagged(pteval_t val)
{
	if (!arch_kpkeys_enabled())
		return false;
	if (arm64_kpkeys_pie())
		return pte_pi_index(val) == PI_IDX_PGTABLES;
	return val & PTE_PO_IDX_0;
}

/* Kernel addresses start here. */
#define arch_kpkeys_walk_addr(addr)	((addr) | _PAGE_OFFSET(vabits_actual))

#define arch_kpkeys_pte_tagged(pte)	arm64_kpkeys_tagged(pte_val(pte))

/* In the read-only part of the kernel image, by either of its addresses. */
bool arm64_kpkeys_read_only(const void *table);
#define arch_kpkeys_read_only(table)	arm64_kpkeys_read_only(table)

/* === Exceptions ========================================================= */

#define ARCH_IRQENTRY_KPKEYS

/* Raised code must not be preempted: its frame is in this CPU's ledger. */
static __always_inline void arch_irqentry_enter_kpkeys(struct pt_regs *regs)
{
	u64 reg;

	if (!arch_kpkeys_enabled())
		return;

	reg = arch_kpkeys_read_reg();
	raw_cpu_write(arm64_kpkeys_at_entry, reg);
	if (likely(reg == arm64_pkey_reg(DEFAULT)))
		return;

	if (reg == arm64_pkey_reg(PGTABLES) &&
	    kpkeys_ledger_push((unsigned long)regs))
		__preempt_count_add(PREEMPT_OFFSET);
	arm64_write_pkey_reg(DEFAULT);
}

static __always_inline bool arm64_kpkeys_is_raised(void)
{
	return arch_kpkeys_enabled() &&
	       arch_kpkeys_read_reg() != arm64_pkey_reg(DEFAULT);
}

static __always_inline void arm64_kpkeys_exit_to_user(void)
{
	if (unlikely(arm64_kpkeys_is_raised()))
		arm64_kpkeys_leaked();
}

const char *arch_kpkeys_init(void);
int arch_set_memory_pkey(unsigned long addr, int numpages, int pkey);
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max);

void arm64_kpkeys_start_cpu(void);
void arm64_kpkeys_switch(void);
void arm64_kpkeys_return_to_raised(unsigned long frame);
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
static inline void arm64_kpkeys_start_cpu(void) { }
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
