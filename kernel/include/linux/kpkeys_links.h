/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Links: an entry points to each page table, and to each only one.
 *
 * Ordinary data decides which page becomes a page table and which table is
 * freed: a table that was allocated in advance, or deposited for a huge page,
 * and lists of what to free after a flush.
 */
#ifndef _LINUX_KPKEYS_LINKS_H
#define _LINUX_KPKEYS_LINKS_H

#include <linux/kpkeys.h>
#include <linux/mm_types.h>

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES

bool kpkeys_note_link(bool process, unsigned long pfn, int level);
void kpkeys_forget_link(unsigned long pfn);
void kpkeys_refuse_link(unsigned long pfn, int level);

/**
 * kpkeys_link_table() - Have an entry point to a page table.
 * @_mm: the address space of the entry; &init_mm or NULL for the kernel.
 * @_pfn: page frame of the table.
 * @_level: enum pgtable_level of the table.
 * @_set: the statement that writes the entry, at the raised level; may be empty
 *	if @_level is not the lowest.
 *
 * An entry of a process stays as it is unless the page was allocated as a table
 * of that level, and no entry points to it. That is reported. If such an entry
 * is not of the lowest level, it ends the system, as callers use what they took
 * for linked.
 *
 * Context: any in which the entry may be written.
 */
#define kpkeys_link_table(_mm, _pfn, _level, _set) do {			\
	const struct mm_struct *__mm = (_mm);				\
	const unsigned long __pfn = (_pfn);				\
	bool __linked = true;						\
									\
	scoped_guard(kpkeys_hardened_pgtables) {			\
		if (kpkeys_hardened_pgtables_enabled())			\
			__linked = kpkeys_note_link(__mm && __mm != &init_mm, \
						    __pfn, _level);	\
		if (likely(__linked)) {					\
			_set;						\
		}							\
	}								\
	if (unlikely(!__linked))					\
		kpkeys_refuse_link(__pfn, _level);			\
} while (0)

/**
 * kpkeys_unlink_table() - Note that no entry points to a page table any more.
 * @table: whether the entry that was cleared did point to one.
 * @pfn: page frame of the table.
 *
 * Context: any in which entries are written.
 */
static __always_inline void kpkeys_unlink_table(bool table, unsigned long pfn)
{
	if (!kpkeys_hardened_pgtables_enabled() || !table)
		return;

	guard(kpkeys_hardened_pgtables)();
	kpkeys_forget_link(pfn);
}

#else /* !CONFIG_KPKEYS_HARDENED_PGTABLES */

#define kpkeys_link_table(_mm, _pfn, _level, _set) do {			\
	(void)(_mm);							\
	(void)(_pfn);							\
	_set;								\
} while (0)

static __always_inline void kpkeys_unlink_table(bool table, unsigned long pfn) { }

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

#endif /* _LINUX_KPKEYS_LINKS_H */
