/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages under a KeyID: where the kernel finds them.
 */
#ifndef _ASM_X86_MKTME_PAGE_H
#define _ASM_X86_MKTME_PAGE_H

#include <linux/mktme_active.h>

#include <asm/mktme.h>

struct page;

unsigned int __page_keyid(const struct page *page);
void __mktme_free_pages(struct page *page, unsigned int order);
void mktme_free_pooled_pages(struct page *page, unsigned int order);
void __mktme_check_entry(pgprot_t prot, unsigned long pfn, unsigned int nr);

/**
 * page_keyid() - The KeyID that a page has to be accessed with.
 * @page: the page.
 *
 * Return: the KeyID, 0 if it is free.
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
 * mktme_free_pages() - Take the KeyID from pages that become free.
 * @page: the first.
 * @order: how many.
 *
 * What is in them is lost.
 *
 * Context: any in which pages can be freed; nobody else uses them.
 */
static inline void mktme_free_pages(struct page *page, unsigned int order)
{
	if (mktme_active())
		__mktme_free_pages(page, order);
}

/**
 * mktme_check_entry() - Warn of an entry with another KeyID than its pages.
 * @prot: protection of the entry.
 * @pfn: its first page.
 * @nr: number of pages.
 *
 * Context: any; the pages are in use.
 */
static inline void mktme_check_entry(pgprot_t prot, unsigned long pfn,
				     unsigned int nr)
{
	if (mktme_active())
		__mktme_check_entry(prot, pfn, nr);
}

/*
 * Bugs that can be switched on, to see that they are noticed.
 */
enum mktme_bug {
	MKTME_BUG_ALLOC_FLUSH,	/* cache lines stay when a page gets a KeyID */
	MKTME_BUG_FREE_FLUSH,	/* the same when it loses it */
	MKTME_BUG_MIGRATION,	/* a page does not get that of the one it replaces */
	MKTME_BUG_ZEROPAGE,	/* the shared page of zeroes is mapped under one */
	MKTME_BUG_ENTRY,	/* a VMA has one, and its entries do not get it */
	MKTME_BUG_FORGET,	/* CPUs forget a key while there are pages */
	MKTME_BUG_POOL,		/* the pool has pages of another one */
	MKTME_NR_BUGS
};

#ifdef CONFIG_X86_MKTME_DEBUG
extern unsigned long mktme_bugs;

static inline bool mktme_bug(enum mktme_bug bug)
{
	return READ_ONCE(mktme_bugs) & BIT(bug);
}
#else
static inline bool mktme_bug(enum mktme_bug bug)
{
	return false;
}
#endif

#endif /* _ASM_X86_MKTME_PAGE_H */
