// SPDX-License-Identifier: GPL-2.0-only
/*
 * Roots: note for which mm each topmost page table was allocated, in memory
 * that is writable at the level of page tables only.
 *
 * A note is one word for each page of a block that has a root in it. It is set
 * by the allocation of the table and cleared when that is freed, so that no
 * other table can take the place of a root: neither one of a lower level, nor
 * one in ordinary memory, nor the root of somebody else.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/kpkeys_roots.h>
#include <linux/mm.h>
#include <linux/panic.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "kpkeys.h"
#include "pool.h"

static_assert(KPKEYS_BLOCK_PAGES * sizeof(struct mm_struct *) <= PAGE_SIZE);

/* The linear map begins elsewhere on architectures that check addresses. */
#ifndef __pa_nodebug
#define __pa_nodebug(addr)	__pa(addr)
#endif

/* Beside the owner of a copy of a root, which one CPU loads instead. */
#define KPKEYS_ROOT_COPY	BIT(1)

/* === Notes ============================================================== */

/* Where the owner of a root is noted; NULL if there is no such place. */
static __always_inline struct mm_struct **kpkeys_root_note(const pgd_t *root)
{
	/* An address within a page becomes one beyond all page frames. */
	unsigned long pfn = ror64(__pa_nodebug((unsigned long)root), PAGE_SHIFT);
	struct kpkeys_region *region = kpkeys_region_around(&kpkeys_pgtables_pool, pfn);
	struct mm_struct **owners = region ? READ_ONCE(region->owners) : NULL;

	return owners ? &owners[pfn % KPKEYS_BLOCK_PAGES] : NULL;
}

static pgd_t *kpkeys_root_in(const struct kpkeys_region *region,
			     const struct mm_struct *mm)
{
	struct mm_struct **owners = READ_ONCE(region->owners);
	unsigned int i;

	for (i = 0; owners && i < KPKEYS_BLOCK_PAGES; i++)
		if (READ_ONCE(owners[i]) == mm)
			return page_address(pfn_to_page(region->base + i));
	return NULL;
}

static struct mm_struct *kpkeys_root_copy_of(const struct mm_struct *mm)
{
	return (void *)((unsigned long)mm | KPKEYS_ROOT_COPY);
}

/* The root that was claimed for an mm, by looking at all notes. */
static pgd_t *kpkeys_root_search(const struct mm_struct *mm)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	unsigned long pfn, end = kpkeys_directory_end(pool);
	struct kpkeys_region *region;
	pgd_t *root;

	for (pfn = 0; pfn < end; pfn += KPKEYS_BLOCK_PAGES) {
		region = kpkeys_region_around(pool, pfn);
		root = region ? kpkeys_root_in(region, mm) : NULL;
		if (root)
			return root;
	}
	return NULL;
}

/*
 * Pages for notes are never given back: get some at a time, lest each pin a
 * block. They lie together, as they come out of the CPU's magazine.
 */
#define NOTES_AT_ONCE	8

/* Give a block one of the spare pages for its notes, if growing can spare it. */
static bool kpkeys_root_give_notes(struct kpkeys_region *region,
				   struct page **more, unsigned int nr)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;

	guard(mutex)(&pool->sync->grow);
	CLASS(kpkeys_pool_level, level)(pool);
	while (nr)
		kpkeys_spare_adopt(pool, more[--nr]);
	if (!region->owners && pool->state->nr_spare > KPKEYS_MIN_SPARE) {
		/* It was cleared: no note is older than its place. */
		smp_store_release(&region->owners, kpkeys_spare_pop(pool));
	}
	return region->owners;
}

/* Have a place for notes in the block of a root. */
static int kpkeys_root_prepare(struct kpkeys_region *region)
{
	struct page *more[NOTES_AT_ONCE];
	unsigned int nr;

	if (READ_ONCE(region->owners) || kpkeys_root_give_notes(region, NULL, 0))
		return 0;

	/* Outside of the mutex, which the allocation may need. */
	for (nr = 0; nr < NOTES_AT_ONCE; nr++) {
		more[nr] = kpkeys_pool_alloc(&kpkeys_pgtables_pool, GFP_KERNEL, 0,
					     KPKEYS_KIND_DATA);
		if (!more[nr])
			break;
	}
	return kpkeys_root_give_notes(region, more, nr) ? 0 : -ENOMEM;
}

/* The owner of a root that outlived its mm. */
#define KPKEYS_ROOT_LOST	((struct mm_struct *)1UL)

/* Another mm has got the memory of one whose root was kept: not that root. */
static void kpkeys_root_disown_lost(const struct mm_struct *mm)
{
	pgd_t *root;

	if (likely(!READ_ONCE(kpkeys_pgtables_pool.state->lost_roots)))
		return;
	while ((root = kpkeys_root_search(mm)) ||
	       (root = kpkeys_root_search(kpkeys_root_copy_of(mm)))) {
		guard(kpkeys_hardened_pgtables)();
		WRITE_ONCE(*kpkeys_root_note(root), KPKEYS_ROOT_LOST);
	}
}

/* Where the owner of a new root is to be noted, or an error. */
static struct mm_struct **kpkeys_root_new_note(const pgd_t *root)
{
	struct kpkeys_region *region;
	unsigned int i;
	int err;

	region = kpkeys_region_find(&kpkeys_pgtables_pool, page_to_pfn(virt_to_page(root)),
				    &i);
	if (!region)
		return ERR_PTR(-EINVAL);
	err = kpkeys_root_prepare(region);
	return err ? ERR_PTR(err) : &region->owners[i];
}

/**
 * kpkeys_root_claim() - Note that a topmost page table belongs to an mm.
 * @mm: the address space, which has no other.
 * @root: the table, which has just been allocated.
 *
 * Context: process context, may sleep.
 * Return: 0, -ENOMEM, or -EINVAL if the table is not protected.
 */
