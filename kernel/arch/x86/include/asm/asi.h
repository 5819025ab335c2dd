/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: which address space a CPU is in.
 *
 * Bit 13 of CR3 says so, and nothing else does: there is no state that an NMI
 * could find half changed.
 *
 * With PCID bit 10 says it again, so that the TLB keeps both apart.
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

/* Of the PCID. What is below says which process it is of, see kern_pcid(). */
#define ASI_PCID_RESTRICTED	BIT(10)
#define ASI_PCID_PROCESS	(ASI_PCID_RESTRICTED - 1)

/**
 * asi_restricted_pgd() - The restricted top-level table of a process.
 * @pgd: the unrestricted one, or an entry of it.
 *
 * It is behind the two of page table isolation, see pgd_allocation_order().
 *
 * Return: that, or its entry.
 */
static inline pgd_t *asi_restricted_pgd(pgd_t *pgd)
{
	return pgd + ASI_CR3_RESTRICTED / sizeof(*pgd);
}

/**
 * asi_pud_offset() - Walk page tables of the kernel's half.
 * @pgd: the top-level table.
 * @addr: where to.
 *
 * Return: the entry, or NULL if there is no table with it. That is told by the
 * top level with 5 levels, and by the next one with 4.
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
/* For tests: a page fault outside of NMIs is not to leave. */
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
void asi_reenter(unsigned long cr3);
void asi_trace_fault(struct pt_regs *regs, unsigned long address);

/**
 * asi_restricted_cr3() - What to return to at the end of an NMI.
 *
 * Return: CR3, or 0 if it is not that of a restricted address space.
 */
static __always_inline unsigned long asi_restricted_cr3(void)
{
	unsigned long cr3;

	if (!asi_enabled())
		return 0;
	cr3 = __native_read_cr3();
	return cr3 & ASI_CR3_RESTRICTED ? cr3 : 0;
}

/**
 * asi_cr3_bits() - What differs in CR3 between both address spaces of a process.
 *
 * Return: these bits, that are all set in the restricted one.
 */
static __always_inline unsigned long asi_cr3_bits(void)
{
	return ASI_CR3_RESTRICTED |
	       (cpu_feature_enabled(X86_FEATURE_PCID) ? ASI_PCID_RESTRICTED : 0);
}

/**
 * asi_restricted() - Is this CPU in the restricted address space?
 *
 * Context: any. Of use only where the CPU does not change.
 * Return: true if so.
 */
static __always_inline bool asi_restricted(void)
{
	return asi_restricted_cr3();
}

/**
 * asi_enter() - Run with what the current process may know.
 *
 * The last thing before user mode, whose system calls begin restricted.
 *
 * Context: interrupts off, the current process's mm loaded.
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
 * asi_exit() - Leave the restricted address space, until there is user mode.
 * @reason: why.
 *
 * Context: interrupts off.
 */
static __always_inline void asi_exit(enum asi_switch reason)
{
	if (asi_enabled())
		__asi_exit(reason);
}

/**
 * asi_fault() - Was it a page fault because the kernel runs restricted?
 * @regs: of the fault.
 * @error_code: of the fault.
 * @address: of the fault.
 *
 * If so this CPU is not restricted any more, and whatever faulted is to be
 * tried again. What is not mapped in any address space faults once more then.
 *
 * Context: the page fault handler, before anything else.
 * Return: true if so.
 */
static __always_inline bool asi_fault(struct pt_regs *regs,
				      unsigned long error_code,
				      unsigned long address)
{
	/* User mode would go on with all there is. */
	if (!asi_enabled() || (error_code & (X86_PF_PROT | X86_PF_USER)) ||
	    (long)address >= 0 || user_mode(regs) || asi_must_stay())
		return false;
	return __asi_leave(ASI_EXIT_FAULT);
}

