// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hardened page tables: every page table page carries a key that is read-only
 * at the default level.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/cache.h>
#include <linux/cpuhotplug.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_roots.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/string.h>

#include <asm/pgalloc.h>

#include <kunit/visibility.h>

#include "kpkeys.h"
#include "pool.h"
#include "secret.h"

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_pgtables_key);
/* Page table helpers are inlined into modules. */
EXPORT_SYMBOL(kpkeys_hardened_pgtables_key);

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_unbatched_key);

KPKEYS_POOL(kpkeys_pgtables_pool, "pgtables", KPKEYS_PKEY_PGTABLES,
	    KPKEYS_LVL_PGTABLES);

/* === Tables older than the pool ========================================= */

/*
 * The mark is set before tagging and cleared after untagging, so that a tagged
 * page without it was not tagged by this code.
 */
static void __init kpkeys_mark_page(struct page *page)
{
	set_bit(PT_kpkeys, &page_ptdesc(page)->pt_flags.f);
}

static void __init kpkeys_unmark_page(struct page *page)
{
	clear_bit(PT_kpkeys, &page_ptdesc(page)->pt_flags.f);
}

static bool kpkeys_page_is_marked(struct page *page)
{
	return test_bit(PT_kpkeys, &page_ptdesc(page)->pt_flags.f);
}

/* Early tables may lie in more blocks than the pool has descriptors for. */
static void __init kpkeys_feed_spare(void)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	struct page *page;

	while (READ_ONCE(pool->state->nr_spare) <= KPKEYS_MIN_SPARE) {
		page = kpkeys_pool_alloc(pool, GFP_KERNEL, 0, KPKEYS_KIND_DATA);
		if (!page)
			break;
		guard(mutex)(&pool->sync->grow);
		CLASS(kpkeys_pool_level, level)(pool);
		if (!kpkeys_spare_adopt(pool, page))
			break;
	}
}

static void __init kpkeys_note_early(struct page *page, unsigned int order)
{
	unsigned int i;

	kpkeys_feed_spare();
	for (i = 0; i < 1 << order; i++)
		kpkeys_region_set_early(&kpkeys_pgtables_pool, page + i, true);
	kpkeys_mark_page(page);
}

static int __init kpkeys_tag_range(unsigned long addr, unsigned int nr, int pkey)
{
	int err = set_memory_pkey(addr, nr, pkey);

	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	/* Even after a failure, part of it may be tagged. */
	kpkeys_stat_add(KPKEYS_STAT_PTPS_TAGGED, nr);
	if (err)
		kpkeys_stat_add(KPKEYS_STAT_TAG_FAILURES, 1);
	return err;
}

VISIBLE_IF_KUNIT int __init kpkeys_tag_page(struct page *page,
					    unsigned int order)
{
	kpkeys_note_early(page, order);
	return kpkeys_tag_range((unsigned long)page_address(page), 1 << order,
				KPKEYS_PKEY_PGTABLES);
}

/**
 * kpkeys_tag_early() - Tag memory that was there before the pool.
 * @addr: its address in the linear map.
 * @nr: number of pages.
 * @pkey: the key it gets for good.
 *
 * Context: boot, one CPU.
 * Return: 0 or an error, possibly with part of it done.
 */
int __init kpkeys_tag_early(unsigned long addr, int nr, int pkey)
{
	int i;

	for (i = 0; i < nr; i++)
		kpkeys_note_early(virt_to_page((void *)addr) + i, 0);
	return kpkeys_tag_range(addr, nr, pkey);
}

VISIBLE_IF_KUNIT int __init kpkeys_untag_page(struct page *page,
					      unsigned int order)
{
	int err = set_memory_pkey((unsigned long)page_address(page), 1 << order,
				  KPKEYS_PKEY_DEFAULT);
	unsigned int i;

	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	if (err) {
		kpkeys_stat_add(KPKEYS_STAT_UNTAG_FAILURES, 1);
	} else {
		for (i = 0; i < 1 << order; i++)
			kpkeys_region_set_early(&kpkeys_pgtables_pool, page + i, false);
		kpkeys_unmark_page(page);
		kpkeys_stat_add(KPKEYS_STAT_PTPS_UNTAGGED, 1 << order);
	}
	return err;
}