int kpkeys_root_claim(struct mm_struct *mm, pgd_t *root)
{
	struct mm_struct **note;

	if (!kpkeys_hardened_pgtables_enabled())
		return 0;
	note = kpkeys_root_new_note(root);
	if (IS_ERR(note))
		return PTR_ERR(note);
	kpkeys_root_disown_lost(mm);

	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(*note, mm);
	return 0;
}

/**
 * kpkeys_root_claim_copy() - Note that a table is a copy of a topmost one.
 * @root: the topmost page table, which was claimed.
 * @copy: the table, which has just been allocated.
 *
 * Context: process context, may sleep.
 * Return: 0, -ENOMEM, or -EINVAL if one of the tables is not protected.
 */
int kpkeys_root_claim_copy(const pgd_t *root, const pgd_t *copy)
{
	struct mm_struct **note, **note_of_copy;

	if (!kpkeys_hardened_pgtables_enabled())
		return 0;
	note = kpkeys_root_note(root);
	if (!note)
		return -EINVAL;
	note_of_copy = kpkeys_root_new_note(copy);
	if (IS_ERR(note_of_copy))
		return PTR_ERR(note_of_copy);

	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(*note_of_copy, kpkeys_root_copy_of(READ_ONCE(*note)));
	return 0;
}

/**
 * kpkeys_root_is_copy() - Was a table claimed as a copy of a root?
 * @copy: the table.
 * @root: the root.
 *
 * Context: any.
 * Return: true if so.
 */
bool kpkeys_root_is_copy(const pgd_t *copy, const pgd_t *root)
{
	struct mm_struct **note, **note_of_copy;

	if (!kpkeys_hardened_pgtables_enabled())
		return true;
	note = kpkeys_root_note(root);
	note_of_copy = kpkeys_root_note(copy);
	return note && note_of_copy && READ_ONCE(*note) &&
	       READ_ONCE(*note_of_copy) == kpkeys_root_copy_of(READ_ONCE(*note));
}

/* Entries of all levels have the bits that say they are present. */
static bool kpkeys_root_in_use(const pgd_t *root)
{
	unsigned int nr = kpkeys_topmost_is_next(&init_mm) ?
		PAGE_SIZE / sizeof(*root) : USER_PTRS_PER_PGD;

	while (nr--)
		if (pte_present(__pte(pgd_val(READ_ONCE(root[nr])))))
			return true;
	return false;
}

static void kpkeys_root_set_lost(void)
{
	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(kpkeys_pgtables_pool.state->lost_roots, true);
}

/**
 * kpkeys_root_release() - Forget for which mm a table was claimed.
 * @root: the table, about to be freed.
 *
 * The count of those who use an mm is ordinary data. While it has page tables,
 * somebody does, and may go on until something else gets the memory of the mm.
 *
 * Context: any in which page tables are freed, at the default level.
 * Return: false if the table must not be freed.
 */
bool kpkeys_root_release(pgd_t *root)
{
	struct mm_struct **note;

	if (!kpkeys_hardened_pgtables_enabled())
		return true;
	note = kpkeys_root_note(root);
	if (!note || !READ_ONCE(*note))
		return true;
	if (kpkeys_root_in_use(root)) {
		kpkeys_violation_refused("root 0x%lx freed, but in use",
					 (unsigned long)root);
		kpkeys_root_set_lost();
		return false;
	}

	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(*note, NULL);
	return true;
}

/* === Forged roots ======================================================= */

static void kpkeys_root_report(const struct mm_struct *mm, const pgd_t *root)
{
	kpkeys_violation_refused("root 0x%lx was not claimed for mm 0x%lx",
				 (unsigned long)root, (unsigned long)mm);
}

/* There is nothing to walk or load: neither handler nor scheduler can go on. */
static pgd_t *kpkeys_root_must(pgd_t *claimed)
{
	if (!claimed)
		panic("kpkeys: an address space without page tables\n");
	return claimed;
}

/*
 * The root in mm->pgd was not claimed. The right table is used, so that the attacker
 * has nothing of it, and the task that uses the address space is killed. With
 * interrupts off that is left to the next walk: the scheduler switches here.
 */
static noinline pgd_t *kpkeys_root_refuse(struct mm_struct *mm, pgd_t *root)
{
	static const struct mm_struct *reported_last;
	pgd_t *claimed = kpkeys_root_search(mm);

	if (!in_task() || irqs_disabled()) {
		if (READ_ONCE(reported_last) != mm) {
			WRITE_ONCE(reported_last, mm);
			kpkeys_root_report(mm, root);
		}
		return kpkeys_root_must(claimed);
	}

	kpkeys_root_report(mm, root);
	kpkeys_root_must(claimed);
	WRITE_ONCE(mm->pgd, claimed);
	if (current->mm == mm && !kpkeys_violation_is_expected())
		force_fatal_sig(SIGKILL);
	return claimed;
}

/**
 * kpkeys_root_of() - Get the topmost page table that was claimed for an mm.
 * @mm: the address space.
 *
 * See kpkeys_root(), which is inlined into modules.
 *
 * Context: any.
 * Return: the table.
 */
pgd_t *kpkeys_root_of(struct mm_struct *mm)
{
	pgd_t *root = READ_ONCE(mm->pgd);
	struct mm_struct **note = kpkeys_root_note(root);

	if (likely(note && READ_ONCE(*note) == mm))
		return root;
	/* By name, see pgd_offset_k(). */
	return mm == &init_mm ? swapper_pg_dir : kpkeys_root_refuse(mm, root);
}
EXPORT_SYMBOL(kpkeys_root_of);
