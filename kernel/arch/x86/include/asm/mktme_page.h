/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages under a KeyID, and their kernel addresses. */
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

/* Bugs that tests inject, to see that they are noticed. */
enum mktme_bug {
	MKTME_BUG_ALLOC_FLUSH,	/* no cache flush when a page gets a KeyID */
	MKTME_BUG_FREE_FLUSH,	/* no cache flush when a page loses it */
	MKTME_BUG_MIGRATION,	/* migration does not copy the KeyID */
	MKTME_BUG_ZEROPAGE,	/* zero page mapped under a KeyID */
	MKTME_BUG_ENTRY,	/* entries of an encrypted VMA lack its KeyID */
	MKTME_BUG_FORGET,	/* a key is cleared while pages use it */
	MKTME_BUG_POOL,		/* the pool returns pages of another KeyID */
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
