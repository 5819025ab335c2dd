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

void __kpkeys_link_table(bool process, void *entry, u64 value,
			 unsigned long pfn, int level);
void __kpkeys_clear_link(void *entry, u64 value, unsigned long pfn);

/**
 * kpkeys_link_table() - Have an entry point to a page table.
 * @mm: the address space of the entry; &init_mm or NULL for the kernel.
 * @entry: the entry.
 * @value: the value to write, 8 bytes.
 * @pfn: page frame of the table.
 * @level: its enum pgtable_level.
 *
 * An entry of a process stays as it is unless the page was allocated as a table
 * of that level, and no entry points to it. That is reported. Above the lowest
 * level it ends the system, as callers use what they took for linked.
 *
 * Context: any in which the entry may be written.
 * Return: false if links are not noted: the caller is to write the entry.
 */
static __always_inline bool kpkeys_link_table(const struct mm_struct *mm,
					      void *entry, u64 value,
					      unsigned long pfn, int level)
{
	if (!kpkeys_hardened_pgtables_enabled())
		return false;
	__kpkeys_link_table(mm && mm != &init_mm, entry, value, pfn, level);
	return true;
}

/**
 * kpkeys_note_table() - Note that an entry is going to point to a page table.
 * @mm: the address space of the entry; &init_mm or NULL for the kernel.
 * @pfn: page frame of the table.
 * @level: its enum pgtable_level.
 *
 * As kpkeys_link_table(), for entries that take more to be written.
 */
static __always_inline void kpkeys_note_table(const struct mm_struct *mm,
					      unsigned long pfn, int level)
{
	if (kpkeys_hardened_pgtables_enabled())
		__kpkeys_link_table(mm && mm != &init_mm, NULL, 0, pfn, level);
}

/**
 * kpkeys_clear_link() - Have an entry point to a page table no more.
 * @entry: the entry.
 * @value: the value to write, 8 bytes.
 * @table: whether it points to a page table.
 * @pfn: page frame of the table.
 *
 * Context: any in which the entry may be written.
 * Return: false if links are not noted, or it is none: the caller is to write
 * the entry.
 */
static __always_inline bool kpkeys_clear_link(void *entry, u64 value, bool table,
					      unsigned long pfn)
{
	if (!kpkeys_hardened_pgtables_enabled() || !table)
		return false;
	__kpkeys_clear_link(entry, value, pfn);
	return true;
}

/**
 * kpkeys_unlink_table() - Note that no entry points to a page table any more.
 * @table: whether the entry that was cleared did point to one.
 * @pfn: page frame of the table.
 *
 * Context: any in which entries are written.
 */
static __always_inline void kpkeys_unlink_table(bool table, unsigned long pfn)
{
	if (kpkeys_hardened_pgtables_enabled() && table)
		__kpkeys_clear_link(NULL, 0, pfn);
}

#else /* !CONFIG_KPKEYS_HARDENED_PGTABLES */

/* Macros: GCC chooses other registers where a call was inlined, even of nothing. */
#define kpkeys_link_table(...)	false
#define kpkeys_note_table(...)	do { } while (0)
#define kpkeys_clear_link(...)	false

static __always_inline void kpkeys_unlink_table(bool table, unsigned long pfn)
{
}

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

#endif /* _LINUX_KPKEYS_LINKS_H */