/* === Allocation and freeing ============================================= */

/* The task that gets unprotected page tables when the pool is exhausted. */
static struct task_struct *suspended_for __ro_after_init;

/**
 * kpkeys_pgtable_alloc() - Allocate a protected page table.
 * @gfp: allocation flags.
 * @order: order of the table.
 * @level: its enum pgtable_level; KPKEYS_ANY_LEVEL for a table of the kernel, or
 *	KPKEYS_GUEST_TABLE for one of a guest.
 *
 * Context: any in which pages may be allocated, at the default level.
 * Return: the page, or NULL.
 */
struct page *kpkeys_pgtable_alloc(gfp_t gfp, unsigned int order, int level)
{
	struct page *page;

	page = kpkeys_pool_alloc(&kpkeys_pgtables_pool, gfp, order,
				 KPKEYS_KIND_TABLE + level);
	if (unlikely(!page) && suspended_for == current)
		page = alloc_pages(gfp | __GFP_COMP, order);
	return page;
}

/**
 * kpkeys_pgtable_free() - Free a page table.
 * @page: the page table; its destructor has run.
 *
 * Context: any in which pages may be freed, softirqs included, at the default
 * level.
 */
void kpkeys_pgtable_free(struct page *page)
{
	if (kpkeys_pool_free(&kpkeys_pgtables_pool, page))
		return;

	/* The mark is in writable memory: do not untag because of it. */
	if (WARN(kpkeys_page_is_marked(page),
		 "kpkeys: a page table from before the pool is freed, and lost\n"))
		return;
	__free_pages(page, compound_order(page));
}

/**
 * kpkeys_pgtable_is_early() - Is this a page table from before the pool?
 * @page: a page table that is no longer used.
 *
 * Such a table keeps its key and cannot become ordinary memory.
 *
 * Return: true if it is one.
 */
bool kpkeys_pgtable_is_early(struct page *page)
{
	return kpkeys_page_is_marked(page);
}

/**
 * kpkeys_page_is_ours() - Did this code tag a page?
 * @page: any page.
 *
 * Includes page tables that wait for an RCU grace period, free pages of the
 * pool, and secret pages of user space. The answer may be outdated unless the
 * caller holds the page.
 *
 * Return: true if so.
 */
bool kpkeys_page_is_ours(struct page *page)
{
	return kpkeys_page_is_marked(page) ||
	       (kpkeys_hardened_pgtables_enabled() &&
		kpkeys_pool_owns(&kpkeys_pgtables_pool, page)) ||
	       kpkeys_has_secret_pages(page_address(page), 1);
}

/* === Walking ============================================================ */

/*
 * Tables are visited by index, not by address range, to include tables that no
 * VMA covers. A folded level has one entry and no table of its own.
 *
 * KASAN maps shadow without memory behind it by tables whose entries all point
 * to the same next table. Visit that once: once for each address would take
 * hours with five levels.
 */
#define kpkeys_entry_repeats(entry, i)	((i) && !memcmp(entry, (entry) - 1, sizeof(*(entry))))

static int kpkeys_visit_table(struct kpkeys_walk *walk, struct mm_struct *mm,
			      const char *level, const void *table)
{
	/* Tables of the kernel image have an alias in the linear map. */
	struct kpkeys_table tbl = {
		.addr = page_address(virt_to_page(table)),
		.level = level,
		.mm = mm,
	};

	return walk->table(walk, &tbl);
}

/* @entry is of any level: they have one layout. */
static int kpkeys_visit_leaf(struct kpkeys_walk *walk, unsigned long addr,
			     void *entry, unsigned long nr)
{
	pte_t pte = ptep_get(entry);

	if (!walk->writable || !pte_present(pte) || !pte_write(pte))
		return 0;
	return walk->writable(walk, arch_kpkeys_walk_addr(addr), entry, nr);
}

static int kpkeys_walk_pte(struct kpkeys_walk *walk, struct mm_struct *mm,
			   unsigned long addr, pmd_t *pmd)
{
	pte_t *table = (pte_t *)pmd_page_vaddr(*pmd);
	int i, err;

	err = kpkeys_visit_table(walk, mm, "pte", table);
	if (err || !walk->writable)
		return err;

	for (i = 0; i < PTRS_PER_PTE; i++, addr += PAGE_SIZE) {
		err = kpkeys_visit_leaf(walk, addr, &table[i], 1);
		if (err)
			return err;
	}
	return 0;
}

