// SPDX-License-Identifier: GPL-2.0-only
/* Process memory under a KeyID. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/overflow.h>
#include <linux/pagemap.h>
#include <linux/pagewalk.h>
#include <linux/sched.h>
#include <linux/userfaultfd_k.h>

#include "../internal.h"
#include "../vma.h"

/* Unsupported kinds of VMAs; hugetlbfs and shared memory are not anonymous. */
#define VM_NOT_ENCRYPTED	(VM_SPECIAL | VM_SHARED | VM_MAYSHARE |	\
				 VM_GROWSDOWN | VM_MERGEABLE | VM_DROPPABLE)

static int mktme_check_vma(struct vm_area_struct *vma, unsigned int keyid)
{
	if (!vma_is_anonymous(vma) || vma->vm_flags & VM_NOT_ENCRYPTED ||
	    userfaultfd_armed(vma))
		return -EINVAL;
	if (vma_is_sealed(vma))
		return -EPERM;
	if (vma_keyid(vma))
		return vma_keyid(vma) == keyid ? 0 : -EBUSY;
	return 0;
}

/* Contents cannot change their key. The zero page is unmapped later. */
static int mktme_check_pte(pte_t *pte, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	pte_t entry = ptep_get(pte);

	if (pte_none(entry) || vma_keyid(walk->vma) ||
	    (pte_present(entry) && is_zero_pfn(pte_pfn(entry))))
		return 0;
	return -EBUSY;
}

static int mktme_check_pmd(pmd_t *pmd, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	pmd_t entry = pmdp_get(pmd);

	if (pmd_none(entry) || vma_keyid(walk->vma) || is_huge_zero_pmd(entry)) {
		walk->action = ACTION_CONTINUE;
		return 0;
	}
	return pmd_present(entry) && !pmd_leaf(entry) ? 0 : -EBUSY;
}

/* No other thread can add pages meanwhile. */
static const struct mm_walk_ops mktme_check_ops = {
	.pmd_entry = mktme_check_pmd,
	.pte_entry = mktme_check_pte,
	.walk_lock = PGWALK_WRLOCK,
};

static int mktme_check_range(struct mm_struct *mm, unsigned long start,
			     unsigned long end, unsigned int keyid)
{
	unsigned long next = start, unlocked = 0;
	struct vm_area_struct *vma;
	int err;

	VMA_ITERATOR(vmi, mm, start);
	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > next)
			return -ENOMEM;
		err = mktme_check_vma(vma, keyid);
		if (err)
			return err;
		if (!vma_keyid(vma) && !(vma->vm_flags & VM_LOCKED))
			unlocked += min(end, vma->vm_end) - next;
		next = vma->vm_end;
	}
	if (next < end)
		return -ENOMEM;
	if (!mlock_future_ok(mm, true, unlocked))
		return -EAGAIN;
	return walk_page_range(mm, start, end, &mktme_check_ops, NULL);
}

static void mktme_set_keyid(struct vm_area_struct *vma, vma_flags_t flags,
			    unsigned int keyid)
{
	vma_start_write(vma);
	vma->flags = flags;
	mktme_get_vma(vma);
	mktme_note_mm(vma->vm_mm, keyid);
	vma->vm_page_prot = mktme_pgprot(vma->vm_page_prot, keyid);
}

/* Encrypted memory cannot be paged out, so it counts as locked. */
static struct vm_area_struct *
mktme_encrypt_part(struct vma_iterator *vmi, struct vm_area_struct *prev,
		   struct vm_area_struct *vma, unsigned long start,
		   unsigned long end, unsigned int keyid)
{
	vma_flags_t flags = legacy_to_vma_flags(vma->vm_flags | VM_LOCKED |
						VM_LOCKONFAULT |
						vm_flags_of_keyid(keyid));
	struct mm_struct *mm = vma->vm_mm;
	unsigned long locked = 0;

	if (vma_keyid(vma))
		return vma;
	/*
	 * Mapped zero pages have no KeyID. Entries made from them later, as
	 * when a huge entry is split, would have it.
	 */
	zap_vma_range(vma, start, end - start);
	if (!(vma->vm_flags & VM_LOCKED))
		locked = (end - start) >> PAGE_SHIFT;
	vma = vma_modify_flags(vmi, prev, vma, start, end, &flags);
	if (IS_ERR(vma))
		return vma;
	mm->locked_vm += locked;
	/* Skip a VMA that was merged with its neighbour. */
	if (!vma_keyid(vma))
		mktme_set_keyid(vma, flags, keyid);
	return vma;
}

