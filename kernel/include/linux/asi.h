/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: what one user's data is in need not be mapped while
 * the kernel runs for another. See Documentation/mm/asi.rst.
 */
#ifndef _LINUX_ASI_H
#define _LINUX_ASI_H

#include <linux/types.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

#include <linux/jump_label.h>
#include <linux/pgtable.h>

struct mm_struct;

DECLARE_STATIC_KEY_FALSE(asi_key);

/**
 * asi_enabled() - Is sensitive memory kept apart from other memory?
 *
 * False until late in boot, also with asi=on.
 *
 * Context: any.
 * Return: true if so.
 */
static __always_inline bool asi_enabled(void)
{
	return static_branch_unlikely(&asi_key);
}

bool asi_requested(void);
void asi_sync_direct_map(unsigned long start, unsigned long end);

/* === What the architecture does ========================================= */

/**
 * arch_asi_init() - Make the restricted direct map, with nothing in it.
 *
 * Context: boot, may sleep.
 * Return: NULL, or why it cannot be.
 */
const char *arch_asi_init(void);

/**
 * arch_asi_populate() - Make room in the restricted direct map.
 * @start: start of a range of the direct map.
 * @end: its end.
 *
 * What has no room is never mapped there.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int arch_asi_populate(unsigned long start, unsigned long end);

/**
 * arch_asi_set() - Map a block in the restricted direct map, or unmap it.
 * @addr: where it is in the direct map, aligned to PMD_SIZE.
 * @map: what to do. The mapping is that of the direct map itself.
 *
 * Does not flush TLBs.
 *
 * Context: any but NMI; calls for one block at a time only.
 */
void arch_asi_set(unsigned long addr, bool map);

/**
 * enum asi_entry - What the restricted direct map has of a block.
 * @ASI_UNMAPPED: nothing.
 * @ASI_MAPPED: what the direct map has.
 * @ASI_STALE: something else.
 */
enum asi_entry {
	ASI_UNMAPPED,
	ASI_MAPPED,
	ASI_STALE,
};

/**
 * arch_asi_get() - What has the restricted direct map of a block?
 * @addr: where it is in the direct map, aligned to PMD_SIZE.
 *
 * Context: as arch_asi_set().
 * Return: one of enum asi_entry.
 */
enum asi_entry arch_asi_get(unsigned long addr);

/**
 * arch_asi_pgd() - The restricted page tables of a process.
 * @mm: that of the process.
 *
 * Context: any.
 * Return: the top-level table, or NULL if there are none.
 */
pgd_t *arch_asi_pgd(struct mm_struct *mm);

#else

#define asi_enabled()	false

static inline bool asi_requested(void)
{
	return false;
}

static inline void asi_sync_direct_map(unsigned long start, unsigned long end)
{
}

#endif

#endif /* _LINUX_ASI_H */
