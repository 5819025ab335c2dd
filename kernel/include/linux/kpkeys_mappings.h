/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mappings: no page table is mapped a second time.
 *
 * A key protects a page where the linear map maps it. Through another mapping,
 * in user mode or of vmalloc, it can be written, and ordinary data decides what
 * is mapped: reference counts, the page cache, arguments of functions.
 */
#ifndef _LINUX_KPKEYS_MAPPINGS_H
#define _LINUX_KPKEYS_MAPPINGS_H

#include <linux/types.h>
#include <vdso/page.h>

/* log2 of the pages that a bit for protected memory stands for: 2 MB. */
#define KPKEYS_PROTECTED_ORDER	(21 - PAGE_SHIFT)

#ifdef CONFIG_KPKEYS_CHECK_MAPPINGS

#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(kpkeys_mappings_key);
extern unsigned long *kpkeys_protected_blocks;
extern unsigned long kpkeys_nr_protected_blocks;

bool kpkeys_refuse_mapping(unsigned long pfn, unsigned long nr);

static __always_inline bool __kpkeys_may_map(unsigned long pfn, unsigned long nr,
					     bool present)
{
	unsigned long first = pfn >> KPKEYS_PROTECTED_ORDER;
	unsigned long last = (pfn + nr - 1) >> KPKEYS_PROTECTED_ORDER;

	if (likely(first >= kpkeys_nr_protected_blocks ||
		   (first == last && !test_bit(first, kpkeys_protected_blocks))))
		return true;
	return !present || !kpkeys_refuse_mapping(pfn, nr);
}

/**
 * kpkeys_may_map() - May an entry map these pages?
 * @pfn: the first page frame.
 * @nr: number of pages.
 * @present: whether the entry maps anything.
 *
 * To be asked before an entry is written that may map what no entry of that
 * address space mapped before. A macro, so that nothing is computed without
 * protection.
 *
 * Context: any.
 * Return: false if one of them is a page table or belongs to a pool; that has
 * been reported, and the entry must stay as it is.
 */
#define kpkeys_may_map(pfn, nr, present)				\
	(!static_branch_unlikely(&kpkeys_mappings_key) ||		\
	 __kpkeys_may_map(pfn, nr, present))

/* Page frames that are being looked for; in memory with a key. */
extern unsigned long *kpkeys_nr_offered;

/**
 * kpkeys_mappings_hold_still() - Must entries stay where they are?
 *
 * If they need not, the caller may move or copy them without asking for each,
 * but only before preemption is enabled: a search waits for that.
 *
 * Context: not preemptible.
 * Return: true during a search, which an entry that moves might escape.
 */
static __always_inline bool kpkeys_mappings_hold_still(void)
{
	return static_branch_unlikely(&kpkeys_mappings_key) &&
	       unlikely(READ_ONCE(*kpkeys_nr_offered));
}

extern const struct task_struct *kpkeys_refused_task;

/*
 * Has a page fault left the entry as it was? The access would be repeated for
 * ever, in the kernel by a task that never gets to the signal that kills it.
 */
#define kpkeys_mapping_was_refused()					\
	(static_branch_unlikely(&kpkeys_mappings_key) &&		\
	 unlikely(READ_ONCE(kpkeys_refused_task) == current) &&		\
	 fatal_signal_pending(current))

#else /* !CONFIG_KPKEYS_CHECK_MAPPINGS */

static __always_inline bool kpkeys_may_map(unsigned long pfn, unsigned long nr,
					   bool present)
{
	return true;
}

static inline bool kpkeys_mappings_hold_still(void)
{
	return false;
}

#define kpkeys_mapping_was_refused()	false

#endif /* CONFIG_KPKEYS_CHECK_MAPPINGS */

#endif /* _LINUX_KPKEYS_MAPPINGS_H */
