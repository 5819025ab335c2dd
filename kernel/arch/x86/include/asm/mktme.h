/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Multi-key total memory encryption (MKTME): KeyIDs in physical addresses, a
 * direct map for each KeyID, and pages under a KeyID.
 *
 * asm/pgtable.h includes this at its end, where struct page is known.
 */
#ifndef _ASM_X86_MKTME_H
#define _ASM_X86_MKTME_H

#include <linux/types.h>

#include <asm/page.h>
#include <asm/pgtable_types.h>

struct cpuinfo_x86;
struct mm_struct;

#ifdef CONFIG_X86_MKTME

#include <linux/mktme_active.h>

#include <asm/pgtable.h>

/**
 * struct mktme_config - KeyIDs and direct maps in use.
 * @nr_keyids: number of usable KeyIDs besides KeyID 0, which all other memory
 *	has; 0 if there are none.
 * @keyid_shift: lowest bit of the KeyID in a physical address.
 * @map_size: size of each direct map in bytes, a power of two.
 *
 * The direct map of a KeyID follows that of the previous KeyID at a distance of
 * @map_size. Read-only after boot.
 */
struct mktme_config {
	unsigned int nr_keyids;
	unsigned int keyid_shift;
	unsigned long map_size;
};

extern struct mktme_config mktme_config;

/**
 * mktme_nr_keyids() - Get the number of usable KeyIDs besides KeyID 0.
 *
 * Return: up to %MKTME_MAX_KEYIDS; 0 without MKTME.
 */
static inline unsigned int mktme_nr_keyids(void)
{
	return mktme_config.nr_keyids;
}

/* KeyIDs fit into a byte, and their direct maps into 4-level page tables. */
#define MKTME_MAX_KEYIDS	63

#define ARCH_MAX_LINEAR_MAPS	(MKTME_MAX_KEYIDS + 1)

static inline unsigned int arch_nr_linear_maps(void)
{
	return mktme_nr_keyids() + 1;
}

/**
 * mktme_va() - Get the kernel address of memory under a KeyID.
 * @phys: physical address, without KeyID.
 * @keyid: the KeyID, at most mktme_nr_keyids().
 *
 * Return: address in the direct map of that KeyID.
 */
static inline void *mktme_va(phys_addr_t phys, unsigned int keyid)
{
	return __va(phys) + keyid * mktme_config.map_size;
}

/**
 * mktme_pgprot() - Set the KeyID of a page table entry.
 * @prot: protection, with or without KeyID.
 * @keyid: the new KeyID, at most mktme_nr_keyids().
 *
 * Return: the protection with that KeyID.
 */
static inline pgprot_t mktme_pgprot(pgprot_t prot, unsigned int keyid)
{
	return __pgprot((pgprot_val(prot) & ~mktme_keyid_mask) |
			(pgprotval_t)keyid << mktme_config.keyid_shift);
}

/**
 * mktme_pgprot_keyid() - Get the KeyID of a page table entry.
 * @prot: its protection.
 *
 * Return: the KeyID.
 */
static inline unsigned int mktme_pgprot_keyid(pgprot_t prot)
{
	return (pgprot_val(prot) & mktme_keyid_mask) >>
	       mktme_config.keyid_shift;
}

/**
 * mktme_last_direct_map() - Get the offset of the last direct map.
 *
 * Return: offset from the first direct map, in bytes.
 */
static inline unsigned long mktme_last_direct_map(void)
{
	return mktme_config.nr_keyids * mktme_config.map_size;
}

u64 mktme_read_msr(u32 msr);
#define mktme_rdmsrq(msr, val)	((val) = mktme_read_msr(msr))

void mktme_detect(struct cpuinfo_x86 *c, u64 activate);
unsigned long mktme_plan_direct_map(unsigned long end);
unsigned long mktme_direct_maps_tb(unsigned long size_tb);
void mktme_init_direct_maps(void);
int mktme_map_memory(phys_addr_t start, phys_addr_t end);
void mktme_unmap_memory(phys_addr_t start, phys_addr_t end);

