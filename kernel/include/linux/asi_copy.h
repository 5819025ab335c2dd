/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: copy memory of the current process without leaving
 * the restricted address space.
 */
#ifndef _LINUX_ASI_COPY_H
#define _LINUX_ASI_COPY_H

#include <linux/asi.h>
#include <linux/highmem.h>
#include <linux/uio.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

size_t __asi_copy_folio_to_iter(struct file *file, struct folio *folio,
				size_t offset, size_t bytes,
				struct iov_iter *iter);
size_t __asi_copy_folio_from_iter_atomic(struct file *file, struct folio *folio,
					 size_t offset, size_t bytes,
					 struct iov_iter *iter);
int __asi_copy_user_page(struct page *to, struct page *from, unsigned long addr,
			 struct vm_area_struct *vma);

/**
 * asi_copy_folio_to_iter() - copy_folio_to_iter() for reading a file.
 * @file: the file, which was opened for reading, or by the kernel.
 * @folio: a folio of the file.
 * @offset: offset in the folio, in bytes.
 * @bytes: number of bytes.
 * @iter: destination.
 *
 * Context: as copy_folio_to_iter().
 * Return: number of bytes copied.
 */
static inline size_t asi_copy_folio_to_iter(struct file *file,
					    struct folio *folio, size_t offset,
					    size_t bytes, struct iov_iter *iter)
{
	if (!asi_enabled())
		return copy_folio_to_iter(folio, offset, bytes, iter);
	return __asi_copy_folio_to_iter(file, folio, offset, bytes, iter);
}

/**
 * asi_copy_folio_from_iter_atomic() - Copy to a folio for writing a file.
 * @file: the file.
 * @folio: a folio of the file.
 * @offset: offset in the folio, in bytes.
 * @bytes: number of bytes.
 * @iter: source.
 *
 * Context: as copy_folio_from_iter_atomic().
 * Return: number of bytes copied.
 */
static inline size_t asi_copy_folio_from_iter_atomic(struct file *file,
						     struct folio *folio,
						     size_t offset,
						     size_t bytes,
						     struct iov_iter *iter)
{
	if (!asi_enabled())
		return copy_folio_from_iter_atomic(folio, offset, bytes, iter);
	return __asi_copy_folio_from_iter_atomic(file, folio, offset, bytes,
						 iter);
}

/**
 * asi_copy_user_page() - copy_mc_user_highpage() for copy-on-write.
 * @to: the new page.
 * @from: the page that the process has mapped.
 * @addr: its address.
 * @vma: its VMA.
 *
 * Context: as copy_mc_user_highpage(); no lock is held that an interrupt takes.
 * Return: 0, or nonzero if @from has a memory error.
 */
static inline int asi_copy_user_page(struct page *to, struct page *from,
				     unsigned long addr,
				     struct vm_area_struct *vma)
{
	if (!asi_enabled())
		return copy_mc_user_highpage(to, from, addr, vma);
	return __asi_copy_user_page(to, from, addr, vma);
}

#else

/* Macros, because inline functions would change the code of callers. */
#define asi_copy_folio_to_iter(file, folio, offset, bytes, iter) \
	copy_folio_to_iter(folio, offset, bytes, iter)
#define asi_copy_folio_from_iter_atomic(file, folio, offset, bytes, iter) \
	copy_folio_from_iter_atomic(folio, offset, bytes, iter)
#define asi_copy_user_page		copy_mc_user_highpage

#endif

#endif /* _LINUX_ASI_COPY_H */
