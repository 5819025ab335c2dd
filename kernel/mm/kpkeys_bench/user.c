// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on a large private anonymous mapping of order-0 pages, or of large
 * folios mapped by PTEs.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagewalk.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/uprobes.h>

#include <asm/tlb.h>

#include "bench.h"
#include "../internal.h"

/* Aligned, so that the number of page tables depends on the size only. */
#define START	0x40000000UL

/* === Building blocks ==================================================== */

/**
 * kbench_mm_create() - Make an empty mm, as exec does.
 *
 * On UML this starts a process of the host: never in a timed region.
 *
 * Context: task.
 * Return: the mm, to be given to mmput(); NULL if there is no memory.
 */
struct mm_struct *kbench_mm_create(void)
{
	struct mm_struct *mm = mm_alloc();

	if (!mm)
		return NULL;
	mm->task_size = TASK_SIZE;
	arch_pick_mmap_layout(mm, &current->signal->rlim[RLIMIT_STACK]);
	/* The workloads compare PTE operations. */
	mm_flags_set(MMF_DISABLE_THP_COMPLETELY, mm);
	return mm;
}

/**
 * kbench_mm_exit_timed() - Drop an mm and time its teardown.
 * @run: the sample.
 * @mm: the mm; the caller is its only user.
 *
 * Times mmput() with exit_mmap() in it, but not freeing the PGD and the mm
 * itself: on UML that kills a host process.
 *
 * Context: task.
 */
void kbench_mm_exit_timed(struct kbench_run *run, struct mm_struct *mm)
{
	mmgrab(mm);
	kbench_begin(run);
	mmput(mm);
	kbench_end_freeing(run);
	mmdrop(mm);
}

/**
 * kbench_fault() - Take page faults, one by one.
 * @start: first address.
 * @end: end address; the mappings of the current mm reach up to it.
 * @step: distance between faults.
 * @flags: FAULT_FLAG_*.
 *
 * Like an architecture's fault handler, takes the lock and looks up the VMA for
 * each fault.
 *
 * Context: a kernel thread with an mm.
 * Return: 0 or a negative errno.
 */
int kbench_fault(unsigned long start, unsigned long end, unsigned long step,
		 unsigned int flags)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned long addr;
	vm_fault_t fault;

	for (addr = start; addr < end; addr += step) {
		mmap_read_lock(mm);
		vma = vma_lookup(mm, addr);
		fault = vma ? handle_mm_fault(vma, addr, flags, NULL) :
			      VM_FAULT_SIGSEGV;
		mmap_read_unlock(mm);
		if (fault & VM_FAULT_ERROR)
			return vm_fault_to_errno(fault, 0);
	}
	return 0;
}

static int map(const struct kbench_run *run)
{
	unsigned long addr;

	addr = vm_mmap(NULL, START, run->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, 0);
	if (IS_ERR_VALUE(addr))
		return (int)addr;
	return run->large ? do_madvise(current->mm, START, run->size,
				       MADV_HUGEPAGE) : 0;
}

/* Is this page part of a PTE-mapped 64 KB folio? */
static bool page_in_large(struct vm_area_struct *vma, unsigned long addr)
{
	struct folio_walk fw;
	struct folio *folio = folio_walk_start(&fw, vma, addr, 0);
	bool large;

	if (!folio)
		return false;
	large = fw.level == FW_LEVEL_PTE && folio_size(folio) == SZ_64K;
	folio_walk_end(&fw, vma);
	return large;
}

/* Do not report a sample of small pages as one of large folios. */
static int check_large(const struct kbench_run *run)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned long addr;
	bool large;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, START);
	large = vma;
	for (addr = START; addr < START + run->size && large; addr += PAGE_SIZE)
		large = page_in_large(vma, addr);
	mmap_read_unlock(mm);
	return large ? 0 : -EOPNOTSUPP;
}

/* Make all pages present, writable and exclusive. */
static int populate(const struct kbench_run *run)
{
	unsigned long addr, end = START + run->size;
	int err = 0;

	for (addr = START; addr < end && !err; addr += SZ_2M) {
		err = kbench_pause() ?:
		      kbench_fault(addr, min(addr + SZ_2M, end), PAGE_SIZE,
				   FAULT_FLAG_WRITE);
	}
	return err ?: (run->large ? check_large(run) : 0);
}

typedef int (*op_fn)(struct kbench_run *run, unsigned int index);

static int do_ops(struct kbench_run *run, op_fn op)
{
	struct mm_struct *mm;
	unsigned int i;
	int err = 0;

	if (!run->size || !PAGE_ALIGNED(run->size))
		return -EINVAL;
	if (run->size / PAGE_SIZE > si_mem_available() / 2)
		return -ENOMEM;

	mm = kbench_mm_create();
	if (!mm)
		return -ENOMEM;
	if (run->large)
		mm_flags_clear(MMF_DISABLE_THP_COMPLETELY, mm);
	kthread_use_mm(mm);
	for (i = 0; i < run->ops && !err; i++)
		err = kbench_pause() ?: op(run, i);
	kthread_unuse_mm(mm);
	mmput(mm);
	return err;
}

/* === fork and exit ====================================================== */

static int prepare_fork(struct kbench_run *run, unsigned int index)
{
	/* The previous fork left all entries read-only: make them writable. */
	return (index ? 0 : map(run)) ?: populate(run);
}

