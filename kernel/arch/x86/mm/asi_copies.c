// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: copies of the top-level page tables of a process,
 * each for one CPU.
 *
 * If threads run on several CPUs, a window in page tables that they share could
 * get into the TLB of another CPU, which would have it when the memory is
 * somebody else's. So a CPU that wants windows loads a copy. It differs in the
 * entry for windows only: all tables below are shared, and those who walk them
 * begin at the original.
 */
#include <kunit/visibility.h>
#include <linux/asi.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/irqflags.h>
#include <linux/kpkeys_roots.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mmap_lock.h>
#include <linux/page-flags.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>

#include <asm/asi.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

/**
 * struct asi_copies - the copies of a process.
 * @pgd: for each CPU its copy, or NULL.
 */
struct asi_copies {
	DECLARE_FLEX_ARRAY(pgd_t *, pgd);
};

/* === Finding them ======================================================== */

/* Other tables than those of pgd_alloc() have no copies. */
static struct asi_copies *asi_copies_of(pgd_t *root)
{
	struct page *page = virt_to_page(root);
	struct mm_struct *mm;

	if (!PageTable(page))
		return NULL;
	mm = pgd_page_get_mm(page_ptdesc(page));
	return mm ? READ_ONCE(mm->context.asi_copies) : NULL;
}

/* A pointer to a copy is ordinary data: it could be forged. */
static pgd_t *asi_copy_for(struct asi_copies *copies, pgd_t *root,
			   unsigned int cpu)
{
	pgd_t *copy = READ_ONCE(copies->pgd[cpu]);

	return copy && kpkeys_root_is_copy(copy, root) ? copy : NULL;
}

/**
 * __asi_pgd_here() - asi_pgd_here() with isolation enabled.
 * @root: the top-level table of a process, or another.
 *
 * Context: preemption off.
 * Return: the table that this CPU loads instead.
 */
pgd_t *__asi_pgd_here(pgd_t *root)
{
	struct asi_copies *copies = asi_copies_of(root);
	pgd_t *copy;

	if (likely(!copies))
		return root;
	copy = asi_copy_for(copies, root, smp_processor_id());
	return copy ? : root;
}

/* === Keeping them like the original ====================================== */

/* Set an entry of a copy in all of its tables, see asi_restricted_pgd(). */
static void asi_copy_set(pgd_t *pgdp, pgd_t pgd, pgd_t user)
{
	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(*pgdp, pgd);
	WRITE_ONCE(*asi_restricted_pgd(pgdp), pgd);
	if (!boot_cpu_has(X86_FEATURE_PTI))
		return;
	WRITE_ONCE(*kernel_to_user_pgdp(pgdp), user);
	WRITE_ONCE(*kernel_to_user_pgdp(asi_restricted_pgd(pgdp)), user);
}

/**
 * asi_set_copies() - Have all copies change with the original.
 * @pgdp: the entry in the original.
 * @pgd: its new value.
 * @user: that of its counterpart in the tables of user mode (PTI).
 *
 * Context: the page table lock or the mmap lock is held, or nobody else uses
 * the process.
 */
void asi_set_copies(pgd_t *pgdp, pgd_t pgd, pgd_t user)
{
	pgd_t *root = PTR_ALIGN_DOWN(pgdp, PAGE_SIZE);
	struct asi_copies *copies = asi_copies_of(root);
	unsigned int cpu;

	if (likely(!copies))
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		pgd_t *copy = asi_copy_for(copies, root, cpu);

		if (copy)
			asi_copy_set(copy + (pgdp - root), pgd, user);
	}
}

static void asi_copy_entry(pgd_t *copy, pgd_t *root, unsigned int i)
{
	if (pgd_val(root[i]))
		asi_copy_set(copy + i, root[i], kernel_to_user_pgdp(root)[i]);
}

/* All that differs between processes, but for windows. */
static void asi_copy_fill(pgd_t *copy, pgd_t *root)
{
	unsigned int i;

	for (i = 0; i < PGD_KERNEL_START; i++)
		asi_copy_entry(copy, root, i);
	asi_copy_entry(copy, root, pgd_index(LDT_BASE_ADDR));
}

/* === Making them ========================================================= */

/*
 * The TLB may have entries of the original for the addresses of windows, and
 * upper levels of these.
 */
static void asi_copy_load(pgd_t *copy)
{
	unsigned long cr3 = __native_read_cr3();

	asi_invalidate(cr3 & ASI_PCID_PROCESS);
	__asi_write_cr3((cr3 & (~CR3_ADDR_MASK | ASI_CR3_RESTRICTED)) |
			__sme_pa(copy));
}

