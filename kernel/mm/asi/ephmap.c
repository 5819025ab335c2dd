// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: copy memory of the current process without leaving
 * the restricted address space.
 *
 * A window maps whole pages, for all threads of the process, and the CPU may
 * speculate about any byte. So it is only used for pages that the process may
 * know all of:
 *
 * - pages of files that it opened for reading, or owns;
 * - its own pages, or pages that it has mapped;
 * - pages of the stack that it prepares for the program it executes.
 *
 * New pages hold no data of others, see asi_clears().
 */
#include <linux/asi.h>
#include <linux/asi_copy.h>
#include <linux/asi_exec.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "ephmap.h"

/* The part of @bytes from @offset on that fits into a window. */
static size_t ephmap_fitting(size_t offset, size_t bytes)
{
	return min(bytes, EPHMAP_PAGES * PAGE_SIZE - offset_in_page(offset));
}

/**
 * ephmap_open_folio() - Map a part of a folio in a window.
 * @map: receives the window.
 * @folio: the folio.
 * @offset: where the part begins, in bytes.
 * @bytes: its size, which has to fit into a window.
 *
 * Context: as ephmap_open(). Page faults are disabled.
 * Return: its address, or NULL if there is no window and nothing to close.
 */
void *ephmap_open_folio(struct ephmap *map, struct folio *folio, size_t offset,
			size_t bytes)
{
	size_t in_page = offset_in_page(offset);
	void *addr;

	if (!ephmap_open(map))
		return NULL;
	addr = ephmap_add(map, folio_page(folio, offset / PAGE_SIZE),
			  PFN_UP(in_page + bytes));
	if (!addr) {
		ephmap_close(map);
		return NULL;
	}
	pagefault_disable();
	return addr + in_page;
}

/**
 * ephmap_close_folio() - Close the window of ephmap_open_folio().
 * @map: the window.
 *
 * Context: as ephmap_close(). Page faults are enabled again.
 */
void ephmap_close_folio(struct ephmap *map)
{
	pagefault_enable();
	ephmap_close(map);
}

/* === Files =============================================================== */

/**
 * ephmap_fault_in() - Make the destination of a short copy present.
 * @iter: the destination, in user memory.
 * @bytes: how many bytes are missing.
 *
 * Context: may sleep, if page faults are enabled; no window is open.
 * Return: false if there is no use in another try.
 */
bool ephmap_fault_in(struct iov_iter *iter, size_t bytes)
{
	return !iter->nofault && !pagefault_disabled() &&
	       !fault_in_iov_iter_writeable(iter, bytes);
}

/*
 * The kernel reads programs that it executes, and files that it measures: the
 * process need not have opened them, nor be allowed to.
 */
static bool ephmap_may_read(struct file *file, struct iov_iter *iter)
{
	if (user_backed_iter(iter))
		return true;
	/* Kernel threads have no windows: do not ask for them. */
	return iov_iter_is_kvec(iter) && current->mm &&
	       current_cred() == current_real_cred() &&
	       !file_permission(file, MAY_READ);
}

size_t __asi_copy_folio_to_iter(struct file *file, struct folio *folio,
				size_t offset, size_t bytes,
				struct iov_iter *iter)
{
	bool stuck = !ephmap_may_read(file, iter);
	unsigned int tries = 0;
	size_t done = 0;

	while (!stuck && done < bytes) {
		size_t n = ephmap_fitting(offset + done, bytes - done);
		size_t copied;
		struct ephmap map;
		void *from = ephmap_open_folio(&map, folio, offset + done, n);

		if (!from)
			break;
		copied = _copy_to_iter(from, n, iter);
		ephmap_close_folio(&map);
		done += copied;
		/*
		 * Retry once only: the page may be reclaimed again and again.
		 */
		if (copied < n)
			stuck = (!copied && tries++) ||
				!ephmap_fault_in(iter, n - copied);
	}
	/* Copy the rest without a window, taking exits as needed. */
	if (done < bytes)
		done += copy_folio_to_iter(folio, offset + done, bytes - done,
					   iter);
	return done;
}

/* The owner could have opened the file for reading as well. */
static bool ephmap_may_know(struct file *file)
{
	struct inode *inode = file_inode(file);

	if (file->f_mode & FMODE_READ)
		return true;
	/* File systems may write with the credentials of another user. */
	if (current_cred() != current_real_cred())
		return false;
	return vfsuid_eq_kuid(i_uid_into_vfsuid(file_mnt_idmap(file), inode),
			      current_fsuid());
}

size_t __asi_copy_folio_from_iter_atomic(struct file *file, struct folio *folio,
					 size_t offset, size_t bytes,
					 struct iov_iter *iter)
{
	size_t done = 0;

	if (!user_backed_iter(iter) || !ephmap_may_know(file))
		return copy_folio_from_iter_atomic(folio, offset, bytes, iter);

	while (done < bytes) {
		size_t n = ephmap_fitting(offset + done, bytes - done);
		size_t copied;
		struct ephmap map;
		void *to = ephmap_open_folio(&map, folio, offset + done, n);

		if (!to)
			return done + copy_folio_from_iter_atomic(folio,
								  offset + done,
								  bytes - done,
								  iter);
		copied = _copy_from_iter(to, n, iter);
		ephmap_close_folio(&map);
		done += copied;
		if (copied < n)
			break;
	}
	return done;
}

/* === Arguments of programs =============================================== */

static void *ephmap_open_page(struct ephmap *map, struct page *page)
{
	return ephmap_open_folio(map, page_folio(page),
				 folio_page_idx(page_folio(page), page) *
				 PAGE_SIZE, PAGE_SIZE);
}

unsigned long __asi_copy_argument(struct page *page, void *to,
				  const char __user *from, unsigned int bytes)
{
	struct ephmap map;
	void *window = ephmap_open_page(&map, page);
	long err = -EFAULT;

	if (window) {
		err = copy_from_user_nofault(window + offset_in_page(to), from,
					     bytes);
		ephmap_close_folio(&map);
	}
	return err ? copy_from_user(to, from, bytes) : 0;
}

void __asi_copy_argument_kernel(struct page *page, size_t offset,
				const char *from, size_t bytes)
{
	struct ephmap map;
	void *window = ephmap_open_page(&map, page);

	if (!window) {
		memcpy_to_page(page, offset, from, bytes);
		return;
	}
	memcpy(window + offset, from, bytes);
	ephmap_close_folio(&map);
}

/* === Copy on write ======================================================= */

int __asi_copy_user_page(struct page *to, struct page *from, unsigned long addr,
			 struct vm_area_struct *vma)
{
	struct ephmap map;
	void *vfrom, *vto;
	unsigned long left;

	/* Debuggers, for one, write to memory of another process. */
	if (vma->vm_mm != current->mm || !ephmap_open(&map))
		return copy_mc_user_highpage(to, from, addr, vma);

	vfrom = ephmap_add(&map, from, 1);
	vto = vfrom ? ephmap_add(&map, to, 1) : NULL;
	if (!vto) {
		ephmap_close(&map);
		return copy_mc_user_highpage(to, from, addr, vma);
	}
	left = copy_mc_to_kernel(vto, vfrom, PAGE_SIZE);
	ephmap_close(&map);
	if (left)
		memory_failure_queue(page_to_pfn(from), 0);
	return left;
}
