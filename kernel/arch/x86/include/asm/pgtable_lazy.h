/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writing page table entries in a batch of <linux/kpkeys_batch.h>.
 *
 * The batch has raised the level. Checking for each entry that it is still
 * raised costs more than the write, so just write. If a context switch, for
 * example, has lowered the level, the write faults and the fault handler redoes
 * it at the raised level. So it is while processes are searched for mappings:
 * the handler asks whether the entry may map what it does.
 *
 * Such a fault costs as much as hundreds of checks: do not use these functions
 * outside of batches.
 *
 * Included by <linux/pgtable.h>, behind the functions that they stand for.
 */
#ifndef _ASM_X86_PGTABLE_LAZY_H
#define _ASM_X86_PGTABLE_LAZY_H

#if defined(CONFIG_KPKEYS_HARDENED_PGTABLES) && defined(CONFIG_SMP) && \
	!defined(CONFIG_PARAVIRT_XXL)

#include <linux/kpkeys.h>
#include <linux/page_table_check.h>
#include <asm/alternative.h>
#include <asm/asm.h>

/* x86_pks_lazy_write() redoes the instruction at 1; 2 is behind it. */
#define _ASM_EXTABLE_PKS(op, reg)					\
	_ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_PKS | EX_DATA_IMM(op), %[reg])

static __always_inline void __lazy_set_pte(pte_t *ptep, pte_t pte)
{
	asm volatile("1:\tmovq %[pte], %[ptr]\n"
		     "2:\n" _ASM_EXTABLE_PKS(EX_PKS_MOV, pte)
		     : [ptr] "=m" (ptep->pte)
		     : [pte] "r" (pte.pte));
}

static __always_inline pte_t __lazy_get_and_clear(pte_t *ptep)
{
	pteval_t val = 0;

	asm volatile("1:\txchgq %[val], %[ptr]\n"
		     "2:\n" _ASM_EXTABLE_PKS(EX_PKS_XCHG, val)
		     : [val] "+r" (val), [ptr] "+m" (ptep->pte)
		     : : "memory");
	return native_make_pte(val);
}

/* Like ptep_set_wrprotect(), which explains why it must be atomic. */
static __always_inline void __lazy_wrprotect(pte_t *ptep)
{
	pte_t old_pte = READ_ONCE(*ptep), new_pte;
	bool done;

	do {
		new_pte = pte_wrprotect(old_pte);
		asm volatile("1:\t" LOCK_PREFIX "cmpxchgq %[new], %[ptr]\n"
			     "2:\n" _ASM_EXTABLE_PKS(EX_PKS_CMPXCHG, new)
			     : "=@ccz" (done), [ptr] "+m" (ptep->pte),
			       "+a" (old_pte.pte)
			     : [new] "r" (new_pte.pte)
			     : "memory");
	} while (!done);
}

static __always_inline void lazy_set_ptes(struct mm_struct *mm,
					  unsigned long addr, pte_t *ptep,
					  pte_t pte, unsigned int nr)
{
	if (!kpkeys_batch_enabled()) {
		set_ptes(mm, addr, ptep, pte, nr);
		return;
	}

	page_table_check_ptes_set(mm, addr, ptep, pte, nr);
	for (;;) {
		__lazy_set_pte(ptep, pte);
		if (--nr == 0)
			break;
		ptep++;
		pte = pte_advance_pfn(pte, 1);
	}
}

static __always_inline void lazy_wrprotect_ptes(struct mm_struct *mm,
						unsigned long addr, pte_t *ptep,
						unsigned int nr)
{
	if (!kpkeys_batch_enabled()) {
		wrprotect_ptes(mm, addr, ptep, nr);
		return;
	}

	for (;;) {
		__lazy_wrprotect(ptep);
		if (--nr == 0)
			break;
		ptep++;
	}
}

/* Like ptep_get_and_clear_full(). */
static __always_inline pte_t __lazy_get_and_clear_full(struct mm_struct *mm,
						       unsigned long addr,
						       pte_t *ptep, int full)
{
	pte_t pte;

	if (full) {
		pte = *ptep;
		__lazy_set_pte(ptep, native_make_pte(0));
	} else {
		pte = __lazy_get_and_clear(ptep);
	}
	page_table_check_pte_clear(mm, addr, pte);
	return pte;
}

static __always_inline pte_t
lazy_get_and_clear_full_ptes(struct mm_struct *mm, unsigned long addr,
			     pte_t *ptep, unsigned int nr, int full)
{
	pte_t pte;

	if (!kpkeys_batch_enabled())
		return get_and_clear_full_ptes(mm, addr, ptep, nr, full);

	pte = __lazy_get_and_clear_full(mm, addr, ptep, full);
	while (--nr) {
		pte_t more;

		ptep++;
		addr += PAGE_SIZE;
		more = __lazy_get_and_clear_full(mm, addr, ptep, full);
		if (pte_dirty(more))
			pte = pte_mkdirty(pte);
		if (pte_young(more))
			pte = pte_mkyoung(pte);
	}
	return pte;
}

static __always_inline void lazy_clear_full_ptes(struct mm_struct *mm,
						 unsigned long addr,
						 pte_t *ptep, unsigned int nr,
						 int full)
{
	if (!kpkeys_batch_enabled()) {
		clear_full_ptes(mm, addr, ptep, nr, full);
		return;
	}

	for (;;) {
		__lazy_get_and_clear_full(mm, addr, ptep, full);
		if (--nr == 0)
			break;
		ptep++;
		addr += PAGE_SIZE;
	}
}

/* Only PARAVIRT_XXL changes protections in another way. */
static __always_inline pte_t
lazy_modify_prot_start_ptes(struct vm_area_struct *vma, unsigned long addr,
			    pte_t *ptep, unsigned int nr)
{
	return lazy_get_and_clear_full_ptes(vma->vm_mm, addr, ptep, nr, 0);
}

static __always_inline void
lazy_modify_prot_commit_ptes(struct vm_area_struct *vma, unsigned long addr,
			     pte_t *ptep, pte_t old_pte, pte_t pte,
			     unsigned int nr)
{
	lazy_set_ptes(vma->vm_mm, addr, ptep, pte, nr);
}

#define lazy_set_ptes lazy_set_ptes

#endif

#endif /* _ASM_X86_PGTABLE_LAZY_H */
