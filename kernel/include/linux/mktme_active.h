/* SPDX-License-Identifier: GPL-2.0-only */
/* Is there memory under KeyIDs? For headers that cannot include mm headers. */
#ifndef _LINUX_MKTME_ACTIVE_H
#define _LINUX_MKTME_ACTIVE_H

#include <linux/types.h>

#ifdef CONFIG_X86_MKTME
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(mktme_in_use);

/**
 * mktme_active() - Has memory been under a KeyID since boot?
 *
 * Return: true if so. Until then all hooks cost one branch.
 */
static inline bool mktme_active(void)
{
	return static_branch_unlikely(&mktme_in_use);
}
#else
static inline bool mktme_active(void)
{
	return false;
}
#endif

struct folio;
struct vm_area_struct;

struct folio *mktme_vma_alloc_folio_noprof(gfp_t gfp, int order,
					   struct vm_area_struct *vma);

#endif /* _LINUX_MKTME_ACTIVE_H */