static int mktme_encrypt_vmas(struct mm_struct *mm, unsigned long start,
			      unsigned long end, unsigned int keyid)
{
	struct vm_area_struct *vma, *prev;
	unsigned long next = start;

	VMA_ITERATOR(vmi, mm, start);
	vma = vma_iter_load(&vmi);
	prev = vma_prev(&vmi);
	if (start > vma->vm_start)
		prev = vma;

	for_each_vma_range(vmi, vma, end) {
		vma = mktme_encrypt_part(&vmi, prev, vma, next,
					 min(end, vma->vm_end), keyid);
		if (IS_ERR(vma))
			return PTR_ERR(vma);
		next = vma_iter_end(&vmi);
		prev = vma;
	}
	return 0;
}

bool __mktme_dup_vma(struct vm_area_struct *vma)
{
	vma->vm_mm->locked_vm += vma_pages(vma);
	mktme_note_mm(vma->vm_mm, vma_keyid(vma));
	return true;
}

#ifndef CONFIG_NUMA
/**
 * mktme_vma_alloc_folio() - vma_alloc_folio() once there are KeyIDs.
 * @gfp: flags of the allocation.
 * @order: order of the folio.
 * @vma: the VMA that the folio is for.
 *
 * Context: process; may sleep if @gfp allows it.
 * Return: the folio, under the KeyID of @vma; NULL if memory is short or the
 * key has been revoked.
 */
struct folio *mktme_vma_alloc_folio_noprof(gfp_t gfp, int order,
					   struct vm_area_struct *vma)
{
	struct folio *folio = mktme_pool_alloc(vma, order, gfp, numa_node_id(),
					       NULL);

	if (folio)
		return folio;
	folio = folio_alloc_noprof(mktme_alloc_gfp(vma, gfp), order);
	return mktme_alloc_folio(vma, folio, gfp);
}
EXPORT_SYMBOL(mktme_vma_alloc_folio_noprof);
#endif

/**
 * mktme_encrypt_range() - Encrypt memory of this process with a key.
 * @start: its address, page-aligned.
 * @len: its length in bytes, rounded up to pages.
 * @keyid: a KeyID whose key the caller holds.
 *
 * Memory allocated there afterwards, also by forked children, is encrypted with
 * that key. It is neither paged out nor merged with unencrypted memory, and
 * cannot be pinned for devices.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL for a bad argument or other than private anonymous memory;
 * -ENOMEM for a hole in the range, or out of memory with part of the range
 * done; -EBUSY if the memory has been used or has another KeyID; -EAGAIN at the
 * limit of locked memory; -EPERM if it is sealed; -EINTR.
 */
int mktme_encrypt_range(unsigned long start, size_t len, unsigned int keyid)
{
	struct mm_struct *mm = current->mm;
	unsigned long end;
	int err;

	len = PAGE_ALIGN(len);
	if (!PAGE_ALIGNED(start) || !len || check_add_overflow(start, len, &end))
		return -EINVAL;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	err = mktme_check_range(mm, start, end, keyid);
	if (!err)
		err = mktme_encrypt_vmas(mm, start, end, keyid);
	mmap_write_unlock(mm);
	return err;
}

bool __mktme_release_pages(struct page **pages, int nr)
{
	int i;

	for (i = 0; i < nr && !page_keyid(pages[i]); i++)
		;
	if (i == nr)
		return false;
	release_pages(pages, nr);
	return true;
}
