/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: the address space of a CPU.
 *
 * Bit 13 of CR3 alone tells which address space is loaded: there is no separate
 * state that an NMI could find half updated. With PCID, bit 10 is set as well,
 * so that the TLB tells the two apart.
 */
#ifndef _ASM_X86_ASI_H
#define _ASM_X86_ASI_H

#include <linux/asi.h>
#include <linux/tracepoint-defs.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

#include <asm/cpufeature.h>
#include <asm/page_types.h>
#include <asm/percpu.h>
#include <asm/preempt.h>
#include <asm/ptrace.h>
#include <asm/special_insns.h>
#include <asm/trap_pf.h>

#define ASI_CR3_RESTRICTED	(2 * PAGE_SIZE)

/* In the PCID. The bits below identify the process, see kern_pcid(). */
#define ASI_PCID_RESTRICTED	BIT(10)
#define ASI_PCID_PROCESS	(ASI_PCID_RESTRICTED - 1)

/**
 * asi_restricted_pgd() - Get the restricted top-level table of a process.
 * @pgd: the unrestricted table, or an entry of it.
 *
 * It follows the two tables of page table isolation, see
 * pgd_allocation_order().
 *
 * Return: the table, or the corresponding entry.
 */
static inline pgd_t *asi_restricted_pgd(pgd_t *pgd)
{
	return pgd + ASI_CR3_RESTRICTED / sizeof(*pgd);
}

/**
 * asi_pud_offset() - Walk the kernel half of page tables to the PUD.
 * @pgd: the top-level table.
 * @addr: the address.
 *
 * Return: the entry, or NULL if an upper level has none for @addr.
 */
