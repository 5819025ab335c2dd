// SPDX-License-Identifier: GPL-2.0-only
/*
 * Secret pages of user space: the kernel reads none of them in its linear map.
 *
 * They stay there, with the key of secrets, and so the linear map need be split
 * only where a run of pages begins and ends, and TLBs are flushed for each run
 * instead of for each page. Runs get longer as a file grows, and end with it.
 *
 * Ordinary memory notes which pages these are. An attacker who only reads gains
 * nothing from it; one who writes may map the pages for himself.
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_secret.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/page-flags.h>
#include <linux/slab.h>

#include "kpkeys.h"
#include "pool.h"
#include "secret.h"

/* The private word of each page that has the key, or may have, points here. */
static const char mark;

/* How many there are, so that it costs little to ask where there are none. */
static atomic_long_t nr_marked;

/* Runs of files that ended, whose key could not be removed. */
static DEFINE_MUTEX(stuck_mutex);
static LIST_HEAD(stuck_runs);

/**
 * kpkeys_has_secret_pages() - Are there secret pages of user space in memory?
 * @start: its start.
 * @size: its size in bytes.
 *
 * Context: any.
 * Return: true if a read of it would be refused.
 */
bool kpkeys_has_secret_pages(const void *start, size_t size)
{
	const void *page = PTR_ALIGN_DOWN(start, PAGE_SIZE);

	if (!atomic_long_read(&nr_marked))
		return false;
	for (; size && page < start + size; page += PAGE_SIZE)
		if (virt_addr_valid(page) &&
		    page_private(virt_to_page(page)) == (unsigned long)&mark)
			return true;
	return false;
}

/**
 * kpkeys_secret_is_overrun() - May a read only have come across a secret page?
 * @violation: the refused access, by load_unaligned_zeropad().
 *
 * Any memory may be in front of such a page, and strings are read by the word:
 * the end of a word may be in the next page.
 *
 * Context: any.
 * Return: true if the access has to use its fixup, and is no violation.
 */
bool kpkeys_secret_is_overrun(const struct kpkeys_violation *violation)
{
	return violation->is_read && kpkeys_has_secret_pages((void *)violation->addr, 1);
}

/* === Runs ===============================================================
 *
 * Where they lie comes from ordinary memory. It is read once, by callers of
 * these functions.
 */

/**
 * kpkeys_secret_mark() - Note that pages are secret before they have the key.
 * @page: the first page.
 * @nr: number of pages.
 */
void kpkeys_secret_mark(struct page *page, unsigned int nr)
{
	atomic_long_add(nr, &nr_marked);
	while (nr--)
		set_page_private(page++, (unsigned long)&mark);
}

static void kpkeys_secret_unmark(struct page *page, unsigned int nr)
{
	atomic_long_sub(nr, &nr_marked);
	while (nr--)
		set_page_private(page++, 0);
}

/* No page that the pool protects loses its key, or gets another. */
static bool kpkeys_secret_run_may_change(struct page *page, unsigned int nr)
{
	if (!kpkeys_pool_protects(&kpkeys_pgtables_pool, page_to_pfn(page), nr))
		return true;
	kpkeys_violation_refused("page frame 0x%lx as one of a secret file",
				 page_to_pfn(page));
	kpkeys_violation_kill();
	return false;
}

static int kpkeys_secret_run_set_pkey(struct page *page, unsigned int nr, int pkey)
{
	if (!kpkeys_secret_run_may_change(page, nr))
		return -EACCES;
	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	return set_memory_pkey((unsigned long)page_address(page), nr, pkey);
}

static int kpkeys_secret_run_free(struct page *page, unsigned int nr)
{
	int err = kpkeys_secret_run_set_pkey(page, nr, KPKEYS_PKEY_DEFAULT);

	if (err)
		return err;
	/* Now that nobody is refused there any more. */
	kpkeys_secret_unmark(page, nr);
	/* Those that a file had are charged, and known to reclaim. */
	while (nr--)
		put_page(page++);
	return 0;
}

/* After an error with the key, the run may have pages still. */
static int kpkeys_secret_run_alloc(struct kpkeys_secret_run *run, gfp_t gfp,
				   unsigned int order)
{
	struct page *page = alloc_pages(gfp | __GFP_ZERO, order);
	int err;

	if (!page)
		return -ENOMEM;
	split_page(page, order);
	kpkeys_secret_mark(page, 1 << order);
	err = kpkeys_secret_run_set_pkey(page, 1 << order, KPKEYS_PKEY_SECRET);
	if (err && !kpkeys_secret_run_free(page, 1 << order))
		return err;
	run->page = page;
	run->order = order;
	return err;
}

/* === Files ============================================================== */

