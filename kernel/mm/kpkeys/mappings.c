// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings: refuse a second mapping of what a key protects.
 *
 * An entry that would map such a page is refused when it is set. A page that is
 * mapped already does not enter a pool, whatever its reference count says: the
 * page tables of all processes are searched for it, from the roots that were
 * claimed, and thus through protected memory only.
 *
 * New mappings of the pages are refused before the search begins, so that
 * nothing moves behind its back. It waits for all code that is not preemptible,
 * as are writes of a process's entries under their lock, and batches.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/bitmap.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kpkeys_mappings.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "kpkeys.h"
#include "pool.h"

static_assert(KPKEYS_BLOCK_ORDER <= KPKEYS_PROTECTED_ORDER);

/* Modules set entries, too. */
DEFINE_STATIC_KEY_FALSE_RO(kpkeys_mappings_key);
EXPORT_SYMBOL(kpkeys_mappings_key);
unsigned long *kpkeys_protected_blocks __ro_after_init;
EXPORT_SYMBOL(kpkeys_protected_blocks);
unsigned long kpkeys_nr_protected_blocks __ro_after_init;
EXPORT_SYMBOL(kpkeys_nr_protected_blocks);
unsigned long *kpkeys_nr_offered __ro_after_init;
EXPORT_SYMBOL(kpkeys_nr_offered);

/* === New mappings ======================================================= */

/* The last one, which is not accessed: a page fault of another refuses again. */
const struct task_struct *kpkeys_refused_task;

static bool kpkeys_ranges_meet(unsigned long pfn, unsigned long nr,
			       unsigned long other, unsigned long nr_other)
{
	return pfn < other + nr_other && other < pfn + nr;
}

static bool kpkeys_is_offered(const struct kpkeys_pool_state *state,
			      unsigned long pfn, unsigned long nr)
{
	unsigned long first = pfn >> KPKEYS_PROTECTED_ORDER;
	unsigned long end = ((pfn + nr - 1) >> KPKEYS_PROTECTED_ORDER) + 1;

	if (!kpkeys_ranges_meet(pfn, nr, READ_ONCE(state->first_offered),
				READ_ONCE(state->nr_offered)))
		return false;
	end = min(end, kpkeys_nr_protected_blocks);
	return find_next_bit(state->offered, end, first) < end;
}

static bool kpkeys_is_protected(unsigned long pfn, unsigned long nr)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;

	return kpkeys_is_offered(pool->state, pfn, nr) ||
	       kpkeys_pool_protects(pool, pfn, nr);
}

/**
 * kpkeys_refuse_mapping() - Refuse to map pages that a key protects.
 * @pfn: the first page frame.
 * @nr: number of pages.
 *
 * See kpkeys_may_map(), which is inlined. The current task is killed: it is not
 * always the attacker's, but would find the entry empty again and again.
 *
 * Context: any.
 * Return: whether there is such a page.
 */
bool kpkeys_refuse_mapping(unsigned long pfn, unsigned long nr)
{
	if (!kpkeys_is_protected(pfn, nr))
		return false;
	kpkeys_violation_refused("mapping of page frame 0x%lx", pfn);
	if (in_task() && current->mm && !kpkeys_violation_is_expected()) {
		force_fatal_sig(SIGKILL);
		WRITE_ONCE(kpkeys_refused_task, current);
	}
	return true;
}
EXPORT_SYMBOL(kpkeys_refuse_mapping);

/* === Old mappings: a search without locks =============================== */

#define ENTRIES_AT_ONCE		8

/*
 * The index of an entry from @i, or @nr: behind those that are empty, as most of
 * a table's are. They are looked at several at once, which takes a quarter of
 * the instructions.
 */
static unsigned int kpkeys_skip_empty(const void *table, unsigned int i,
				      unsigned int nr)
{
	while (i % ENTRIES_AT_ONCE == 0 && i + ENTRIES_AT_ONCE <= nr) {
		const unsigned long *entry = table + i * sizeof(*entry);
		unsigned long any = 0;
		unsigned int k;

#pragma GCC unroll 8
		for (k = 0; k < ENTRIES_AT_ONCE; k++)
			any |= READ_ONCE(entry[k]);
		if (any)
			break;
		i += ENTRIES_AT_ONCE;
	}
	return i;
}

