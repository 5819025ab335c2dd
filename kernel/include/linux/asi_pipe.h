/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: copy data of pipes without leaving the restricted
 * address space. See Documentation/mm/asi.rst.
 *
 * A page of a pipe may go from process to process. So it is noted in
 * page_private() how many bytes in it no reader has taken, and who wrote them.
 * A reader clears what it takes.
 */
#ifndef _LINUX_ASI_PIPE_H
#define _LINUX_ASI_PIPE_H

#include <linux/asi.h>
#include <linux/pipe_fs_i.h>
#include <linux/uio.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

struct mm_struct;

/**
 * arch_asi_mm_id() - Tell the mm of a process from all others, even past ones.
 * @mm: the mm.
 *
 * Return: a number that no other has or had, not 0.
 */
unsigned long arch_asi_mm_id(struct mm_struct *mm);

size_t __asi_copy_to_pipe(struct page *page, size_t offset, size_t bytes,
			  struct iov_iter *iter);
size_t __asi_copy_from_pipe(struct pipe_buffer *buf, size_t bytes,
			    struct iov_iter *iter);
bool __asi_pipe_is_clean(struct page *page);
void __asi_pipe_share(struct page *page);

/**
 * asi_copy_to_pipe() - copy_page_from_iter() to a page of a pipe.
 * @page: the page.
 * @offset: where to write, in bytes.
 * @bytes: number of bytes.
 * @iter: source.
 *
 * Context: as copy_page_from_iter(); the pipe is locked.
 * Return: number of bytes copied.
 */
static inline size_t asi_copy_to_pipe(struct page *page, size_t offset,
				      size_t bytes, struct iov_iter *iter)
{
	if (!asi_enabled())
		return copy_page_from_iter(page, offset, bytes, iter);
	return __asi_copy_to_pipe(page, offset, bytes, iter);
}

/**
 * asi_copy_from_pipe() - copy_page_to_iter() from a buffer of a pipe.
 * @buf: the buffer.
 * @anon: whether its page was filled by asi_copy_to_pipe().
 * @bytes: number of bytes, from the beginning of the buffer on.
 * @iter: destination.
 *
 * If all of them are copied, the caller must take them out of the buffer.
 *
 * Context: as copy_page_to_iter(); the pipe is locked.
 * Return: number of bytes copied.
 */
static inline size_t asi_copy_from_pipe(struct pipe_buffer *buf, bool anon,
					size_t bytes, struct iov_iter *iter)
{
	if (!asi_enabled() || !anon)
		return copy_page_to_iter(buf->page, buf->offset, bytes, iter);
	return __asi_copy_from_pipe(buf, bytes, iter);
}

/**
 * asi_pipe_is_clean() - May anyone write to this page of a pipe?
 * @page: the page, which is in no buffer.
 *
 * Return: false if data of others is left in it.
 */
static inline bool asi_pipe_is_clean(struct page *page)
{
	return !asi_enabled() || __asi_pipe_is_clean(page);
}

/**
 * asi_pipe_share() - Note that a page of a pipe has another user.
 * @page: the page, which from now on is neither cleared by readers nor mapped in
 *	windows.
 *
 * Context: the pipe is locked.
 */
static inline void asi_pipe_share(struct page *page)
{
	if (asi_enabled())
		__asi_pipe_share(page);
}

/**
 * asi_pipe_forget() - Note that a page is no longer one of a pipe.
 * @page: the page, of which the caller has the only reference.
 */
static inline void asi_pipe_forget(struct page *page)
{
	if (asi_enabled())
		set_page_private(page, 0);
}

#else

/* Macros, because inline functions would change the code of callers. */
#define asi_copy_to_pipe	copy_page_from_iter
#define asi_copy_from_pipe(buf, anon, bytes, iter) \
	copy_page_to_iter((buf)->page, (buf)->offset, bytes, iter)
#define asi_pipe_is_clean(page)	true
#define asi_pipe_share(page)	do { } while (0)
#define asi_pipe_forget(page)	do { } while (0)

#endif

#endif /* _LINUX_ASI_PIPE_H */
