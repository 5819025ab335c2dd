// SPDX-License-Identifier: GPL-2.0-only
/* Page table operations of exec and exit of a small program. */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/sizes.h>

#include "bench.h"
#include "../vma_internal.h"
#include "../vma.h"

#define STACK_SHIFT	SZ_1M
#define STACK_SIZE	SZ_128K

/* A mapping of the program, and the number of its pages to touch. */
struct segment {
	unsigned long start;
	unsigned long size;
	unsigned long prot;
	bool file;	/* a private mapping of the file, else anonymous */
	unsigned int faults;
};

#define PROGRAM	0x00400000UL
#define HEAP	0x10000000UL
#define LIBRARY	0x7f000000UL

/*
 * The layout of a dynamically linked program with one library. Read faults are
 * 64 KB apart, because fault-around maps as much of a cached file. Each write
 * fault copies or clears a page.
 */
static const struct segment segments[] = {
	{ PROGRAM, SZ_512K, PROT_READ, true, 8 },		/* text */
	{ PROGRAM + SZ_512K, SZ_128K, PROT_READ, true, 2 },	/* constants */
	{ PROGRAM + SZ_1M, SZ_64K, PROT_READ | PROT_WRITE, true, 8 },
	{ PROGRAM + SZ_1M + SZ_64K, SZ_64K, PROT_READ | PROT_WRITE, false, 4 },
	{ HEAP, SZ_256K, PROT_READ | PROT_WRITE, false, 24 },
	{ LIBRARY, SZ_2M, PROT_READ, true, 12 },		/* text */
	{ LIBRARY + SZ_2M, SZ_64K, PROT_READ | PROT_WRITE, true, 8 },
	{ LIBRARY + SZ_2M + SZ_64K, SZ_64K, PROT_READ | PROT_WRITE, false, 4 },
};

static int map_segment(const struct segment *seg, struct file *file)
{
	unsigned long flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
	unsigned long addr;

	if (!seg->file)
		flags |= MAP_ANONYMOUS;
	addr = vm_mmap(seg->file ? file : NULL, seg->start, seg->size,
		       seg->prot, flags, 0);
	return IS_ERR_VALUE(addr) ? (int)addr : 0;
}

static int fault_segment(const struct segment *seg)
{
	bool write = seg->prot & PROT_WRITE;
	unsigned long step = write ? PAGE_SIZE : SZ_64K;

	return kbench_fault(seg->start, seg->start + seg->faults * step, step,
			    write ? FAULT_FLAG_WRITE : 0);
}

/* The steps of bprm_mm_init(), copy_strings() and setup_arg_pages(). */
static int setup_stack(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	unsigned long top;
	int err;

	err = create_init_stack_vma(mm, &vma, &top);
	if (err)
		return err;
	err = kbench_fault(vma->vm_start, vma->vm_end, PAGE_SIZE,
			   FAULT_FLAG_WRITE);
	if (err)
		return err;

	mmap_write_lock(mm);
	err = relocate_vma_down(vma, STACK_SHIFT);
	if (!err) {
		vm_flags_clear(vma, VM_STACK_INCOMPLETE_SETUP);
		err = expand_stack_locked(vma, vma->vm_end - STACK_SIZE);
	}
	top = vma->vm_end;
	mmap_write_unlock(mm);

	return err ?: kbench_fault(top - 4 * PAGE_SIZE, top, PAGE_SIZE,
				   FAULT_FLAG_WRITE);
}

static int exec(struct mm_struct *mm, struct file *file)
{
	size_t i;
	int err;

	err = setup_stack(mm);
	for (i = 0; i < ARRAY_SIZE(segments) && !err; i++)
		err = map_segment(&segments[i], file);
	for (i = 0; i < ARRAY_SIZE(segments) && !err; i++)
		err = fault_segment(&segments[i]);
	return err;
}

static int exec_exit(struct kbench_run *run, struct file *file)
{
	struct mm_struct *mm = kbench_mm_create();
	int err;

	if (!mm)
		return -ENOMEM;
	kthread_use_mm(mm);
	kbench_begin(run);
	err = exec(mm, file);
	kbench_end(run);
	kthread_unuse_mm(mm);
	if (err) {
		mmput(mm);
		return err;
	}
	kbench_add_tables(run, mm);
	kbench_mm_exit_timed(run, mm);
	return 0;
}

/* A program in the page cache. */
static struct file *make_file(void)
{
	struct file *file;
	struct page *page;
	pgoff_t index;

	file = shmem_kernel_file_setup("kpkeys_bench", SZ_2M, EMPTY_VMA_FLAGS);
	if (IS_ERR(file))
		return file;
	for (index = 0; index < SZ_2M / PAGE_SIZE; index++) {
		page = shmem_read_mapping_page(file->f_mapping, index);
		if (IS_ERR(page)) {
			fput(file);
			return ERR_CAST(page);
		}
		put_page(page);
	}
	return file;
}

/**
 * kbench_exec_exit() - Time the mm operations of exec and exit.
 * @run: the sample; the size is ignored.
 *
 * An operation consists of two timed regions.
 *
 * exec: map and write the first stack page, move it down with its page tables,
 * extend the stack and touch 4 of its pages (the first one again). Then create
 * 8 mappings, 5 of them of a file in the page cache, and touch them with 22
 * read faults, each of which maps up to 16 pages around it, and 53 write
 * faults, 16 of which copy a page of the file.
 *
 * exit: mmput() of that mm, see kbench_mm_exit_timed().
 *
 * Not included: the mm itself and its PGD (on UML, starting and killing the
 * host process), reading and checking the executable, credentials, signals,
 * files, system call and exception entry, and the program itself. Counts the
 * tables between exec and exit.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_exec_exit(struct kbench_run *run)
{
	struct file *file = make_file();
	unsigned int i;
	int err = 0;

	if (IS_ERR(file))
		return PTR_ERR(file);
	for (i = 0; i < run->ops && !err; i++)
		err = kbench_pause() ?: exec_exit(run, file);
	fput(file);
	return err;
}
