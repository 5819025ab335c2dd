/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation, within mm/: copies of memory of the current process
 * for which the restricted address space need not be left.
 */
#ifndef __MM_ASI_EPHMAP_H
#define __MM_ASI_EPHMAP_H

#include <linux/asi.h>
#include <linux/highmem.h>
#include <linux/uio.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

size_t __asi_copy_folio_to_iter(struct folio *folio, size_t offset,
				size_t bytes, struct iov_iter *iter);
size_t __asi_copy_folio_from_iter_atomic(struct file *file, struct folio *folio,
					 size_t offset, size_t bytes,
					 struct iov_iter *iter);
int __asi_copy_user_page(struct page *to, struct page *from, unsigned long addr,
			 struct vm_area_struct *vma);

/**
 * asi_copy_folio_to_iter() - As copy_folio_to_iter(), of a file that is read.
 * @folio: of the file. It was opened for reading.
 * @offset: where to begin, in bytes.
 * @bytes: how many.
 * @iter: where to.
 *
 * Context: as copy_folio_to_iter().
 * Return: how many bytes were copied.
 */
static inline size_t asi_copy_folio_to_iter(struct folio *folio, size_t offset,
					    size_t bytes, struct iov_iter *iter)
{
	if (!asi_enabled())
		return copy_folio_to_iter(folio, offset, bytes, iter);
	return __asi_copy_folio_to_iter(folio, offset, bytes, iter);
}

/**
 * asi_copy_folio_from_iter_atomic() - As copy_folio_from_iter_atomic(), to a
 *	file that is written.
 * @file: the file.
 * @folio: of that.
 * @offset: where to begin, in bytes.
 * @bytes: how many.
 * @iter: where from.
 *
 * Context: as copy_folio_from_iter_atomic().
 * Return: how many bytes were copied.
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
 * asi_copy_user_page() - As copy_mc_user_highpage(), for copy-on-write.
 * @to: a new page.
 * @from: what the process has mapped.
 * @addr: where.
 * @vma: where.
 *
 * Context: as copy_mc_user_highpage(), with nothing locked that an interrupt
 * needs.
 * Return: 0, or something else if the memory that was read is broken.
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

/* Macros, as inline functions would change what the compiler makes of others. */
#define asi_copy_folio_to_iter		copy_folio_to_iter
#define asi_copy_folio_from_iter_atomic(file, folio, offset, bytes, iter) \
	copy_folio_from_iter_atomic(folio, offset, bytes, iter)
#define asi_copy_user_page		copy_mc_user_highpage

#endif

#endif /* __MM_ASI_EPHMAP_H */
