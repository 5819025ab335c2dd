// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: copy data of pipes without leaving the restricted
 * address space.
 *
 * A window shows a whole page. So it is used
 *
 * - by a reader, if nothing is in the page but what it may read now: it clears
 *   what it takes, and so did those before it;
 * - by a writer, if the page is empty, or all that is in it was written by the
 *   same process.
 *
 * Empty pages are clean, and may be written by anyone. A page that has got
 * another user, as by tee(), or in which a copy ended early, is never empty.
 */
#include <linux/asi.h>
#include <linux/asi_pipe.h>
#include <linux/bits.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pipe_fs_i.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uio.h>

#include "ephmap.h"

/*
 * page_private(): how many bytes are in the page, and who wrote them. 0 says
 * nothing: a page may be stolen and yet stay in the pipe.
 */
#define BYTES_MASK	GENMASK(PAGE_SHIFT, 0)
#define KNOWN		BIT(PAGE_SHIFT + 1)
#define WRITER_SHIFT	(PAGE_SHIFT + 2)
/* More than a page has. */
#define SHARED		BYTES_MASK
#define NOBODY		0UL

static unsigned long bytes_in(struct page *page)
{
	unsigned long noted = page_private(page);

	return noted & KNOWN ? noted & BYTES_MASK : SHARED;
}

static unsigned long writer_of(struct page *page)
{
	return page_private(page) >> WRITER_SHIFT;
}

static void note(struct page *page, unsigned long bytes, unsigned long writer)
{
	set_page_private(page, bytes | KNOWN | writer << WRITER_SHIFT);
}

/* The process that copies between @iter and a pipe. */
static unsigned long caller_of(struct iov_iter *iter)
{
	return user_backed_iter(iter) && current->mm ?
	       arch_asi_mm_id(current->mm) : NOBODY;
}

/**
 * __asi_copy_to_pipe() - asi_copy_to_pipe() with isolation enabled.
 * @page: the page.
 * @offset: where to write, in bytes.
 * @bytes: number of bytes.
 * @iter: source.
 *
 * Context: as copy_page_from_iter(); the pipe is locked.
 * Return: number of bytes copied.
 */
size_t __asi_copy_to_pipe(struct page *page, size_t offset, size_t bytes,
			  struct iov_iter *iter)
{
	unsigned long caller = caller_of(iter);
	/* At its beginning a page is new, or was clean when it was kept. */
	unsigned long before = offset ? bytes_in(page) : 0;
	bool own = !before || writer_of(page) == caller;
	size_t wanted = min(bytes, iov_iter_count(iter)), done = 0;
	bool windows = own && caller != NOBODY;
	unsigned int tries = 0;

	while (windows && done < wanted && tries++ < 2) {
		struct ephmap map;
		void *to = ephmap_open_folio(&map, page_folio(page),
					     offset + done, wanted - done);

		if (!to)
			break;
		done += _copy_from_iter(to, wanted - done, iter);
		ephmap_close_folio(&map);
		if (done < wanted &&
		    (iter->nofault ||
		     fault_in_iov_iter_readable(iter, wanted - done)))
			break;
	}
	if (done < wanted)
		done += copy_page_from_iter(page, offset + done, wanted - done,
					    iter);

	if (before == SHARED || done < wanted)
		note(page, SHARED, NOBODY);
	else
		note(page, before + done, own ? caller : NOBODY);
	return done;
}

/* The caller has copied it all, and takes it out of the pipe. */
static void take(struct page *page, void *addr, size_t bytes)
{
	/* Another user has not. */
	if (page_count(page) != 1)
		return;
	memset(addr, 0, bytes);
	note(page, bytes_in(page) - bytes, writer_of(page));
}

/**
 * __asi_copy_from_pipe() - asi_copy_from_pipe() with isolation enabled.
 * @buf: the buffer.
 * @bytes: number of bytes, from the beginning of the buffer on.
 * @iter: destination.
 *
 * Context: as copy_page_to_iter(); the pipe is locked.
 * Return: number of bytes copied.
 */
size_t __asi_copy_from_pipe(struct pipe_buffer *buf, size_t bytes,
			    struct iov_iter *iter)
{
	struct page *page = buf->page;
	bool alone = bytes_in(page) == buf->len;
	bool windows = alone && user_backed_iter(iter);
	unsigned int tries = 0;
	size_t done = 0;
	void *from;

	while (windows && done < bytes && tries++ < 2) {
		struct ephmap map;

		from = ephmap_open_folio(&map, page_folio(page), buf->offset,
					 bytes);
		if (!from)
			break;
		done += _copy_to_iter(from + done, bytes - done, iter);
		if (done == bytes)
			take(page, from, bytes);
		ephmap_close_folio(&map);
		if (done < bytes && !ephmap_fault_in(iter, bytes - done))
			break;
	}
	if (done == bytes)
		return done;

	done += copy_page_to_iter(page, buf->offset + done, bytes - done, iter);
	if (alone && done == bytes) {
		from = kmap_local_page(page);
		take(page, from + buf->offset, bytes);
		kunmap_local(from);
	}
	return done;
}

/**
 * __asi_pipe_is_clean() - asi_pipe_is_clean() with isolation enabled.
 * @page: the page, which is in no buffer.
 *
 * Return: false if data of others is left in it.
 */
bool __asi_pipe_is_clean(struct page *page)
{
	return !bytes_in(page);
}

/**
 * __asi_pipe_share() - asi_pipe_share() with isolation enabled.
 * @page: the page.
 *
 * Context: the pipe is locked.
 */
void __asi_pipe_share(struct page *page)
{
	note(page, SHARED, NOBODY);
}
