/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Process memory under a KeyID of multi-key total memory encryption, and free
 * pages that keep theirs. See Documentation/arch/x86/mktme.rst.
 */
#ifndef _LINUX_MKTME_H
#define _LINUX_MKTME_H

#include <linux/mktme_active.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>

#ifdef CONFIG_X86_MKTME
#include <asm/mktme.h>

/*
 * vm_flags hold the KeyID from this bit on, so that code that compares or
 * copies flags keeps it. Changes of flags do not touch these bits.
 */
#define VM_KEYID_SHIFT		58

static inline vm_flags_t vm_flags_of_keyid(unsigned int keyid)
{
	return (vm_flags_t)keyid << VM_KEYID_SHIFT;
}

/**
 * vma_keyid() - Get the KeyID of the pages of a VMA.
 * @vma: the VMA.
 *
 * Context: any in which its flags can be read.
 * Return: the KeyID, 0 for all but private anonymous memory.
 */
static inline unsigned int vma_keyid(const struct vm_area_struct *vma)
{
	return vma->vm_flags >> VM_KEYID_SHIFT;
}

/**
 * folio_keyid() - Get the KeyID of a folio.
 * @folio: an allocated folio.
 *
 * Return: the KeyID of all its pages.
 */
static inline unsigned int folio_keyid(const struct folio *folio)
{
	return page_keyid(&folio->page);
}

extern struct page_ext_operations mktme_page_ext_ops;

int mktme_reserve_keyid(void);
void mktme_release_keyid(unsigned int keyid);
bool mktme_keyid_get_pages(unsigned int keyid, unsigned int nr);
void mktme_keyid_put_pages(unsigned int keyid, unsigned int nr);

struct folio *__mktme_alloc_folio(struct folio *folio, unsigned int keyid,
				  gfp_t gfp);

/**
 * mktme_alloc_gfp() - Adjust the flags of a folio allocation.
 * @vma: the VMA that the folio is for.
 * @gfp: flags of the allocation.
 *
 * Return: @gfp without __GFP_ZERO if a KeyID change would undo the clearing.
 */
static inline gfp_t mktme_alloc_gfp(const struct vm_area_struct *vma, gfp_t gfp)
{
	return vma_keyid(vma) ? gfp & ~__GFP_ZERO : gfp;
}

/**
 * mktme_alloc_folio() - Give a new folio the KeyID of its VMA.
 * @vma: the VMA.
 * @folio: a folio from the page allocator, or NULL.
 * @gfp: flags of the allocation; __GFP_ZERO clears it.
 *
 * Context: process.
 * Return: @folio; NULL, after freeing it, if the key has been revoked.
 */
static inline struct folio *mktme_alloc_folio(const struct vm_area_struct *vma,
					      struct folio *folio, gfp_t gfp)
{
	unsigned int keyid = vma_keyid(vma);

	return keyid && folio ? __mktme_alloc_folio(folio, keyid, gfp) : folio;
}

/**
 * mktme_prepare_folio() - mktme_alloc_folio() for a folio to be overwritten.
 * @vma: the VMA.
 * @folio: a folio from the page allocator; set to NULL on failure.
 *
 * Context: process.
 * Return: false if the key has been revoked.
 */
static inline bool mktme_prepare_folio(const struct vm_area_struct *vma,
				       struct folio **folio)
{
	*folio = mktme_alloc_folio(vma, *folio, 0);
	return *folio;
}

/**
 * mktme_copy_keyid() - Give a new folio the KeyID of the folio it replaces.
 * @dst: the new folio; its contents are lost.
 * @src: the old folio.
 *
 * Context: process.
 */
static inline void mktme_copy_keyid(struct folio *dst, const struct folio *src)
{
	unsigned int keyid = folio_keyid(src);

	/* Pages of @src keep a reference to the key. */
	if (keyid)
		__mktme_alloc_folio(dst, keyid, 0);
}

/**
 * mktme_clear_keyid() - Remove the KeyID from a folio that has been replaced.
 * @folio: the folio; its contents are lost.
 *
 * Bypasses the pool, because the folio was replaced to free its memory.
 */
static inline void mktme_clear_keyid(struct folio *folio)
{
	mktme_free_pages(&folio->page, folio_order(folio));
}

static inline bool mktme_forbids_zeropage(const struct vm_area_struct *vma)
{
	return vma_keyid(vma);
}

bool __mktme_dup_vma(struct vm_area_struct *vma);
void __mktme_get_vma(const struct vm_area_struct *vma);
void __mktme_put_vma(const struct vm_area_struct *vma);
bool __mktme_forbids_access(const struct vm_area_struct *vma);

/**
 * mktme_get_vma() - Take a reference to the key for a new VMA.
 * @vma: the VMA, a copy of another.
 *
 * Context: process.
 */
static inline void mktme_get_vma(const struct vm_area_struct *vma)
{
	if (mktme_active() && vma_keyid(vma))
		__mktme_get_vma(vma);
}

/**
 * mktme_put_vma() - Drop the reference to the key of a VMA.
 * @vma: the VMA.
 *
 * Context: process.
 */