/* === Pages under a KeyID, and their kernel addresses ==================== */

unsigned int __page_keyid(const struct page *page);
void __mktme_free_pages(struct page *page, unsigned int order);
void mktme_free_pooled_pages(struct page *page, unsigned int order);
void __mktme_check_entry(pgprot_t prot, unsigned long pfn, unsigned int nr);

/**
 * page_keyid() - Get the KeyID to access a page with.
 * @page: the page.
 *
 * Return: the KeyID; 0 for a free page.
 */
static inline unsigned int page_keyid(const struct page *page)
{
	return mktme_active() ? __page_keyid(page) : 0;
}

static inline unsigned long mktme_page_offset(const struct page *page)
{
	return mktme_active() ? __page_keyid(page) * mktme_config.map_size : 0;
}

static inline void *page_to_virt(const struct page *page)
{
	return __va(page_to_pfn(page) << PAGE_SHIFT) + mktme_page_offset(page);
}

#define page_to_virt page_to_virt

/**
 * mktme_free_pages() - Remove the KeyID from pages that become free.
 * @page: first page; the contents are lost.
 * @order: order of the pages.
 *
 * Context: any in which pages can be freed; the caller owns the pages.
 */
static inline void mktme_free_pages(struct page *page, unsigned int order)
{
	if (mktme_active())
		__mktme_free_pages(page, order);
}

/**
 * mktme_check_entry() - Warn if an entry and its pages differ in the KeyID.
 * @prot: protection of the entry.
 * @pfn: its first page.
 * @nr: number of pages.
 *
 * Context: the pages are in use.
 */
static inline void mktme_check_entry(pgprot_t prot, unsigned long pfn,
				     unsigned int nr)
{
	if (mktme_active())
		__mktme_check_entry(prot, pfn, nr);
}

/**
 * mktme_init_context() - A process has no memory under KeyIDs.
 * @mm: the process, perhaps a copy of another.
 */
void mktme_init_context(struct mm_struct *mm);

/**
 * mktme_destroy_context() - A process is no more.
 * @mm: the process.
 */
void mktme_destroy_context(struct mm_struct *mm);

/**
 * mktme_note_mm() - Note that a process has memory under a KeyID.
 * @mm: the process.
 * @keyid: the KeyID.
 *
 * Context: the mmap lock of @mm is held for writing.
 */
void mktme_note_mm(struct mm_struct *mm, unsigned int keyid);

#else /* CONFIG_X86_MKTME */

#define mktme_rdmsrq(msr, val)	rdmsrq(msr, val)

static inline unsigned int mktme_nr_keyids(void)
{
	return 0;
}

static inline void *mktme_va(phys_addr_t phys, unsigned int keyid)
{
	return __va(phys);
}

static inline unsigned long mktme_last_direct_map(void)
{
	return 0;
}

static inline void mktme_detect(struct cpuinfo_x86 *c, u64 activate) { }

static inline unsigned long mktme_plan_direct_map(unsigned long end)
{
	return end;
}

static inline unsigned long mktme_direct_maps_tb(unsigned long size_tb)
{
	return size_tb;
}

static inline void mktme_init_direct_maps(void) { }
static inline void mktme_init_context(struct mm_struct *mm) { }
static inline void mktme_destroy_context(struct mm_struct *mm) { }

static inline int mktme_map_memory(phys_addr_t start, phys_addr_t end)
{
	return 0;
}

static inline void mktme_unmap_memory(phys_addr_t start, phys_addr_t end) { }

#endif /* CONFIG_X86_MKTME */

#ifdef CONFIG_X86_MKTME_EMULATION
void mktme_emulate(struct cpuinfo_x86 *c);
#else
static inline void mktme_emulate(struct cpuinfo_x86 *c) { }
#endif

#endif /* _ASM_X86_MKTME_H */