static int kpkeys_walk_pmd(struct kpkeys_walk *walk, struct mm_struct *mm,
			   unsigned long addr, pud_t *pud)
{
	pmd_t *pmd = pmd_offset(pud, 0);
	int i, err;

	if (!mm_pmd_folded(mm)) {
		err = kpkeys_visit_table(walk, mm, "pmd", pmd);
		if (err)
			return err;
	}

	for (i = 0; i < PTRS_PER_PMD; i++, pmd++, addr += PMD_SIZE) {
		if (!pmd_present(*pmd) || kpkeys_entry_repeats(pmd, i))
			continue;
		err = pmd_leaf(*pmd) ? kpkeys_visit_leaf(walk, addr, pmd, PTRS_PER_PTE) :
				       kpkeys_walk_pte(walk, mm, addr, pmd);
		if (err)
			return err;
	}
	return 0;
}

static int kpkeys_walk_pud(struct kpkeys_walk *walk, struct mm_struct *mm,
			   unsigned long addr, p4d_t *p4d)
{
	pud_t *pud = pud_offset(p4d, 0);
	int i, err;

	if (!mm_pud_folded(mm)) {
		err = kpkeys_visit_table(walk, mm, "pud", pud);
		if (err)
			return err;
	}

	for (i = 0; i < PTRS_PER_PUD; i++, pud++, addr += PUD_SIZE) {
		if (!pud_present(*pud) || kpkeys_entry_repeats(pud, i))
			continue;
		err = pud_leaf(*pud) ?
			kpkeys_visit_leaf(walk, addr, pud, PTRS_PER_PMD * PTRS_PER_PTE) :
			kpkeys_walk_pmd(walk, mm, addr, pud);
		if (err)
			return err;
	}
	return 0;
}

static int kpkeys_walk_p4d(struct kpkeys_walk *walk, struct mm_struct *mm,
			   unsigned long addr, pgd_t *pgd)
{
	p4d_t *p4d = p4d_offset(pgd, 0);
	int i, err;

	if (!mm_p4d_folded(mm)) {
		err = kpkeys_visit_table(walk, mm, "p4d", p4d);
		if (err)
			return err;
	}

	for (i = 0; i < PTRS_PER_P4D; i++, p4d++, addr += P4D_SIZE) {
		if (!p4d_present(*p4d) || p4d_leaf(*p4d) || kpkeys_entry_repeats(p4d, i))
			continue;
		err = kpkeys_walk_pud(walk, mm, addr, p4d);
		if (err)
			return err;
	}
	return 0;
}

/**
 * kpkeys_topmost_is_next() - Is there one topmost table where more are expected?
 * @mm: the address space.
 *
 * With fewer levels than it was built for, arm64 folds the topmost ones: all
 * entries of such a table point back to the table itself, which is the table of
 * the next level.
 *
 * Return: true if only the first entry is to be followed.
 */
bool kpkeys_topmost_is_next(struct mm_struct *mm)
{
	return (mm_p4d_folded(mm) && PTRS_PER_P4D > 1) ||
	       (mm_pud_folded(mm) && PTRS_PER_PUD > 1);
}

/**
 * kpkeys_walk_tables() - Visit every page table page of an address space.
 * @walk: the callbacks.
 * @mm: the address space; &init_mm for the kernel. For others only entries
 *	below USER_PTRS_PER_PGD are visited.
 *
 * Context: the caller holds the mmap lock for writing, because munmap frees
 * tables with the lock held for reading.
 * Return: 0, or the value with which a callback ended the walk.
 */