static inline void mktme_put_vma(const struct vm_area_struct *vma)
{
	if (mktme_active() && vma_keyid(vma))
		__mktme_put_vma(vma);
}

/**
 * mktme_forbids_access() - Has the key of a VMA been revoked?
 * @vma: the VMA.
 *
 * Context: page fault.
 * Return: true if so; the memory is gone then.
 */
static inline bool mktme_forbids_access(const struct vm_area_struct *vma)
{
	return mktme_active() && vma_keyid(vma) && __mktme_forbids_access(vma);
}

#ifdef CONFIG_X86_MKTME_DEBUG
unsigned int mktme_anon_keyid(void);
#else
/**
 * mktme_anon_keyid() - Get the KeyID of all new anonymous memory.
 *
 * It is set by mktme_anon= and reserved for that.
 *
 * Return: the KeyID, 0 without mktme_anon=.
 */
static inline unsigned int mktme_anon_keyid(void)
{
	return 0;
}
#endif

/**
 * mktme_counts_as_locked() - Does memory count as locked because of its KeyID?
 * @vma: its VMA.
 *
 * Encrypted memory cannot be paged out. It is not counted if all anonymous
 * memory is encrypted.
 *
 * Context: any in which its flags can be read.
 * Return: true if so.
 */
static inline bool mktme_counts_as_locked(const struct vm_area_struct *vma)
{
	return vma_keyid(vma) && vma_keyid(vma) != mktme_anon_keyid();
}

/**
 * mktme_dup_vma() - Give memory to a child, which has a copy of it.
 * @vma: its VMA, of the child.
 *
 * Context: process; the mmap lock of the child is held for writing.
 * Return: true if the copy counts as locked.
 */
static inline bool mktme_dup_vma(struct vm_area_struct *vma)
{
	return mktme_counts_as_locked(vma) && __mktme_dup_vma(vma);
}

/**
 * mktme_anon_flags() - Get the initial KeyID flags of private anonymous VMAs.
 *
 * Return: the flags.
 */
static inline vm_flags_t mktme_anon_flags(void)
{
	return vm_flags_of_keyid(mktme_anon_keyid());
}

int mktme_encrypt_range(unsigned long start, size_t len, unsigned int keyid);
int mktme_mprotect_range(unsigned long start, size_t len, unsigned long prot);
bool __mktme_release_pages(struct page **pages, int nr);

/**
 * mktme_release_pages() - Refuse to hand out pages that have a KeyID.
 * @pages: pages of a process, with a reference to each.
 * @nr: number of pages.
 *
 * The recipient may be a device, which would not use the KeyID.
 *
 * Context: any in which pages can be released.
 * Return: true if one had a KeyID; all pages have been released then.
 */
static inline bool mktme_release_pages(struct page **pages, int nr)
{
	return mktme_active() && __mktme_release_pages(pages, nr);
}

/* === Free pages that keep their KeyID =================================== */

void __mktme_prepare_free(struct page *page, unsigned int order, bool pool);
bool __mktme_pool_free(struct page *page, unsigned int order);
struct folio *__mktme_pool_alloc(unsigned int keyid, unsigned int order,
				 gfp_t gfp, int nid, const nodemask_t *nodes);
void __mktme_pool_drain(int nid);
void mktme_pool_stop(int nid);
void mktme_pool_start(void);
void mktme_pool_drain_keyid(unsigned int keyid);
unsigned long mktme_pool_pages(void);

/**
 * mktme_prepare_free() - Drop the KeyID of pages that are not pooled.
 * @page: first page.
 * @order: order of the pages.
 * @pool: whether mktme_pool_free() follows.
 *
 * Context: any in which pages can be freed; the caller owns the pages.
 */
static inline void mktme_prepare_free(struct page *page, unsigned int order,
				      bool pool)
{
	if (mktme_active())
		__mktme_prepare_free(page, order, pool);
}

/**
 * mktme_pool_free() - Keep pages in the pool instead of freeing them.
 * @page: first page, after __free_pages_prepare().
 * @order: order of the pages.
 *
 * Context: any in which pages can be freed.
 * Return: true if kept; otherwise they have no KeyID and can be freed.
 */
static inline bool mktme_pool_free(struct page *page, unsigned int order)
{
	return mktme_active() &&
	       __mktme_pool_free(page, order);
}

/**
 * mktme_pool_alloc() - Allocate a folio from the pool.
 * @vma: the VMA that the folio is for.
 * @order: its order.
 * @gfp: flags, as for the page allocator.
 * @nid: the node.
 * @nodes: allowed nodes, or NULL.
 *
 * Context: process.
 * Return: the folio under the KeyID of the VMA, cleared if @gfp says so; or
 * NULL.
 */
static inline struct folio *mktme_pool_alloc(const struct vm_area_struct *vma,
					     unsigned int order, gfp_t gfp,
					     int nid, const nodemask_t *nodes)
{
	unsigned int keyid = vma_keyid(vma);

	return keyid ? __mktme_pool_alloc(keyid, order, gfp, nid, nodes) : NULL;
}