/* A table that is freed meanwhile stays a page of the pool, with entries. */
static bool kpkeys_is_table(const void *table)
{
	unsigned int i;

	return virt_addr_valid(table) &&
	       kpkeys_region_find(&kpkeys_pgtables_pool, PHYS_PFN(__pa(table)), &i);
}

static bool kpkeys_pte_maps(const struct kpkeys_pool_state *state, pmd_t pmd)
{
	pte_t *table = (pte_t *)pmd_page_vaddr(pmd);
	int i;

	if (!kpkeys_is_table(table))
		return false;
	for (i = 0; (i = kpkeys_skip_empty(table, i, PTRS_PER_PTE)) < PTRS_PER_PTE; i++) {
		pte_t pte = ptep_get(&table[i]);

		if (pte_present(pte) && kpkeys_is_offered(state, pte_pfn(pte), 1))
			return true;
	}
	return false;
}

static bool kpkeys_pmd_maps(const struct kpkeys_pool_state *state, pud_t *pudp,
			    pud_t pud)
{
	pmd_t *table = pmd_offset_lockless(pudp, pud, 0);
	int i;

	if (!mm_pmd_folded(&init_mm) && !kpkeys_is_table(table))
		return false;
	for (i = 0; (i = kpkeys_skip_empty(table, i, PTRS_PER_PMD)) < PTRS_PER_PMD; i++) {
		pmd_t pmd = pmdp_get_lockless(&table[i]);

		if (!pmd_present(pmd))
			continue;
		if (pmd_leaf(pmd) ? kpkeys_is_offered(state, pmd_pfn(pmd), PMD_SIZE >> PAGE_SHIFT) :
				    kpkeys_pte_maps(state, pmd))
			return true;
	}
	cond_resched();
	return false;
}

static bool kpkeys_pud_maps(const struct kpkeys_pool_state *state, p4d_t *p4dp,
			    p4d_t p4d)
{
	pud_t *table = pud_offset_lockless(p4dp, p4d, 0);
	int i;

	if (!mm_pud_folded(&init_mm) && !kpkeys_is_table(table))
		return false;
	for (i = 0; (i = kpkeys_skip_empty(table, i, PTRS_PER_PUD)) < PTRS_PER_PUD; i++) {
		pud_t pud = pudp_get(&table[i]);

		if (!pud_present(pud))
			continue;
		if (pud_leaf(pud) ? kpkeys_is_offered(state, pud_pfn(pud), PUD_SIZE >> PAGE_SHIFT) :
				    kpkeys_pmd_maps(state, &table[i], pud))
			return true;
	}
	return false;
}

static bool kpkeys_p4d_maps(const struct kpkeys_pool_state *state, pgd_t *pgdp,
			    pgd_t pgd)
{
	p4d_t *table = p4d_offset_lockless(pgdp, pgd, 0);
	int i;

	if (!mm_p4d_folded(&init_mm) && !kpkeys_is_table(table))
		return false;
	for (i = 0; (i = kpkeys_skip_empty(table, i, PTRS_PER_P4D)) < PTRS_PER_P4D; i++) {
		p4d_t p4d = p4dp_get(&table[i]);

		if (p4d_present(p4d) && kpkeys_pud_maps(state, &table[i], p4d))
			return true;
	}
	return false;
}

static bool kpkeys_root_maps(const struct kpkeys_pool_state *state, pgd_t *root)
{
	int i, nr = kpkeys_topmost_is_next(&init_mm) ? 1 : USER_PTRS_PER_PGD;

	for (i = 0; (i = kpkeys_skip_empty(root, i, nr)) < nr; i++) {
		pgd_t pgd = pgdp_get(&root[i]);

		if (pgd_present(pgd) && kpkeys_p4d_maps(state, &root[i], pgd))
			return true;
	}
	return false;
}

static bool kpkeys_process_maps(const struct kpkeys_pool *pool,
				const struct kpkeys_region *region)
{
	unsigned int i;

	for (i = 0; i < KPKEYS_BLOCK_PAGES; i++)
		if (READ_ONCE(region->owners[i]) &&
		    kpkeys_root_maps(pool->state, page_address(pfn_to_page(region->base + i))))
			return true;
	return false;
}

static bool kpkeys_any_process_maps(const struct kpkeys_pool *pool)
{
	unsigned long pfn, end = kpkeys_directory_end(pool);

	for (pfn = 0; pfn < end; pfn += KPKEYS_BLOCK_PAGES) {
		struct kpkeys_region *region = kpkeys_region_around(pool, pfn);

		if (region && region->owners && kpkeys_process_maps(pool, region))
			return true;
	}
	return false;
}