/* At most an eighth more than the file has, in pages that lie together. */
static unsigned int kpkeys_secret_pages_next_order(const struct kpkeys_secret_pages *pages,
						   unsigned long most)
{
	unsigned long left = most > pages->nr ? most - pages->nr : 1;
	unsigned long nr = min(max(pages->nr / 8, 1UL), left);

	return min_t(unsigned int, ilog2(nr), KPKEYS_BLOCK_ORDER);
}

static int kpkeys_secret_pages_add(struct kpkeys_secret_pages *pages, gfp_t gfp,
				   unsigned int order)
{
	struct kpkeys_secret_run *run = kzalloc_obj(*run);
	unsigned int i;
	int err;

	if (!run)
		return -ENOMEM;
	err = kpkeys_secret_run_alloc(run, gfp, order);
	if (!run->page) {
		kfree(run);
		return err;
	}
	list_add(&run->list, &pages->runs);
	/* Otherwise the pages are not used, and freed with the others. */
	if (err)
		return err;

	pages->nr += 1 << order;
	for (i = 0; i < 1 << order; i++)
		list_add_tail(&run->page[i].lru, &pages->ready);
	return 0;
}

/**
 * kpkeys_secret_pages_init() - A file has no secret pages yet.
 * @pages: those of the file.
 */
void kpkeys_secret_pages_init(struct kpkeys_secret_pages *pages)
{
	mutex_init(&pages->lock);
	INIT_LIST_HEAD(&pages->runs);
	INIT_LIST_HEAD(&pages->ready);
	pages->nr = 0;
}

/**
 * kpkeys_secret_folio_alloc() - Allocate a secret page for user space.
 * @pages: those of the file that gets it.
 * @gfp: allocation flags.
 * @most: how many pages the file can have.
 *
 * An eighth of what the file has is held ready for it, which is not charged to
 * anybody.
 *
 * Context: may sleep; secrets are protected.
 * Return: a folio of zeroes, which the kernel cannot read in its linear map, or
 * an ERR_PTR(): -ENOMEM; -EACCES, a violation; or what set_memory_pkey() returns.
 */
struct folio *kpkeys_secret_folio_alloc(struct kpkeys_secret_pages *pages, gfp_t gfp,
					unsigned long most)
{
	unsigned int order;
	struct page *page;
	int err = -ENOMEM;

	guard(mutex)(&pages->lock);
	if (list_empty(&pages->ready)) {
		order = kpkeys_secret_pages_next_order(pages, most);
		if (order)
			err = kpkeys_secret_pages_add(pages, gfp | __GFP_NORETRY | __GFP_NOWARN,
						      order);
		if (err == -ENOMEM)
			err = kpkeys_secret_pages_add(pages, gfp, 0);
		if (err)
			return ERR_PTR(err);
	}
	page = list_first_entry(&pages->ready, struct page, lru);
	list_del(&page->lru);
	/* The run has the other reference, until all of it loses the key. */
	get_page(page);
	return page_folio(page);
}

/**
 * kpkeys_secret_folio_undo() - Take back a secret page that nobody has seen.
 * @pages: those of the file.
 * @folio: from kpkeys_secret_folio_alloc(), and consumed.
 *
 * Context: may sleep.
 */
void kpkeys_secret_folio_undo(struct kpkeys_secret_pages *pages, struct folio *folio)
{
	guard(mutex)(&pages->lock);
	list_add(&folio->lru, &pages->ready);
	folio_put(folio);
}

/* Also what could not be freed when another file ended. */
static void kpkeys_secret_runs_free(struct list_head *runs)
{
	struct kpkeys_secret_run *run, *next;

	guard(mutex)(&stuck_mutex);
	list_splice_init(runs, &stuck_runs);
	list_for_each_entry_safe(run, next, &stuck_runs, list) {
		struct page *page = READ_ONCE(run->page);
		unsigned int nr = 1 << min(READ_ONCE(run->order), KPKEYS_BLOCK_ORDER);
		int err = -EACCES;

		if (kpkeys_secret_run_may_change(page, nr)) {
			kpkeys_secrets_clear(page_address(page), nr);
			err = kpkeys_secret_run_free(page, nr);
		}
		/* A run that was forged is forgotten. */
		if (err && err != -EACCES)
			continue;
		list_del(&run->list);
		kfree(run);
	}
}

/**
 * kpkeys_secret_pages_free() - Clear and free all secret pages of a file.
 * @pages: those of the file, which is empty.
 *
 * Context: may sleep.
 */
void kpkeys_secret_pages_free(struct kpkeys_secret_pages *pages)
{
	kpkeys_secret_runs_free(&pages->runs);
	INIT_LIST_HEAD(&pages->ready);
	pages->nr = 0;
}
