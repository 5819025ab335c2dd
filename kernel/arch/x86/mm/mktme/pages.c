// SPDX-License-Identifier: GPL-2.0-only
/*
 * The KeyID of each page.
 *
 * The CPU does not keep what it caches under different KeyIDs of a page
 * coherent: a line that is written back late would overwrite what has been
 * written under another. So the cache is flushed whenever a page changes its
 * KeyID, and what is in it is lost.
 */
#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/memblock.h>
#include <linux/memory_hotplug.h>
#include <linux/mktme.h>
#include <linux/mktme_pool.h>
#include <linux/page_ext.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>

#include <asm/processor.h>

#include "keys.h"
#include "mktme.h"
#include "pages.h"

DEFINE_STATIC_KEY_FALSE(mktme_in_use);
EXPORT_SYMBOL(mktme_in_use);

/**
 * mktme_activate() - Look for KeyIDs of pages from now on.
 *
 * Context: may sleep.
 */
void mktme_activate(void)
{
	int cpu;

	if (mktme_active())
		return;
	/* What a CPU has in its cache must not reach the next kernel's memory. */
	for_each_possible_cpu(cpu)
		per_cpu(cache_state_incoherent, cpu) = true;
	static_branch_enable(&mktme_in_use);
}

static bool __init need_page_ext(void)
{
	return mktme_nr_keyids();
}

struct page_ext_operations mktme_page_ext_ops = {
	.size = sizeof(struct mktme_page),
	.need = need_page_ext,
};

/* Under rcu_read_lock(). */
static struct mktme_page *mktme_page(unsigned long pfn)
{
	struct page_ext *page_ext = page_ext_lookup(pfn);

	return page_ext ? page_ext_data(page_ext, &mktme_page_ext_ops) : NULL;
}

unsigned int __page_keyid(const struct page *page)
{
	struct mktme_page *info;

	guard(rcu)();
	info = mktme_page(page_to_pfn(page));
	return info ? READ_ONCE(info->keyid) : 0;
}
EXPORT_SYMBOL(__page_keyid);

/* How a page loses what is cached of it. */
enum flush {
	FLUSH_NOT,	/* a bug */
	FLUSH_IT,
	FLUSHED_ALL,
};

/* The pages have the same KeyID and get another. */
static void change_keyid(struct page *page, unsigned int nr, unsigned int from,
			 unsigned int to, enum flush flush)
{
	unsigned long pfn = page_to_pfn(page), end = pfn + nr;
	void *addr = mktme_va(PFN_PHYS(pfn), from);

	if (flush == FLUSH_IT) {
		mktme_ops->flush(addr, nr * PAGE_SIZE);
		mktme_count(MKTME_STAT_RANGES, 1);
	} else if (flush == FLUSHED_ALL) {
		mktme_ops->flushed(addr, nr * PAGE_SIZE);
	}
	mktme_count(to ? MKTME_STAT_ALLOCATED : MKTME_STAT_FREED, nr);

	guard(rcu)();
	for (; pfn < end; pfn++) {
		struct mktme_page *info = mktme_page(pfn);

		if (WARN_ON_ONCE(!info))
			return;
		mktme_debug_change(info, pfn, to, flush != FLUSH_NOT);
		WRITE_ONCE(info->keyid, to);
	}
}

/*
 * Prepares a folio for a KeyID; it comes from the page allocator, and goes back
 * if the key is being forgotten.
 */
struct folio *__mktme_alloc_folio(struct folio *folio, unsigned int keyid,
				  gfp_t gfp)
{
	unsigned int i, nr = folio_nr_pages(folio);

	if (!mktme_keyid_get_pages(keyid, nr)) {
		folio_put(folio);
		return NULL;
	}
	change_keyid(&folio->page, nr, 0, keyid,
		     mktme_bug(MKTME_BUG_ALLOC_FLUSH) ? FLUSH_NOT : FLUSH_IT);
	/* What was cleared before is lost. */
	if (want_init_on_alloc(gfp) || want_init_on_free())
		for (i = 0; i < nr; i++)
			clear_page(page_address(folio_page(folio, i)));
	return folio;
}

static void take_keyid(struct page *page, unsigned int order,
		       unsigned int keyid, enum flush flush)
{
	change_keyid(page, 1U << order, keyid, 0,
		     mktme_bug(MKTME_BUG_FREE_FLUSH) ? FLUSH_NOT : flush);
}

void __mktme_free_pages(struct page *page, unsigned int order)
{
	unsigned int keyid = __page_keyid(page);

	if (!keyid)
		return;
	take_keyid(page, order, keyid, FLUSH_IT);
	mktme_keyid_put_pages(keyid, 1U << order);
}

/**
 * mktme_free_pooled_pages() - Take the KeyID from pages that were in the pool.
 * @page: the first; nobody has written to them since.
 * @order: how many.
 * @flushed: mktme_flush_all() has been called since they were freed.
 *
 * They do not keep the key from being forgotten.
 *
 * Context: any.
 */
void mktme_free_pooled_pages(struct page *page, unsigned int order, bool flushed)
{
	take_keyid(page, order, __page_keyid(page),
		   flushed ? FLUSHED_ALL : FLUSH_IT);
}

/**
 * mktme_flush_all() - Write back and forget what any CPU has cached.
 *
 * Context: may sleep.
 */
void mktme_flush_all(void)
{
	might_sleep();
	mktme_ops->flush_all();
	mktme_count(MKTME_STAT_WHOLE, 1);
}

/**
 * mktme_flush_all_from() - Of how many pages on is mktme_flush_all() better?
 *
 * That is from as many as fit the largest cache: all CPUs stand still for it,
 * and begin with none of what they had cached.
 *
 * Context: any.
 * Return: number of pages.
 */
unsigned long mktme_flush_all_from(void)
{
	unsigned long size = boot_cpu_data.x86_cache_size * (unsigned long)SZ_1K;

	return max(size, SZ_16M) >> PAGE_SHIFT;
}

/**
 * mktme_lose_pages() - What the pages of a KeyID hold is lost with its key.
 * @keyid: the KeyID, which no page should have.
 *
 * Context: any; for the emulation, as hardware does it by itself.
 */
void mktme_lose_pages(unsigned int keyid)
{
	unsigned long pfn;

	for (pfn = 0; pfn < max_pfn; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || __page_keyid(page) != keyid)
			continue;
		WARN_ONCE(1, "mktme: page %#lx loses the key of KeyID %u\n",
			  pfn, keyid);
		memset(mktme_va(PFN_PHYS(pfn), keyid), 0xc7, PAGE_SIZE);
	}
}

void __mktme_check_entry(pgprot_t prot, unsigned long pfn, unsigned int nr)
{
	unsigned int keyid = mktme_pgprot_keyid(prot);
	unsigned long end = pfn + nr;

	for (; pfn < end && pfn_valid(pfn); pfn++) {
		if (WARN_ONCE(__page_keyid(pfn_to_page(pfn)) != keyid,
			      "mktme: page %#lx with KeyID %u is mapped with %u\n",
			      pfn, __page_keyid(pfn_to_page(pfn)), keyid))
			return;
	}
}