int kpkeys_walk_tables(struct kpkeys_walk *walk, struct mm_struct *mm)
{
	int nr = mm == &init_mm ? PTRS_PER_PGD : USER_PTRS_PER_PGD;
	unsigned long addr = 0;
	/* swapper_pg_dir by name, see pgd_offset_k(). */
	pgd_t *pgd = mm == &init_mm ? swapper_pg_dir : kpkeys_root(mm);
	void *table = mm == &init_mm ? lm_alias(pgd) : pgd;
	int i, err;

	for (i = 0; i < 1 << arch_kpkeys_pgd_order(mm); i++) {
		err = kpkeys_visit_table(walk, mm, "pgd", table + i * PAGE_SIZE);
		if (err)
			return err;
	}

	if (kpkeys_topmost_is_next(mm))
		nr = 1;
	for (i = 0; i < nr; i++, pgd++, addr += PGDIR_SIZE) {
		if (!pgd_present(*pgd) || pgd_leaf(*pgd) || kpkeys_entry_repeats(pgd, i))
			continue;
		err = kpkeys_walk_p4d(walk, mm, addr, pgd);
		if (err)
			return err;
	}
	return 0;
}

/* === Start ============================================================== */

kpkeys_boot_switch(enable, "kpkeys_hardened_pgtables");

kpkeys_boot_switch(batch, "kpkeys.batch");

/*
 * Tables that follow one another in memory are tagged at once, with one flush of
 * TLBs. Those of the linear map do, and the walk meets them in that order.
 */
struct kpkeys_run {
	unsigned long start;
	unsigned int nr;
};

static int __init kpkeys_tag_run(struct kpkeys_run *run)
{
	unsigned int nr = run->nr;

	run->nr = 0;
	return nr ? kpkeys_tag_range(run->start, nr, KPKEYS_PKEY_PGTABLES) : 0;
}

static int __init kpkeys_tag_existing(struct kpkeys_walk *walk,
				      const struct kpkeys_table *tbl)
{
	unsigned long addr = (unsigned long)tbl->addr;
	struct page *page = virt_to_page(tbl->addr);
	struct kpkeys_run *run = walk->private;
	int err = 0;

	/* Some tables are reached more than once. */
	if (kpkeys_page_is_ours(page) || arch_kpkeys_read_only(tbl->addr))
		return 0;

	kpkeys_note_early(page, 0);
	if (run->start + run->nr * PAGE_SIZE != addr) {
		err = kpkeys_tag_run(run);
		run->start = addr;
	}
	run->nr++;
	return err;
}

static int __init kpkeys_tag_tables(void)
{
	struct kpkeys_run run = {};
	struct kpkeys_walk tag = {
		.table = kpkeys_tag_existing,
		.private = &run,
	};

	return kpkeys_walk_tables(&tag, &init_mm) ? : kpkeys_tag_run(&run);
}

static int __init kpkeys_untag_existing(struct kpkeys_walk *walk,
					const struct kpkeys_table *tbl)
{
	struct page *page = virt_to_page(tbl->addr);

	/* A pool page: the linear map was split with it since. */
	if (kpkeys_pool_owns(&kpkeys_pgtables_pool, page))
		return -EBUSY;
	return kpkeys_page_is_marked(page) ? kpkeys_untag_page(page, 0) : 0;
}

/**
 * kpkeys_tag_percpu() - Tag a page of each CPU.
 * @pages: the pages, defined with DEFINE_PER_CPU_PAGE_ALIGNED().
 * @pkey: the key they get for good.
 *
 * Context: boot, one CPU.
 * Return: 0; -EOPNOTSUPP with percpu_alloc=page; or another error, possibly with
 * part of it done.
 */
int __init kpkeys_tag_percpu(void __percpu *pages, int pkey)
{
	int cpu, err;

	for_each_possible_cpu(cpu) {
		void *page = per_cpu_ptr(pages, cpu);

		/* With percpu_alloc=page it has a second mapping. */
		if (is_vmalloc_addr(page))
			return -EOPNOTSUPP;
		page = page_address(phys_to_page(per_cpu_ptr_to_phys(page)));
		err = kpkeys_tag_early((unsigned long)page, 1, pkey);
		if (err)
			return err;
	}
	return 0;
}

/**
 * kpkeys_hardened_pgtables_init() - Start protecting page tables.
 *
 * Called as soon as the page allocator works and before it has handed out a
 * page table, so that only the initial tables of the kernel have to be found.
 *
 * Context: boot, one CPU.
 */
