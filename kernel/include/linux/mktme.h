/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of processes under a KeyID of multi-key total memory encryption.
 *
 * See Documentation/arch/x86/mktme.rst.
 */
#ifndef _LINUX_MKTME_H
#define _LINUX_MKTME_H

#include <linux/mktme_active.h>
#include <linux/mm.h>

#ifdef CONFIG_X86_MKTME
#include <asm/mktme_page.h>

/*
 * The flags of a VMA from this bit on are its KeyID, so that what compares and
 * copies flags keeps it. They are not among those that can be changed.
 */
#define VM_KEYID_SHIFT		58

static inline vm_flags_t vm_flags_of_keyid(unsigned int keyid)
{
	return (vm_flags_t)keyid << VM_KEYID_SHIFT;
}

/**
 * vma_keyid() - The KeyID of the pages of a VMA.
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
 * folio_keyid() - The KeyID of a folio.
 * @folio: the folio, which is allocated.
 *
 * Return: the KeyID of each of its pages.
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
 * mktme_alloc_gfp() - What to ask the page allocator for.
 * @vma: the VMA that a folio is for.
 * @gfp: what is wanted.
 *
 * Return: @gfp, but not that it be cleared, if that would be in vain.
 */
static inline gfp_t mktme_alloc_gfp(const struct vm_area_struct *vma, gfp_t gfp)
{
	return vma_keyid(vma) ? gfp & ~__GFP_ZERO : gfp;
}

/**
 * mktme_alloc_folio() - Give a new folio the KeyID of the VMA that it is for.
 * @vma: the VMA.
 * @folio: from the page allocator, or NULL.
 * @gfp: what was wanted, with __GFP_ZERO if it is to be cleared.
 *
 * Context: process.
 * Return: @folio; NULL, and it is free again, if the key has been revoked.
 */
static inline struct folio *mktme_alloc_folio(const struct vm_area_struct *vma,
					      struct folio *folio, gfp_t gfp)
{
	unsigned int keyid = vma_keyid(vma);

	return keyid && folio ? __mktme_alloc_folio(folio, keyid, gfp) : folio;
}

/**
 * mktme_prepare_folio() - mktme_alloc_folio() for one that will be overwritten.
 * @vma: the VMA.
 * @folio: a folio from the page allocator; NULL if this fails.
 *
 * Context: process.
 * Return: whether the key has not been revoked.
 */
static inline bool mktme_prepare_folio(const struct vm_area_struct *vma,
				       struct folio **folio)
{
	*folio = mktme_alloc_folio(vma, *folio, 0);
	return *folio;
}

/**
 * mktme_copy_keyid() - Give a new folio the KeyID of the one it replaces.
 * @dst: from the page allocator; what is in it is lost.
 * @src: the other.
 *
 * Context: process.
 */
static inline void mktme_copy_keyid(struct folio *dst, const struct folio *src)
{
	unsigned int keyid = folio_keyid(src);

	/* Its own pages keep the key. */
	if (keyid && !mktme_bug(MKTME_BUG_MIGRATION))
		__mktme_alloc_folio(dst, keyid, 0);
}

/**
 * mktme_clear_keyid() - Take the KeyID from a folio that has been replaced.
 * @folio: the folio; what is in it is lost.
 *
 * That its place becomes free is why it was: it is not for the pool.
 */
static inline void mktme_clear_keyid(struct folio *folio)
{
	mktme_free_pages(&folio->page, folio_order(folio));
}

static inline bool mktme_forbids_zeropage(const struct vm_area_struct *vma)
{
	return vma_keyid(vma) && !mktme_bug(MKTME_BUG_ZEROPAGE);
}

void __mktme_get_vma(const struct vm_area_struct *vma);
void __mktme_put_vma(const struct vm_area_struct *vma);
bool __mktme_forbids_access(const struct vm_area_struct *vma);

/**
 * mktme_get_vma() - A VMA has been made, and uses the key of its KeyID.
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
 * mktme_put_vma() - A VMA is no more.
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
 * Context: a fault.
 * Return: whether it has; there is no memory any more then.
 */
static inline bool mktme_forbids_access(const struct vm_area_struct *vma)
{
	return mktme_active() && vma_keyid(vma) && __mktme_forbids_access(vma);
}

#ifdef CONFIG_X86_MKTME_DEBUG
unsigned int mktme_anon_keyid(void);
#else
/**
 * mktme_anon_keyid() - The KeyID that all new anonymous memory gets.
 *
 * It is chosen by mktme_anon=, and not to be used for anything else.
 *
 * Return: the KeyID, mostly 0.
 */
static inline unsigned int mktme_anon_keyid(void)
{
	return 0;
}
#endif

/**
 * mktme_counts_as_locked() - Must memory be locked, as it has a KeyID?
 * @vma: its VMA.
 *
 * Not so if all anonymous memory has one.
 *
 * Context: any in which its flags can be read.
 * Return: whether it must, as it cannot be paged out.
 */
static inline bool mktme_counts_as_locked(const struct vm_area_struct *vma)
{
	return vma_keyid(vma) && vma_keyid(vma) != mktme_anon_keyid();
}

/**
 * mktme_anon_flags() - Flags that a VMA of private anonymous memory is born with.
 *
 * Return: the flags.
 */
static inline vm_flags_t mktme_anon_flags(void)
{
	return vm_flags_of_keyid(mktme_anon_keyid());
}

void mktme_activate(void);
int mktme_encrypt_range(unsigned long start, size_t len, unsigned int keyid);
int mktme_mprotect_range(unsigned long start, size_t len, unsigned long prot);
bool __mktme_release_pages(struct page **pages, int nr);

/**
 * mktme_release_pages() - Have nobody give away pages that are under a KeyID.
 * @pages: pages of a process, with a reference to each.
 * @nr: their number.
 *
 * Who gets them may be a device, which would not add the KeyID.
 *
 * Context: any in which pages can be released.
 * Return: whether one was, and all have been released.
 */
static inline bool mktme_release_pages(struct page **pages, int nr)
{
	return mktme_active() && __mktme_release_pages(pages, nr);
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

static inline vm_flags_t mktme_anon_flags(void)
{
	return 0;
}

#endif /* CONFIG_X86_MKTME */

/**
 * vma_forbids_zeropage() - Must pages of zeroes be its own?
 * @vma: the VMA.
 *
 * Under a KeyID the shared page of zeroes would be something else.
 *
 * Context: any in which its flags can be read.
 * Return: whether they must.
 */
static inline bool vma_forbids_zeropage(const struct vm_area_struct *vma)
{
	return mm_forbids_zeropage(vma->vm_mm) || mktme_forbids_zeropage(vma);
}

#endif /* _LINUX_MKTME_H */
