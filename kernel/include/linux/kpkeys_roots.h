/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Roots: the topmost page table of an address space, as it was claimed for it.
 *
 * mm->pgd is ordinary data: an attacker who changes it would have the CPU, or
 * walks of page tables by software, use tables of his own.
 */
#ifndef _LINUX_KPKEYS_ROOTS_H
#define _LINUX_KPKEYS_ROOTS_H

#include <linux/kpkeys.h>
#include <linux/mm_types.h>

#include <asm/pgtable.h>

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES

int kpkeys_root_claim(struct mm_struct *mm, pgd_t *root);
int kpkeys_root_claim_copy(const pgd_t *root, const pgd_t *copy);
bool kpkeys_root_release(pgd_t *root);
bool kpkeys_root_is_copy(const pgd_t *copy, const pgd_t *root);
pgd_t *kpkeys_root_of(struct mm_struct *mm);

/**
 * kpkeys_root() - Get the topmost page table of an address space.
 * @mm: the address space.
 *
 * To be used instead of @mm->pgd wherever that decides which page tables are
 * loaded, walked or freed.
 *
 * Context: any.
 * Return: @mm->pgd if that was claimed for @mm. Otherwise it was forged: the
 * table that was claimed, after a report.
 */
static __always_inline pgd_t *kpkeys_root(struct mm_struct *mm)
{
	return kpkeys_hardened_pgtables_enabled() ? kpkeys_root_of(mm) : mm->pgd;
}

/*
 * The register that has the address of a root has other values beside it: a
 * forged one must not change the address.
 */
#define kpkeys_root_bits(value, mask)	((value) & (mask))

#else /* !CONFIG_KPKEYS_HARDENED_PGTABLES */

#define kpkeys_root_claim(mm, root)	((void)(mm), (void)(root), 0)
#define kpkeys_root_claim_copy(root, copy)	((void)(root), (void)(copy), 0)
#define kpkeys_root_release(root)	((void)(root), true)
#define kpkeys_root_is_copy(copy, root)	((void)(copy), (void)(root), true)
#define kpkeys_root(mm)			((mm)->pgd)
#define kpkeys_root_bits(value, mask)	((void)(mask), (value))

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

#endif /* _LINUX_KPKEYS_ROOTS_H */
