/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page tables of guests: by these KVM maps memory of the host to a guest.
 *
 * Their entries have 8 bytes, in a format that only KVM and the CPU know.
 */
#ifndef _LINUX_KPKEYS_GUESTS_H
#define _LINUX_KPKEYS_GUESTS_H

#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/kpkeys.h>
#include <linux/string.h>

/* The hypervisor of arm64, at EL2, is built from some of KVM's files, too. */
#if defined(CONFIG_KPKEYS_HARDENED_PGTABLES) && !defined(__KVM_NVHE_HYPERVISOR__)

void *__kpkeys_guest_table_alloc(gfp_t gfp, unsigned int order);
void __kpkeys_guest_table_free(void *table);
void __kpkeys_guest_table_fill(u64 *table, u64 value);
void __kpkeys_guest_write(u64 *entry, u64 value);
void __kpkeys_guest_write_release(u64 *entry, u64 value);
u64 __kpkeys_guest_xchg(u64 *entry, u64 value);
u64 __kpkeys_guest_clear_bits(u64 *entry, u64 bits);
bool __kpkeys_guest_try_cmpxchg(u64 *entry, u64 *old, u64 value);

/**
 * kpkeys_guest_table_alloc() - Allocate a page table of a guest.
 * @gfp: allocation flags.
 *
 * Context: any in which pages may be allocated, at the default level.
 * Return: the table, one page, or NULL.
 */
static inline void *kpkeys_guest_table_alloc(gfp_t gfp)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_guest_table_alloc(gfp, 0);
	return (void *)__get_free_page(gfp);
}

/**
 * kpkeys_guest_root_alloc() - Allocate a topmost table of a guest.
 * @gfp: allocation flags.
 * @size: its size in bytes, a power of 2 of pages.
 *
 * Context: as kpkeys_guest_table_alloc().
 * Return: the table, a compound page if it is larger than one; NULL if there is
 * no memory, or page tables are not hardened.
 */
static inline void *kpkeys_guest_root_alloc(gfp_t gfp, size_t size)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_guest_table_alloc(gfp, get_order(size));
	return NULL;
}

/**
 * kpkeys_guest_table_free() - Free a page table of a guest.
 * @table: the table, of any size, which no CPU uses any more.
 *
 * Context: any in which pages may be freed, at the default level.
 */
static inline void kpkeys_guest_table_free(void *table)
{
	if (kpkeys_hardened_pgtables_enabled())
		__kpkeys_guest_table_free(table);
	else
		free_page((unsigned long)table);
}

/**
 * kpkeys_guest_table_fill() - Write all entries of a page table of a guest.
 * @table: the table, which no CPU uses yet.
 * @value: the value of each.
 *
 * Context: any.
 */
static inline void kpkeys_guest_table_fill(u64 *table, u64 value)
{
	if (kpkeys_hardened_pgtables_enabled())
		__kpkeys_guest_table_fill(table, value);
	else
		memset64(table, value, PAGE_SIZE / sizeof(u64));
}

/*
 * The following write an entry if it lies in a table that was allocated by
 * kpkeys_guest_table_alloc(). If not, that is reported, and the current task is
 * killed: KVM finds tables by pointers that the attacker may have forged.
 */

/**
 * kpkeys_guest_write() - Write an entry.
 * @entry: the entry.
 * @value: the value to write.
 *
 * Context: any.
 */
static __always_inline void kpkeys_guest_write(u64 *entry, u64 value)
{
	if (kpkeys_hardened_pgtables_enabled())
		__kpkeys_guest_write(entry, value);
	else
		WRITE_ONCE(*entry, value);
}

/**
 * kpkeys_guest_write_release() - Write an entry after what was written before.
 * @entry: the entry.
 * @value: the value to write.
 *
 * Context: any.
 */
static __always_inline void kpkeys_guest_write_release(u64 *entry, u64 value)
{
	if (kpkeys_hardened_pgtables_enabled())
		__kpkeys_guest_write_release(entry, value);
	else
		/* After what the table that it points to has. */
		smp_store_release(entry, value);
}

/**
 * kpkeys_guest_xchg() - Replace an entry.
 * @entry: the entry.
 * @value: the value to write.
 *
 * Context: any.
 * Return: the value it had; 0 if it was refused.
 */
static __always_inline u64 kpkeys_guest_xchg(u64 *entry, u64 value)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_guest_xchg(entry, value);
	return xchg(entry, value);
}

/**
 * kpkeys_guest_clear_bits() - Clear bits of an entry.
 * @entry: the entry.
 * @bits: the bits.
 *
 * Context: any.
 * Return: the value it had; 0 if it was refused.
 */
static __always_inline u64 kpkeys_guest_clear_bits(u64 *entry, u64 bits)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_guest_clear_bits(entry, bits);
	return (u64)atomic64_fetch_and(~bits, (atomic64_t *)entry);
}

/**
 * kpkeys_guest_try_cmpxchg() - Replace an entry if it is still the same.
 * @entry: the entry.
 * @old: points to the value that it is to have, and receives the one it has.
 * @value: the value to write.
 *
 * Context: any.
 * Return: true if it was replaced.
 */
static __always_inline bool kpkeys_guest_try_cmpxchg(u64 *entry, u64 *old,
						     u64 value)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_guest_try_cmpxchg(entry, old, value);
	return try_cmpxchg64(entry, old, value);
}

/**
 * kpkeys_guest_cmpxchg() - Replace an entry if it is still the same.
 * @entry: the entry.
 * @old: the value that it is to have.
 * @value: the value to write.
 *
 * Context: any.
 * Return: the value it had, or another than @old if it was refused.
 */
static __always_inline u64 kpkeys_guest_cmpxchg(u64 *entry, u64 old, u64 value)
{
	u64 was = old;

	if (!kpkeys_hardened_pgtables_enabled())
		return cmpxchg64(entry, old, value);
	return __kpkeys_guest_try_cmpxchg(entry, &was, value) || was != old ?
		was : ~old;
}

#else

#define kpkeys_guest_table_alloc(gfp)	((void *)__get_free_page(gfp))
static inline void *kpkeys_guest_root_alloc(gfp_t gfp, size_t size)
{
	return NULL;
}

#define kpkeys_guest_table_free(table)	free_page((unsigned long)(table))
#define kpkeys_guest_table_fill(table, value)				\
	memset64(table, value, PAGE_SIZE / sizeof(u64))
#define kpkeys_guest_write(entry, value)	WRITE_ONCE(*(entry), value)
/* After what the table that it points to has. */
#define kpkeys_guest_write_release(entry, value)	smp_store_release(entry, value)
#define kpkeys_guest_xchg(entry, value)		xchg(entry, value)
#define kpkeys_guest_clear_bits(entry, bits)				\
	((u64)atomic64_fetch_and(~(bits), (atomic64_t *)(entry)))
#define kpkeys_guest_try_cmpxchg(entry, old, value)			\
	try_cmpxchg64(entry, old, value)
#define kpkeys_guest_cmpxchg(entry, old, value)	cmpxchg64(entry, old, value)

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

#endif /* _LINUX_KPKEYS_GUESTS_H */