/* Returns the copy if it is not needed. */
static pgd_t *asi_copy_install(struct mm_struct *mm, pgd_t *copy)
{
	pgd_t **place;

	guard(irqsave)();
	place = &mm->context.asi_copies->pgd[smp_processor_id()];
	if (*place || this_cpu_read(cpu_tlbstate.loaded_mm) != mm)
		return copy;
	asi_copy_fill(copy, kpkeys_root(mm));
	/* Other CPUs look for it with one of the locks held. */
	WRITE_ONCE(*place, copy);
	asi_copy_load(copy);
	return NULL;
}

/* Entries of the original do not change meanwhile, neither for LDTs. */
static pgd_t *asi_copy_install_locked(struct mm_struct *mm, pgd_t *copy)
{
	if (mmap_write_lock_killable(mm))
		return copy;
	scoped_guard(spinlock, &mm->page_table_lock)
		copy = asi_copy_install(mm, copy);
	mmap_write_unlock(mm);
	return copy;
}

static pgd_t *asi_copy_alloc(struct mm_struct *mm)
{
	struct ptdesc *pt = pagetable_alloc_level(GFP_PGTABLE_USER,
						  pgd_allocation_order(),
						  PGTABLE_LEVEL_PGD);
	pgd_t *copy;

	if (!pt)
		return NULL;
	pagetable_pgd_ctor(pt);
	copy = ptdesc_address(pt);
	if (kpkeys_root_claim_copy(kpkeys_root(mm), copy)) {
		pagetable_dtor_free(pt);
		return NULL;
	}
	asi_pgd_ctor_copy(mm, copy);
	return copy;
}

static bool asi_copies_prepare(struct mm_struct *mm)
{
	struct asi_copies *copies;

	if (READ_ONCE(mm->context.asi_copies))
		return true;
	copies = kzalloc(struct_size(copies, pgd, nr_cpu_ids), GFP_KERNEL_ACCOUNT);
	if (copies && cmpxchg(&mm->context.asi_copies, NULL, copies))
		kfree(copies);
	return READ_ONCE(mm->context.asi_copies);
}

/**
 * asi_make_copy() - Give this CPU a copy of the top-level page table.
 * @mm: the current process.
 *
 * Without memory, or if the process has been killed, it has none.
 *
 * Context: may sleep; no locks of @mm are held.
 */
VISIBLE_IF_KUNIT void asi_make_copy(struct mm_struct *mm)
{
	pgd_t *copy;

	if (!asi_copies_prepare(mm))
		return;
	copy = asi_copy_alloc(mm);
	if (!copy)
		return;
#ifdef CONFIG_MODIFY_LDT_SYSCALL
	/* In this order: who reads the LDT of a process may fault. */
	scoped_guard(rwsem_read, &mm->context.ldt_usr_sem)
#endif
		copy = asi_copy_install_locked(mm, copy);
	if (copy)
		asi_pgd_free_copy(mm, copy);
}

static void asi_copy_work(struct callback_head *work)
{
	kfree(work);
	if (current->mm)
		asi_make_copy(current->mm);
}

/**
 * asi_ask_for_copy() - Have this CPU get a copy before it returns to user mode.
 *
 * Context: any in a task, also under locks.
 */
void asi_ask_for_copy(void)
{
	struct callback_head *work;

	/* If the flag is set for something else, the next window asks. */
	if (current->flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING) ||
	    test_thread_flag(TIF_NOTIFY_RESUME))
		return;
	work = kmalloc_obj(*work, GFP_NOWAIT | __GFP_NOWARN);
	if (!work)
		return;
	init_task_work(work, asi_copy_work);
	if (task_work_add(current, work, TWA_RESUME))
		kfree(work);
}

/* === The life of a process =============================================== */

/**
 * asi_init_copies() - Begin without copies.
 * @mm: the process; it has those of its parent, of which it is a copy.
 */
void asi_init_copies(struct mm_struct *mm)
{
	mm->context.asi_copies = NULL;
}

/**
 * asi_free_copies() - Free the copies of a process.
 * @mm: the process, which no CPU has loaded.
 * @root: the original, which is freed next.
 */
void asi_free_copies(struct mm_struct *mm, pgd_t *root)
{
	struct asi_copies *copies = mm->context.asi_copies;
	unsigned int cpu;

	if (!copies)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		pgd_t *copy = asi_copy_for(copies, root, cpu);

		if (!copy)
			continue;
		ephmap_free(copy);
		asi_pgd_free_copy(mm, copy);
	}
	mm->context.asi_copies = NULL;
	kfree(copies);
}