/* === Pages for a pool: the grow mutex is held =========================== */

/**
 * kpkeys_mappings_offer() - Refuse new mappings of pages that may enter a pool.
 * @pool: the pool.
 * @pfn: the first page frame.
 * @nr: number of pages; they do not cross a block boundary.
 *
 * To be called again for more pages, before kpkeys_mappings_search(): of whole
 * blocks then. kpkeys_mappings_settle() ends it for all of them.
 *
 * Context: the grow mutex is held.
 */
void kpkeys_mappings_offer(const struct kpkeys_pool *pool, unsigned long pfn,
			   unsigned int nr)
{
	struct kpkeys_pool_state *state = pool->state;
	unsigned long first = pfn, end = pfn + nr;

	if (!static_branch_unlikely(&kpkeys_mappings_key))
		return;

	CLASS(kpkeys_pool_level, level)(pool);
	if (state->nr_offered) {
		first = min(first, state->first_offered);
		end = max(end, state->first_offered + state->nr_offered);
	}
	set_bit(pfn >> KPKEYS_PROTECTED_ORDER, state->offered);
	set_bit(pfn >> KPKEYS_PROTECTED_ORDER, state->protected);
	state->first_offered = first;
	WRITE_ONCE(state->nr_offered, end - first);
}

/**
 * kpkeys_mappings_search() - Search all processes for what was offered.
 * @pool: the pool.
 *
 * Context: may sleep; the grow mutex is held.
 * Return: false if a process maps one of the pages, which has been reported.
 */
bool kpkeys_mappings_search(const struct kpkeys_pool *pool)
{
	/* No process exists before the scheduler runs. */
	if (!static_branch_unlikely(&kpkeys_mappings_key) ||
	    system_state < SYSTEM_SCHEDULING)
		return true;

	/* Entries that were being written are there now, or will be refused. */
	synchronize_rcu_expedited();
	if (kpkeys_any_process_maps(pool)) {
		kpkeys_violation_refused("%lu page frames from 0x%lx, mapped by a process",
					 pool->state->nr_offered, pool->state->first_offered);
		return false;
	}
	/* Ordinary data decided who flushed when the mapping went away. */
	kpkeys_pool_flush();
	return true;
}

/**
 * kpkeys_mappings_offered() - Was a block offered?
 * @pool: the pool.
 * @pfn: its first page frame, from ordinary memory.
 *
 * Context: the grow mutex is held.
 * Return: true if so, and no page of it can have been mapped since.
 */
bool kpkeys_mappings_offered(const struct kpkeys_pool *pool, unsigned long pfn)
{
	return !static_branch_unlikely(&kpkeys_mappings_key) ||
	       kpkeys_is_offered(pool->state, pfn, KPKEYS_BLOCK_PAGES);
}

/**
 * kpkeys_mappings_settle() - End what kpkeys_mappings_offer() has begun.
 * @pool: the pool, which owns the pages now if they did enter.
 *
 * Context: the grow mutex is held.
 */
void kpkeys_mappings_settle(const struct kpkeys_pool *pool)
{
	struct kpkeys_pool_state *state = pool->state;
	unsigned long first, end;

	if (!static_branch_unlikely(&kpkeys_mappings_key) || !state->nr_offered)
		return;

	CLASS(kpkeys_pool_level, level)(pool);
	first = state->first_offered >> KPKEYS_PROTECTED_ORDER;
	end = ((state->first_offered + state->nr_offered - 1) >> KPKEYS_PROTECTED_ORDER) + 1;
	WRITE_ONCE(state->nr_offered, 0);
	bitmap_clear(state->offered, first, end - first);
}

/* === Start ============================================================== */

kpkeys_boot_switch(check_mappings, "kpkeys.mappings");

/**
 * kpkeys_mappings_start() - Refuse second mappings from now on.
 * @pool: the pool.
 *
 * Context: boot, before the pool has pages.
 */
void __init kpkeys_mappings_start(const struct kpkeys_pool *pool)
{
	kpkeys_protected_blocks = pool->state->protected;
	kpkeys_nr_protected_blocks = kpkeys_directory_end(pool) >> KPKEYS_PROTECTED_ORDER;
	kpkeys_nr_offered = &pool->state->nr_offered;
	if (check_mappings)
		static_branch_enable(&kpkeys_mappings_key);
}
