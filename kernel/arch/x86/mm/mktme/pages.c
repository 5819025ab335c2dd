// SPDX-License-Identifier: GPL-2.0-only
/*
 * The KeyID of each page.
 *
 * CPU caches are not coherent between KeyIDs of the same page: a late
 * write-back would overwrite data written under another KeyID. So the cache is
 * flushed whenever a page changes its KeyID, and the contents are lost.
 */
#include <linux/export.h>
#include <linux/memory_hotplug.h>
#include <linux/mktme.h>
#include <linux/page_ext.h>
#include <linux/rcupdate.h>

#include "mktme.h"
#include "pages.h"

static bool __init mktme_need_page_ext(void)
{
	return mktme_nr_keyids();
}

struct page_ext_operations mktme_page_ext_ops = {
	.size = sizeof(struct mktme_page),
	.need = mktme_need_page_ext,
};

/* Called under rcu_read_lock(). */
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

/* All pages have KeyID @from. */
static void mktme_change_keyid(struct page *page, unsigned int nr,
			       unsigned int from, unsigned int to)
{
	unsigned long pfn = page_to_pfn(page), end = pfn + nr;
	void *addr = mktme_va(PFN_PHYS(pfn), from);

	mktme_ops->flush(addr, nr * PAGE_SIZE);
	mktme_count(MKTME_STAT_RANGES, 1);
	mktme_count(to ? MKTME_STAT_ALLOCATED : MKTME_STAT_FREED, nr);

	guard(rcu)();
	for (; pfn < end; pfn++) {
		struct mktme_page *info = mktme_page(pfn);

		if (WARN_ON_ONCE(!info))
			return;
		mktme_debug_change(info, pfn, to);
		WRITE_ONCE(info->keyid, to);
	}
}

/*
 * Give a folio from the page allocator a KeyID, or free it if the key is being
 * forgotten.
 */
struct folio *__mktme_alloc_folio(struct folio *folio, unsigned int keyid,
				  gfp_t gfp)
{
	unsigned int i, nr = folio_nr_pages(folio);

	if (!mktme_keyid_get_pages(keyid, nr)) {
		folio_put(folio);
		return NULL;
	}
	mktme_change_keyid(&folio->page, nr, 0, keyid);
	/* The KeyID change has undone earlier clearing. */
	if (want_init_on_alloc(gfp) || want_init_on_free())
		for (i = 0; i < nr; i++)
			clear_page(page_address(folio_page(folio, i)));
	return folio;
}

static void mktme_take_keyid(struct page *page, unsigned int order,
			     unsigned int keyid)
{
	mktme_change_keyid(page, 1U << order, keyid, 0);
}

void __mktme_free_pages(struct page *page, unsigned int order)
{
	unsigned int keyid = __page_keyid(page);

	if (!keyid)
		return;
	mktme_take_keyid(page, order, keyid);
	mktme_keyid_put_pages(keyid, 1U << order);
}

/**
 * mktme_free_pooled_pages() - Remove the KeyID from pages of the pool.
 * @page: first page; not written to since it was freed.
 * @order: order of the pages.
 *
 * Pages of the pool hold no reference to the key.
 */
void mktme_free_pooled_pages(struct page *page, unsigned int order)
{
	mktme_take_keyid(page, order, __page_keyid(page));
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