void __init kpkeys_hardened_pgtables_init(void)
{
	struct kpkeys_walk untag = { .table = kpkeys_untag_existing };
	const char *reason;
	int err;

	if (!enable) {
		pr_info("page tables not hardened: disabled by kpkeys_hardened_pgtables=off\n");
		return;
	}

	reason = arch_kpkeys_init();
	if (reason) {
		pr_info("page tables not hardened: %s\n", reason);
		return;
	}

	err = kpkeys_pool_init(&kpkeys_pgtables_pool);
	if (err) {
		pr_err("page tables not hardened: no memory for the pool: %pe\n",
		       ERR_PTR(err));
		return;
	}

	if (!batch)
		static_branch_enable(&kpkeys_unbatched_key);
	static_branch_enable(&kpkeys_hardened_pgtables_key);

	/* Ledger entries raise the level, so they need the same protection. */
	err = kpkeys_tag_percpu(&kpkeys_ledger, KPKEYS_PKEY_LEDGER);
	if (!err)
		err = kpkeys_tag_tables();
	if (err) {
		/*
		 * Tables that stay tagged can still be written under the guard.
		 */
		pr_err("page tables not hardened: cannot tag the kernel's tables: %pe\n",
		       ERR_PTR(err));
		if (!kpkeys_walk_tables(&untag, &init_mm))
			static_branch_disable(&kpkeys_hardened_pgtables_key);
		return;
	}

	pr_info("page tables hardened (pkey %d, %s)\n", KPKEYS_PKEY_PGTABLES,
		KPKEYS_ARCH_NAME);
	kpkeys_hardened_state_init();
	kpkeys_hardened_cred_init();
	kpkeys_hardened_secret_init();
	kpkeys_hardened_ptrauth_init();
}

/**
 * kpkeys_hardened_pgtables_add() - Protect a page table from another source.
 * @table: a page of the linear map or the kernel image that becomes a kernel
 *	page table.
 *
 * Context: boot, one CPU.
 */
void __init kpkeys_hardened_pgtables_add(void *table)
{
	struct page *page = virt_to_page(table);

	if (!kpkeys_hardened_pgtables_enabled() || kpkeys_page_is_ours(page))
		return;
	if (kpkeys_tag_page(page, 0))
		pr_err("a page table is not protected\n");
}

/**
 * kpkeys_hardened_pgtables_suspend() - Fall back to unprotected page tables.
 *
 * For an architecture that must split the whole linear map before page tables
 * can be tagged. While the pool is exhausted, the calling task gets unprotected
 * tables.
 *
 * Context: boot, all other CPUs stopped.
 */
void __init kpkeys_hardened_pgtables_suspend(void)
{
	suspended_for = current;
}

/**
 * kpkeys_hardened_pgtables_resume() - Protect tables allocated since suspend.
 *
 * Context: boot, before user processes. The linear map has been split, or does
 * not have to be.
 */
void __init kpkeys_hardened_pgtables_resume(void)
{
	suspended_for = NULL;
	if (kpkeys_hardened_pgtables_enabled() && kpkeys_tag_tables())
		pr_err("page tables that were allocated at boot are not protected\n");
}

/* === Later, with slab and hotplug ======================================= */

static int kpkeys_cpu_dead(unsigned int cpu)
{
	kpkeys_pool_drain_cpu(&kpkeys_pgtables_pool, cpu);
	return 0;
}

/* Blocks are not movable: give back idle ones before offlining. */
static int kpkeys_memory_callback(struct notifier_block *self,
				  unsigned long action, void *arg)
{
	if (action == MEM_GOING_OFFLINE)
		kpkeys_pool_trim(&kpkeys_pgtables_pool, 0);
	return NOTIFY_OK;
}

static int __init kpkeys_hardened_pgtables_late_init(void)
{
	int err;

	if (!kpkeys_hardened_pgtables_enabled())
		return 0;

	err = kpkeys_pool_late_init(&kpkeys_pgtables_pool);
	if (err)
		return err;

	err = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/kpkeys:dead",
					NULL, kpkeys_cpu_dead);
	if (err < 0)
		return err;

	hotplug_memory_notifier(kpkeys_memory_callback, DEFAULT_CALLBACK_PRI);
	return 0;
}
late_initcall(kpkeys_hardened_pgtables_late_init);