static inline pud_t *asi_pud_offset(pgd_t *pgd, unsigned long addr)
{
	p4d_t *p4d;

	pgd = pgd_offset_pgd(pgd, addr);
	if (pgd_none(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return NULL;
	return pud_offset(p4d, addr);
}

#ifdef CONFIG_ASI_DEBUG
/* For tests: page faults must not leave, except in NMIs. */
DECLARE_PER_CPU(bool, asi_stay);
#define asi_must_stay()		(raw_cpu_read(asi_stay) && !in_nmi())
#else
#define asi_must_stay()		false
#endif

DECLARE_TRACEPOINT(asi_exit);

void __asi_enter(unsigned long cr3);
bool __asi_leave(enum asi_switch reason);
void __asi_exit(enum asi_switch reason);
unsigned long __asi_switch_mm(struct mm_struct *prev, struct mm_struct *next);
void __asi_switched_mm(void);
void __asi_nmi_enter(const struct pt_regs *regs);
void __asi_nmi_exit(const struct pt_regs *regs);
void asi_trace_fault(struct pt_regs *regs, unsigned long address);

/**
 * asi_cr3_bits() - Get the CR3 bits that differ between the address spaces.
 *
 * Return: the bits, all set in the restricted one.
 */
static __always_inline unsigned long asi_cr3_bits(void)
{
	return ASI_CR3_RESTRICTED |
	       (cpu_feature_enabled(X86_FEATURE_PCID) ? ASI_PCID_RESTRICTED : 0);
}

/**
 * asi_restricted() - Is this CPU in the restricted address space?
 *
 * Meaningful only while the caller cannot migrate.
 *
 * Return: true if so.
 */
static __always_inline bool asi_restricted(void)
{
	return asi_enabled() && (__native_read_cr3() & ASI_CR3_RESTRICTED);
}

/**
 * asi_enter() - Enter the restricted address space of the current process.
 *
 * Last step before user mode, so that system calls start restricted.
 *
 * Context: interrupts off, the mm of the current process loaded.
 */
static __always_inline void asi_enter(void)
{
	unsigned long cr3;

	if (!asi_enabled())
		return;
	cr3 = __native_read_cr3();
	if (!(cr3 & ASI_CR3_RESTRICTED))
		__asi_enter(cr3);
}

/**
 * asi_exit() - Leave the restricted address space until return to user mode.
 * @reason: one of ASI_EXIT_*.
 *
 * Context: interrupts off.
 */
static __always_inline void asi_exit(enum asi_switch reason)
{
	if (asi_enabled())
		__asi_exit(reason);
}

/**
 * asi_nmi_enter() - Remember the address space that an NMI interrupts.
 * @regs: the interrupted registers.
 *
 * Context: the beginning of an NMI or a similar exception.
 */
static __always_inline void asi_nmi_enter(const struct pt_regs *regs)
{
	if (asi_enabled())
		__asi_nmi_enter(regs);
}

/**
 * asi_nmi_exit() - Return to the address space that an NMI interrupted.
 * @regs: the interrupted registers.
 *
 * Context: the end of an NMI or a similar exception.
 */
static __always_inline void asi_nmi_exit(const struct pt_regs *regs)
{
	if (asi_enabled())
		__asi_nmi_exit(regs);
}

/**
 * asi_fault() - Did a page fault happen because the kernel runs restricted?
 * @regs: registers at the fault.
 * @error_code: its error code.
 * @address: the faulting address.
 *
 * If so, leaves the restricted address space; the faulting access is then
 * retried. If nothing is mapped there at all, it faults again.
 *
 * Context: the page fault handler, before anything else.
 * Return: true if so.
 */
static __always_inline bool asi_fault(struct pt_regs *regs,
				      unsigned long error_code,
				      unsigned long address)
{
	/*
	 * A user mode fault must not leave: user mode would run unrestricted.
	 */
	if (!asi_enabled() || (error_code & (X86_PF_PROT | X86_PF_USER)) ||
	    (long)address >= 0 || user_mode(regs) || asi_must_stay())
		return false;
	return __asi_leave(ASI_EXIT_FAULT);
}

/**
 * asi_switch_mm() - Prepare to load the CR3 of another mm.
 * @prev: the mm of the loaded CR3.
 * @next: the mm of the new CR3.
 *
 * A restricted CPU switches to the restricted address space of @next, except
 * that init_mm has none. State that @prev left in the CPU is flushed as on an
 * exit.
 *
 * Context: interrupts off.
 * Return: bits to set in the new CR3; 0, after an exit, for init_mm.
 */
static __always_inline unsigned long asi_switch_mm(struct mm_struct *prev,
						   struct mm_struct *next)
{
	return asi_enabled() ? __asi_switch_mm(prev, next) : 0;
}

/**
 * asi_switched_mm() - Flush buffers after loading the CR3 of another mm.
 * @restricted: the return value of asi_switch_mm().
 *
 * Until CR3 is loaded, the buffers could fill again with data of the previous
 * process.
 *
 * Context: interrupts off.
 */
static __always_inline void asi_switched_mm(unsigned long restricted)
{
	if (asi_enabled() && restricted)
		__asi_switched_mm();
}

#define asi_exit_traced()	tracepoint_enabled(asi_exit)

/**
 * asi_strip_cr3() - Clear the CR3 bits that select one of the address spaces.
 * @cr3: CR3, or the part of it with the page tables.
 *
 * Without isolation these bits are part of the address and the PCID, and stay.
 *
 * Return: the result.
 */
static __always_inline unsigned long asi_strip_cr3(unsigned long cr3)
{
	return asi_enabled() ? cr3 & ~asi_cr3_bits() : cr3;
}

/* === PCID =============================================================== */

/*
 * TLB entries of a process are flushed in one address space at a time. These
 * bitmaps, indexed by [restricted], hold the PCIDs of processes whose TLB
 * entries must be flushed before that address space is used again.
 */
DECLARE_PER_CPU(u16 [2], asi_stale);

/* Did this CPU leave the restricted address space since it opened a window? */
DECLARE_PER_CPU(bool, asi_left);

void __asi_write_cr3(unsigned long cr3);
void __asi_flush_tlb_local(void);
void __asi_flush_tlb_one_user(u16 pcid, unsigned long addr);

/**
 * asi_has_pcid() - Does the TLB tell the address spaces apart?
 *
 * Return: true if so.
 */
static __always_inline bool asi_has_pcid(void)
{
	return asi_enabled() && cpu_feature_enabled(X86_FEATURE_PCID);
}

/**
 * asi_restricted_pcid() - Get the PCID bits of the restricted address space.
 *
 * User mode is always entered from there, so its own PCID has the bits as well.
 *
 * Return: the bits.
 */
static __always_inline u16 asi_restricted_pcid(void)
{
	return asi_enabled() ? ASI_PCID_RESTRICTED : 0;
}

/**
 * asi_invalidate() - Mark the TLB entries of a process stale.
 * @pcid: the PCID of the process, as of kern_pcid().
 *
 * Context: preemption off.
 */
static __always_inline void asi_invalidate(u16 pcid)
{
	if (!asi_has_pcid())
		return;
	raw_cpu_or(asi_stale[false], BIT(pcid));
	raw_cpu_or(asi_stale[true], BIT(pcid));
}

/**
 * asi_invalidate_all() - Mark the TLB entries of all processes stale.
 *
 * Context: preemption off.
 */
static __always_inline void asi_invalidate_all(void)
{
	raw_cpu_write(asi_stale[false], U16_MAX);
	raw_cpu_write(asi_stale[true], U16_MAX);
}

/* Entry from user mode must be restricted unless asi_enter() was missed. */
static __always_inline void asi_assert_restricted(void)
{
	if (IS_ENABLED(CONFIG_ASI_DEBUG) && asi_enabled() && !asi_restricted())
		raw_cpu_inc(asi_switches[ASI_UNRESTRICTED]);
}

void asi_check_boottime_disable(void);
void asi_sync_global_pgds(unsigned long start, unsigned long end);

/* === Copies of page tables ============================================== */

pgd_t *__asi_pgd_here(pgd_t *root);
void asi_init_copies(struct mm_struct *mm);
void asi_free_copies(struct mm_struct *mm, pgd_t *root);
void asi_set_copies(pgd_t *pgdp, pgd_t pgd, pgd_t user);
void asi_ask_for_copy(void);

/* In pgtable.c, whose list of top-level tables they are on. */
void asi_pgd_ctor_copy(struct mm_struct *mm, pgd_t *copy);
void asi_pgd_free_copy(struct mm_struct *mm, pgd_t *copy);

/**
 * asi_pgd_here() - Get the top-level table that this CPU loads.
 * @root: the top-level table of a process, or another.
 *
 * Context: preemption off.
 * Return: a copy if this CPU has one, see asi_copies.c, or else @root.
 */
static __always_inline pgd_t *asi_pgd_here(pgd_t *root)
{
	return asi_enabled() ? __asi_pgd_here(root) : root;
}

#if IS_ENABLED(CONFIG_KUNIT)
void asi_make_copy(struct mm_struct *mm);
#endif

/* === Windows ============================================================ */

/* The PGD entry next to that of LDTs, where nothing else is mapped. */
#define EPHMAP_PGD_ENTRY	-241UL
#define EPHMAP_BASE_ADDR	(EPHMAP_PGD_ENTRY << PGDIR_SHIFT)

void ephmap_free(pgd_t *root);

#if IS_ENABLED(CONFIG_KUNIT)
void *ephmap_new_table(void);
#endif

#else

#define asi_exit(reason)			do { } while (0)
#define asi_enter()				do { } while (0)
#define asi_restricted()			false
#define asi_fault(regs, error_code, address)	false
#define asi_exit_traced()			false
#define asi_trace_fault(regs, address)		do { } while (0)
#define asi_switch_mm(prev, next)		0
#define asi_switched_mm(restricted)		do { } while (0)
#define asi_strip_cr3(cr3)			(cr3)
#define asi_has_pcid()				false
#define asi_restricted_pcid()			0
#define asi_invalidate(pcid)			do { } while (0)
#define asi_invalidate_all()			do { } while (0)
#define __asi_write_cr3(cr3)			do { } while (0)
#define __asi_flush_tlb_local()			do { } while (0)
#define __asi_flush_tlb_one_user(pcid, addr)	do { } while (0)
#define asi_assert_restricted()			do { } while (0)
#define asi_check_boottime_disable()		do { } while (0)
#define asi_sync_global_pgds(start, end)	do { } while (0)
#define ephmap_free(root)			do { } while (0)
#define asi_pgd_here(root)			(root)
#define asi_init_copies(mm)			do { } while (0)
#define asi_free_copies(mm, root)		do { } while (0)

#endif

#endif /* _ASM_X86_ASI_H */