/**
 * asi_switch_mm() - Another CR3 is about to be loaded.
 * @prev: of whom the old one is.
 * @next: of whom the new one is.
 *
 * From one restricted address space into the other, but for init_mm, which has
 * none. What one process has left in the CPU is flushed as if it were left.
 *
 * Context: interrupts off.
 * Return: bits to be set in it. None, and there was an exit, with init_mm.
 */
static __always_inline unsigned long asi_switch_mm(struct mm_struct *prev,
						   struct mm_struct *next)
{
	return asi_enabled() ? __asi_switch_mm(prev, next) : 0;
}

/**
 * asi_switched_mm() - The CR3 of another process has been loaded.
 * @restricted: what asi_switch_mm() returned for it.
 *
 * Not before, as what the one has left could come back until then.
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
 * asi_strip_cr3() - CR3 without what tells address spaces of a process apart.
 * @cr3: that or a part of it with the page tables.
 *
 * Without isolation the bits are some of an address and a PCID.
 *
 * Return: what is left.
 */
static __always_inline unsigned long asi_strip_cr3(unsigned long cr3)
{
	return asi_enabled() ? cr3 & ~asi_cr3_bits() : cr3;
}

/* === PCID =============================================================== */

/*
 * What this CPU has of a process in its TLB is flushed in one address space at a
 * time. This says by the PCID of the process that the unrestricted one, and that
 * the restricted one, is to be flushed before it is used again.
 */
DECLARE_PER_CPU(u16 [2], asi_stale);

void __asi_write_cr3(unsigned long cr3);
void __asi_flush_tlb_local(void);
void __asi_flush_tlb_one_user(u16 pcid, unsigned long addr);

/**
 * asi_has_pcid() - Are address spaces told apart in the TLB?
 *
 * Return: true if so.
 */
static __always_inline bool asi_has_pcid(void)
{
	return asi_enabled() && cpu_feature_enabled(X86_FEATURE_PCID);
}

/**
 * asi_restricted_pcid() - What a PCID has in the restricted address space.
 *
 * User mode is always entered from there, and has it in its own PCID, too.
 *
 * Return: bits of the PCID.
 */
static __always_inline u16 asi_restricted_pcid(void)
{
	return asi_enabled() ? ASI_PCID_RESTRICTED : 0;
}

/**
 * asi_invalidate() - Flush what is in the TLB of a process before it is used.
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
 * asi_invalidate_all() - The same of all processes.
 *
 * Context: preemption off.
 */
static __always_inline void asi_invalidate_all(void)
{
	raw_cpu_write(asi_stale[false], U16_MAX);
	raw_cpu_write(asi_stale[true], U16_MAX);
}

/* User mode was left restricted, unless somebody forgot to enter. */
static __always_inline void asi_assert_restricted(void)
{
	if (IS_ENABLED(CONFIG_ASI_DEBUG) && asi_enabled() && !asi_restricted())
		raw_cpu_inc(asi_switches[ASI_UNRESTRICTED]);
}

void asi_check_boottime_disable(void);
void asi_sync_global_pgds(unsigned long start, unsigned long end);

/* === Windows ============================================================ */

/* Next to that of LDTs, and in the middle of nowhere as well. */
#define EPHMAP_PGD_ENTRY	-241UL
#define EPHMAP_BASE_ADDR	(EPHMAP_PGD_ENTRY << PGDIR_SHIFT)

void ephmap_free(struct mm_struct *mm);

#if IS_ENABLED(CONFIG_KUNIT)
void *ephmap_new_table(void);
#endif

#define asi_init_context(mm)	((mm)->context.ephmap = NULL)
#define asi_destroy_context(mm)	ephmap_free(mm)

#else

#define asi_exit(reason)			do { } while (0)
#define asi_enter()				do { } while (0)
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
#define asi_init_context(mm)			do { } while (0)
#define asi_destroy_context(mm)			do { } while (0)

#endif

#endif /* _ASM_X86_ASI_H */
