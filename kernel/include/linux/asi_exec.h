/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address space isolation: give a new program its arguments without leaving the
 * restricted address space. See Documentation/mm/asi.rst.
 */
#ifndef _LINUX_ASI_EXEC_H
#define _LINUX_ASI_EXEC_H

#include <linux/asi.h>
#include <linux/highmem.h>
#include <linux/uaccess.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

unsigned long __asi_copy_argument(struct page *page, void *to,
				  const char __user *from, unsigned int bytes);
void __asi_copy_argument_kernel(struct page *page, size_t offset,
				const char *from, size_t bytes);

/**
 * asi_copy_argument() - copy_from_user() to the stack of a new program.
 * @page: a page of that stack, in which only current has written.
 * @to: the destination in that page, where kmap_local_page() has mapped it.
 * @from: the source.
 * @bytes: number of bytes, all in that page.
 *
 * Context: may sleep.
 * Return: as copy_from_user().
 */
static inline unsigned long asi_copy_argument(struct page *page, void *to,
					      const char __user *from,
					      unsigned int bytes)
{
	if (!asi_enabled())
		return copy_from_user(to, from, bytes);
	return __asi_copy_argument(page, to, from, bytes);
}

/**
 * asi_copy_argument_kernel() - memcpy_to_page() for the stack of a new program.
 * @page: a page of that stack, in which only current has written.
 * @offset: where in it.
 * @from: the source, in memory of the kernel.
 * @bytes: number of bytes, all in that page.
 *
 * Context: may sleep.
 */
static inline void asi_copy_argument_kernel(struct page *page, size_t offset,
					    const char *from, size_t bytes)
{
	if (!asi_enabled())
		memcpy_to_page(page, offset, from, bytes);
	else
		__asi_copy_argument_kernel(page, offset, from, bytes);
}

#else

/* Macros, because inline functions would change the code of callers. */
#define asi_copy_argument(page, to, from, bytes) copy_from_user(to, from, bytes)
#define asi_copy_argument_kernel		memcpy_to_page

#endif

#endif /* _LINUX_ASI_EXEC_H */
