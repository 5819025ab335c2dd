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
 * Each write is a single instruction that may fault, so atomic ones need LSE,
 * which all CPUs with overlays have.
 */
#ifndef __ASM_PGTABLE_LAZY_H
#define __ASM_PGTABLE_LAZY_H

#if defined(CONFIG_KPKEYS_HARDENED_PGTABLES) && defined(CONFIG_ARM64_CONTPTE)

#include <linux/kpkeys.h>
#include <linux/page_table_check.h>

#include <asm/asm-extable.h>
#include <asm/lse.h>

/* Enabled with LSE unless kpkeys.batch=off: no check before each write. */
DECLARE_STATIC_KEY_FALSE(arm64_lazy_ptes_key);

static __always_inline bool __lazy_ptes(void)
{
	return static_branch_likely(&arm64_lazy_ptes_key);
}

/* arm64_kpkeys_lazy_write() redoes the instruction at 1; 2 is behind it. */
#define _ASM_EXTABLE_KPKEYS(op, new, old)				\
	__ASM_EXTABLE_RAW("1b", "2b", __stringify(EX_TYPE_KPKEYS),	\
			  "(" __stringify(EX_DATA_KPKEYS_##op) " << "	\
			      __stringify(EX_DATA_KPKEYS_SHIFT) ") | "	\
			  "(.L__gpr_num_" old " << "			\
			      __stringify(EX_DATA_REG_OLD_SHIFT) ") | "	\
			  ".L__gpr_num_" new)

static __always_inline void __lazy_set_pte(pte_t *ptep, pte_t pte)
{
	asm volatile("1:	str	%x[new], %[entry]\n"
		     "2:\n" __DEFINE_ASM_GPR_NUMS
		     _ASM_EXTABLE_KPKEYS(STR, "%x[new]", "xzr")
		     : [entry] "=Q" (pte_val(*ptep))
		     : [new] "rZ" (pte_val(pte)));
}

static __always_inline pte_t __lazy_get_and_clear(pte_t *ptep)
{
	pteval_t old;

	asm volatile(__LSE_PREAMBLE
		     "1:	swp	xzr, %x[old], %[entry]\n"
		     "2:\n" __DEFINE_ASM_GPR_NUMS
		     _ASM_EXTABLE_KPKEYS(SWP, "xzr", "%x[old]")
		     : [old] "=r" (old), [entry] "+Q" (pte_val(*ptep)));
	return __pte(old);
}

/* Like ___ptep_set_wrprotect(). */
static __always_inline void __lazy_wrprotect(pte_t *ptep, pte_t pte)
{
	pte_t old_pte;

	do {
		old_pte = pte;
		asm volatile(__LSE_PREAMBLE
			     "1:	cas	%x[old], %x[new], %[entry]\n"
			     "2:\n" __DEFINE_ASM_GPR_NUMS
			     _ASM_EXTABLE_KPKEYS(CAS, "%x[new]", "%x[old]")
			     : [old] "+r" (pte_val(pte)),
			       [entry] "+Q" (pte_val(*ptep))
			     : [new] "rZ" (pte_val(pte_wrprotect(old_pte))));
	} while (pte_val(pte) != pte_val(old_pte));
}

/* The following match the functions without lazy_, which give reasons. */
static __always_inline void lazy_set_ptes(struct mm_struct *mm,
					  unsigned long addr, pte_t *ptep,
					  pte_t pte, unsigned int nr)
{
	if (!__lazy_ptes() || nr != 1) {
		set_ptes(mm, addr, ptep, pte, nr);
		return;
	}

	pte = pte_mknoncont(pte);
	contpte_try_unfold(mm, addr, ptep, __ptep_get(ptep));
	page_table_check_ptes_set(mm, addr, ptep, pte, 1);
	__sync_cache_and_tags(pte, 1);
	__check_safe_pte_update(mm, ptep, pte);
	__lazy_set_pte(ptep, pte);
	__set_pte_complete(pte);
	contpte_try_fold(mm, addr, ptep, pte);
}

static __always_inline void lazy_wrprotect_ptes(struct mm_struct *mm,
						unsigned long addr,
						pte_t *ptep, unsigned int nr)
{
	pte_t pte;

	if (!__lazy_ptes() || nr != 1) {
		wrprotect_ptes(mm, addr, ptep, nr);
		return;
	}

	pte = __ptep_get(ptep);
	if (unlikely(pte_cont(pte))) {
		__contpte_try_unfold(mm, addr, ptep, pte);
		pte = pte_mknoncont(pte);
	}
	__lazy_wrprotect(ptep, pte);
}

static __always_inline pte_t
lazy_get_and_clear_full_ptes(struct mm_struct *mm, unsigned long addr,
			     pte_t *ptep, unsigned int nr, int full)
{
	pte_t pte;

	if (!__lazy_ptes() || nr != 1)
		return get_and_clear_full_ptes(mm, addr, ptep, nr, full);

	contpte_try_unfold(mm, addr, ptep, __ptep_get(ptep));
	pte = __lazy_get_and_clear(ptep);
	page_table_check_pte_clear(mm, addr, pte);
	return pte;
}

static __always_inline void lazy_clear_full_ptes(struct mm_struct *mm,
						 unsigned long addr,
						 pte_t *ptep, unsigned int nr,
						 int full)
{
	if (__lazy_ptes() && nr == 1)
		lazy_get_and_clear_full_ptes(mm, addr, ptep, nr, full);
	else
		clear_full_ptes(mm, addr, ptep, nr, full);
}

pte_t lazy_modify_prot_start_ptes(struct vm_area_struct *vma,
				  unsigned long addr, pte_t *ptep,
				  unsigned int nr);

static __always_inline void
lazy_modify_prot_commit_ptes(struct vm_area_struct *vma, unsigned long addr,
			     pte_t *ptep, pte_t old_pte, pte_t pte,
			     unsigned int nr)
{
	lazy_set_ptes(vma->vm_mm, addr, ptep, pte, nr);
}

#define lazy_set_ptes lazy_set_ptes

#endif

#endif /* __ASM_PGTABLE_LAZY_H */