static int fork_op(struct kbench_run *run, unsigned int index)
{
	struct mm_struct *child;
	int err;

	err = prepare_fork(run, index);
	if (err)
		return err;
	child = kbench_mm_create();
	if (!child)
		return -ENOMEM;

	uprobe_start_dup_mmap();
	kbench_begin(run);
	err = dup_mmap(child, current->mm);
	kbench_end(run);
	uprobe_end_dup_mmap();

	kbench_add_tables(run, child);
	mmput(child);
	return err;
}

/**
 * kbench_fork() - Time copying an mm.
 * @run: the sample; the size is that of the mapping.
 *
 * Times dup_mmap() only. All entries of the mapping start writable, so that
 * each is written in both page tables. Counts the tables of the copy.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_fork(struct kbench_run *run)
{
	return do_ops(run, fork_op);
}

static int exit_op(struct kbench_run *run, unsigned int index)
{
	struct mm_struct *child;
	int err;

	err = prepare_fork(run, index);
	if (err)
		return err;
	child = kbench_mm_create();
	if (!child)
		return -ENOMEM;

	uprobe_start_dup_mmap();
	err = dup_mmap(child, current->mm);
	uprobe_end_dup_mmap();
	if (err) {
		mmput(child);
		return err;
	}
	kbench_add_tables(run, child);
	kbench_mm_exit_timed(run, child);
	return 0;
}

/**
 * kbench_exit() - Time the exit of a forked mm.
 * @run: the sample; the size is that of the mapping.
 *
 * Times the same as kbench_mm_exit_timed(). The original mm still maps the
 * pages, so that they are not freed. Counts the tables of the copy.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_exit(struct kbench_run *run)
{
	return do_ops(run, exit_op);
}

/* === munmap ============================================================= */

static int munmap_op(struct kbench_run *run, unsigned int index)
{
	int err;

	err = map(run) ?: populate(run);
	if (err)
		return err;
	kbench_add_tables(run, current->mm);
	kbench_begin(run);
	err = vm_munmap(START, run->size);
	kbench_end_freeing(run);
	return err;
}

/**
 * kbench_munmap() - Time removing a mapping and freeing its pages.
 * @run: the sample; the size is that of the mapping.
 *
 * Counts the tables of the mm before; nearly all of them are freed.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_munmap(struct kbench_run *run)
{
	return do_ops(run, munmap_op);
}

/* === Large folios ======================================================= */

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/**
 * kbench_fork_large() - kbench_fork() of a mapping of 64 KB folios.
 * @run: the sample; the size is that of the mapping.
 *
 * Folios of this size must be enabled for madvise(): boot with
 * thp_anon=64K:madvise.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno; -EOPNOTSUPP if a page is not in such a folio.
 */
int kbench_fork_large(struct kbench_run *run)
{
	run->large = true;
	return kbench_fork(run);
}

/**
 * kbench_munmap_large() - kbench_munmap() of a mapping of 64 KB folios.
 * @run: the sample; the size is that of the mapping.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno; -EOPNOTSUPP if a page is not in such a folio.
 */
int kbench_munmap_large(struct kbench_run *run)
{
	run->large = true;
	return kbench_munmap(run);
}
#endif

/* === Page faults ======================================================== */

static int faults_op(struct kbench_run *run, unsigned int index)
{
	int err;

	err = map(run);
	if (err)
		return err;
	kbench_begin(run);
	err = kbench_fault(START, START + run->size, PAGE_SIZE,
			   FAULT_FLAG_WRITE);
	kbench_end(run);
	kbench_add_tables(run, current->mm);
	return err ?: vm_munmap(START, run->size);
}

/**
 * kbench_faults() - Time write faults on a fresh mapping, page by page.
 * @run: the sample; the size is that of the mapping.
 *
 * An operation is the whole mapping. Times kbench_fault(), that is the VMA
 * lookup and handle_mm_fault() with allocating and clearing the page, but not
 * the exception itself. Counts the tables of the mm afterwards.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_faults(struct kbench_run *run)
{
	return do_ops(run, faults_op);
}

/* === mprotect =========================================================== */

static int protect(struct mm_struct *mm, unsigned long size, bool writable)
{
	struct vm_area_struct *vma, *prev = NULL;
	struct mmu_gather tlb;
	vm_flags_t flags;
	struct vma_iterator vmi;
	int err;

	vma_iter_init(&vmi, mm, START);
	mmap_write_lock(mm);
	vma = vma_iter_load(&vmi);
	if (!vma) {
		mmap_write_unlock(mm);
		return -EFAULT;
	}
	flags = vma->vm_flags & ~VM_WRITE;
	if (writable)
		flags |= VM_WRITE;
	tlb_gather_mmu(&tlb, mm);
	err = mprotect_fixup(&vmi, &tlb, vma, &prev, START, START + size,
			     flags);
	tlb_finish_mmu(&tlb);
	mmap_write_unlock(mm);
	return err;
}

static int mprotect_op(struct kbench_run *run, unsigned int index)
{
	int err;

	err = index ? 0 : (map(run) ?: populate(run));
	if (err)
		return err;
	kbench_begin(run);
	err = protect(current->mm, run->size, index & 1);
	kbench_end(run);
	kbench_add_tables(run, current->mm);
	return err;
}

/**
 * kbench_mprotect() - Time changing the protection of a populated mapping.
 * @run: the sample; the size is that of the mapping.
 *
 * Operations alternate between read-only and writable; both write each entry.
 * Times the system call without its argument checks. Counts the tables of the
 * mm, all of which are visited.
 *
 * Context: the thread of a sample.
 * Return: 0 or a negative errno.
 */
int kbench_mprotect(struct kbench_run *run)
{
	return do_ops(run, mprotect_op);
}
