// SPDX-License-Identifier: GPL-2.0-only
/* Map and unmap memory in the kernel page tables. */
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "bench.h"

/*
 * vunmap() defers TLB flushes until 32 MB are pending, and then a worker does
 * them: inside a sample of one variant and after that of another. So the timed
 * region flushes by itself, always after the same amount, below that limit.
 */
#define PAGES_PER_FLUSH	4096UL

/* @index is the number of the operation in the sample. */
typedef int (*op_fn)(const struct kbench_run *run, struct page **pages,
		     unsigned int index);

static int do_ops(struct kbench_run *run, struct page **pages, op_fn op)
{
	unsigned int batch, end, i = 0;
	int err = 0;

	batch = max(PAGES_PER_FLUSH / run->size, 1UL);
	/* Flush the areas that others unmapped. */
	vm_unmap_aliases();
	while (i < run->ops && !err) {
		end = i + min(batch, run->ops - i);
		err = kbench_pause();
		if (err)
			return err;
		kbench_begin(run);
		for (; i < end && !err; i++)
			err = op(run, pages, i);
		vm_unmap_aliases();
		kbench_end(run);
	}
	return err;
}

static int check_size(const struct kbench_run *run)
{
	if (!run->size)
		return -EINVAL;
	return run->size > PAGES_PER_FLUSH ? -E2BIG : 0;
}

static int vmalloc_pages(unsigned long nr)
{
	void *p = vmalloc(nr * PAGE_SIZE);

	vfree(p);
	return p ? 0 : -ENOMEM;
}

static int vmalloc_op(const struct kbench_run *run, struct page **unused,
		      unsigned int index)
{
	return vmalloc_pages(run->size);
}

/**
 * kbench_vmalloc() - Time vmalloc() and vfree().
 * @run: the sample; the size is in pages, up to 4096.
 *
 * An operation is one of each, including allocating and freeing the pages. The
 * flush is timed, once in 4096 pages. Counts no tables: kernel page tables
 * stay.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_vmalloc(struct kbench_run *run)
{
	return check_size(run) ?: do_ops(run, NULL, vmalloc_op);
}

/* The same sequence of sizes in each sample, for comparison. */
static int vmalloc_random_op(const struct kbench_run *run,
			     struct page **unused, unsigned int index)
{
	return vmalloc_pages(1 + reciprocal_scale(hash_32(index, 32),
						  run->size));
}

/**
 * kbench_vmalloc_random() - Time vmalloc() and vfree() of many sizes.
 * @run: the sample; the size is the largest, in pages, up to 4096.
 *
 * Like kbench_vmalloc(), with uniformly distributed sizes from one page up.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_vmalloc_random(struct kbench_run *run)
{
	return check_size(run) ?: do_ops(run, NULL, vmalloc_random_op);
}

static int vm_map_ram_op(const struct kbench_run *run, struct page **pages,
			 unsigned int index)
{
	void *p = vm_map_ram(pages, run->size, NUMA_NO_NODE);

	if (!p)
		return -ENOMEM;
	vm_unmap_ram(p, run->size);
	return 0;
}

/**
 * kbench_vm_map_ram() - Time vm_map_ram() and vm_unmap_ram().
 * @run: the sample; the size is in pages, up to 4096.
 *
 * An operation is one of each, on preallocated pages. The flush is timed, once
 * in 4096 pages. Counts no tables.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_vm_map_ram(struct kbench_run *run)
{
	struct page **pages;
	unsigned long nr;
	int err;

	err = check_size(run);
	if (err)
		return err;
	pages = kcalloc(run->size, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (nr = 0; nr < run->size; nr++) {
		pages[nr] = alloc_page(GFP_KERNEL);
		if (!pages[nr]) {
			err = -ENOMEM;
			break;
		}
	}
	err = err ?: do_ops(run, pages, vm_map_ram_op);
	while (nr--)
		__free_page(pages[nr]);
	kfree(pages);
	return err;
}