/**
 * mktme_pool_drain() - Return all pages of the pool to the page allocator.
 * @nid: the node, or %NUMA_NO_NODE for all.
 *
 * Context: may sleep.
 */
static inline void mktme_pool_drain(int nid)
{
	if (mktme_active())
		__mktme_pool_drain(nid);
}

#else /* CONFIG_X86_MKTME */

static inline unsigned int vma_keyid(const struct vm_area_struct *vma)
{
	return 0;
}

static inline unsigned int folio_keyid(const struct folio *folio)
{
	return 0;
}

static inline gfp_t mktme_alloc_gfp(const struct vm_area_struct *vma, gfp_t gfp)
{
	return gfp;
}

static inline struct folio *mktme_alloc_folio(const struct vm_area_struct *vma,
					      struct folio *folio, gfp_t gfp)
{
	return folio;
}

static inline bool mktme_prepare_folio(const struct vm_area_struct *vma,
				       struct folio **folio)
{
	return true;
}

static inline void mktme_copy_keyid(struct folio *dst, const struct folio *src) { }
static inline void mktme_clear_keyid(struct folio *folio) { }
static inline void mktme_free_pages(struct page *page, unsigned int order) { }
static inline void mktme_check_entry(pgprot_t prot, unsigned long pfn,
				     unsigned int nr) { }

static inline void mktme_get_vma(const struct vm_area_struct *vma) { }
static inline void mktme_put_vma(const struct vm_area_struct *vma) { }

static inline bool mktme_forbids_access(const struct vm_area_struct *vma)
{
	return false;
}

static inline bool mktme_forbids_zeropage(const struct vm_area_struct *vma)
{
	return false;
}

static inline bool mktme_release_pages(struct page **pages, int nr)
{
	return false;
}

static inline unsigned int mktme_anon_keyid(void)
{
	return 0;
}

static inline bool mktme_counts_as_locked(const struct vm_area_struct *vma)
{
	return false;
}

static inline bool mktme_dup_vma(struct vm_area_struct *vma)
{
	return false;
}

static inline vm_flags_t mktme_anon_flags(void)
{
	return 0;
}

static inline void mktme_prepare_free(struct page *page, unsigned int order,
				      bool pool) { }

static inline bool mktme_pool_free(struct page *page, unsigned int order)
{
	return false;
}

static inline struct folio *mktme_pool_alloc(const struct vm_area_struct *vma,
					     unsigned int order, gfp_t gfp,
					     int nid, const nodemask_t *nodes)
{
	return NULL;
}

static inline void mktme_pool_drain(int nid) { }
static inline void mktme_pool_stop(int nid) { }
static inline void mktme_pool_start(void) { }

#endif /* CONFIG_X86_MKTME */

/**
 * vma_forbids_zeropage() - Must a VMA not map the shared zero page?
 * @vma: the VMA.
 *
 * Under a KeyID the shared zero page would not read as zeroes.
 *
 * Context: any in which its flags can be read.
 * Return: true if so.
 */
static inline bool vma_forbids_zeropage(const struct vm_area_struct *vma)
{
	return mm_forbids_zeropage(vma->vm_mm) || mktme_forbids_zeropage(vma);
}

/* === Statistics ========================================================= */

/* In pages unless stated otherwise. */
enum mktme_stat {
	MKTME_STAT_ALLOCATED,	/* flushed to get a KeyID */
	MKTME_STAT_FREED,	/* flushed to lose their KeyID */
	MKTME_STAT_RANGES,	/* address ranges flushed */
	MKTME_STAT_WHOLE,	/* flushes of a CPU's whole cache */
	MKTME_STAT_HITS,	/* allocated from the pool */
	MKTME_STAT_MISSES,	/* not found in the pool */
	MKTME_STAT_REFUSED,	/* freed, but not kept by the pool */
	MKTME_STAT_RETURNED,	/* returned to the page allocator */
	MKTME_STAT_BATCHES,	/* number of batches in MKTME_STAT_RETURNED */
	MKTME_STAT_PROGRAMMED,	/* packages programmed, with or without a key */
	MKTME_NR_STATS
};

#ifdef CONFIG_X86_MKTME_DEBUG
DECLARE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);

static inline void mktme_count(enum mktme_stat stat, unsigned long nr)
{
	this_cpu_add(mktme_stats[stat], nr);
}

extern unsigned long mktme_most_returned;

/* Count a batch of pages that is returned without rescheduling. */
static inline void mktme_count_batch(unsigned long nr)
{
	mktme_count(MKTME_STAT_RETURNED, nr);
	mktme_count(MKTME_STAT_BATCHES, 1);
	if (nr > READ_ONCE(mktme_most_returned))
		WRITE_ONCE(mktme_most_returned, nr);
}
#else
static inline void mktme_count(enum mktme_stat stat, unsigned long nr) { }
static inline void mktme_count_batch(unsigned long nr) { }
#endif

#endif /* _LINUX_MKTME_H */
