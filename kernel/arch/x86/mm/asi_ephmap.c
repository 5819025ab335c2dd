// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: ephemeral mappings of sensitive memory for one
 * process, in both of its address spaces. See Documentation/mm/asi.rst.
 *
 * Each CPU has a few PTEs in the page tables of the process, which it alone
 * writes, with preemption off: there is at most one user, and no migration.
 *
 * Closing a window removes it from the TLB of this CPU. Another one can have
 * cached it only with the same page tables loaded. So where a thread runs on
 * another CPU, a window is opened in a copy of the top-level page table that
 * this CPU alone loads, see asi_copies.c.
 */
#include <kunit/static_stub.h>
#include <kunit/visibility.h>
#include <linux/asi.h>
#include <linux/cache.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kpkeys_batch.h>
#include <linux/kpkeys_links.h>
#include <linux/kpkeys_mappings.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <asm/asi.h>
#include <asm/mmu_context.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

/* All windows share one entry in each table but the last two levels. */
static_assert(CONFIG_NR_CPUS * EPHMAP_PAGES <= PUD_SIZE / PAGE_SIZE);

static unsigned long ephmap_address(unsigned int cpu)
{
	return EPHMAP_BASE_ADDR + (unsigned long)cpu * EPHMAP_PAGES * PAGE_SIZE;
}

/* === Tables ============================================================== */

/* The tables exist if the levels above do. */
static pmd_t *ephmap_pmd(pgd_t *pgd, unsigned long addr)
{
	pud_t *pud = asi_pud_offset(pgd, addr);

	return pud ? pmd_offset(pud, addr) : NULL;
}

/* Start from CR3: a pointer in memory could be forged. */
static pte_t *ephmap_pte(unsigned long addr)
{
	pmd_t *pmd = ephmap_pmd(__va(read_cr3_pa()), addr);

	return pmd && !pmd_none(*pmd) ? pte_offset_kernel(pmd, addr) : NULL;
}

/* May be called under any lock. On failure the direct map is used. */
VISIBLE_IF_KUNIT void *ephmap_new_table(void)
{
	struct ptdesc *pt;

	KUNIT_STATIC_STUB_REDIRECT(ephmap_new_table);
	pt = pagetable_alloc(GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO |
			     __GFP_ACCOUNT, 0);
	if (!pt)
		return NULL;
	__pagetable_ctor(pt);
	return ptdesc_address(pt);
}

static void ephmap_free_table(void *table)
{
	kpkeys_unlink_table(true, PHYS_PFN(__pa(table)));
	pagetable_dtor_free(virt_to_ptdesc(table));
}

static void ephmap_note_table(void *table)
{
	kpkeys_note_table(&init_mm, PHYS_PFN(__pa(table)), PGTABLE_LEVEL_PTE);
}

/* Link the upper tables, which all windows share; returns their number. */
static unsigned int ephmap_link_tables(pgd_t *root, void **new)
{
	pgd_t *pgd = pgd_offset_pgd(root, EPHMAP_BASE_ADDR);
	unsigned int i, nr = 0;
	void *top;
	pud_t *pud;
	pmd_t *pmd;
	pgd_t entry;

	pmd = new[nr++];
	pud = new[nr++];
	set_pud(pud + pud_index(EPHMAP_BASE_ADDR),
		__pud(_KERNPG_TABLE | __pa(pmd)));
	top = pud;
	if (pgtable_l5_enabled()) {
		p4d_t *p4d = new[nr++];

		set_p4d(p4d + p4d_index(EPHMAP_BASE_ADDR),
			__p4d(_KERNPG_TABLE | __pa(pud)));
		top = p4d;
	}
	for (i = 0; i < nr; i++)
		ephmap_note_table(new[i]);
	/* In both address spaces: the CPU may leave with a window open. */
	entry = __pgd(_KERNPG_TABLE | __pa(top));
	set_pgd(pgd, entry);
	set_pgd(asi_restricted_pgd(pgd), entry);
	return nr;
}

/* Out of line, to keep the register pressure of ephmap_open() low. */
static noinline bool ephmap_make_tables(struct mm_struct *mm, pgd_t *root,
					unsigned long addr)
{
	unsigned int nr = 0, used = 0, needed;
	bool made = false;
	void *new[4];
	pmd_t *pmd;

	needed = ephmap_pmd(root, addr) ? 1 : 3 + pgtable_l5_enabled();
	while (nr < needed && (new[nr] = ephmap_new_table()))
		nr++;

	scoped_guard(spinlock, &mm->page_table_lock) {
		if (!ephmap_pmd(root, addr) && nr == needed)
			used = ephmap_link_tables(root, new);
		pmd = ephmap_pmd(root, addr);
		if (pmd && pmd_none(*pmd) && used < nr) {
			ephmap_note_table(new[used]);
			set_pmd(pmd, __pmd(_KERNPG_TABLE | __pa(new[used++])));
		}
		made = pmd && !pmd_none(*pmd);
	}
	while (used < nr)
		ephmap_free_table(new[used++]);
	return made;
}

/**
 * ephmap_free() - Free the page tables of windows.
 * @root: the topmost table of an mm, which no CPU has loaded and nothing uses
 *	any more. A pointer elsewhere could be forged.
 *
 * Context: any but interrupts.
 */
void ephmap_free(pgd_t *root)
{
	pgd_t *pgd = pgd_offset_pgd(root, EPHMAP_BASE_ADDR);
	pud_t *pud = asi_pud_offset(root, EPHMAP_BASE_ADDR);
	void *p4d = pgtable_l5_enabled() ? (void *)pgd_page_vaddr(*pgd) : NULL;
	unsigned int i;
	pmd_t *pmd;

	if (!pud)
		return;
	pmd = pud_pgtable(*pud);
	/* A root with tables below it is not freed. */
	set_pgd(pgd, __pgd(0));
	for (i = 0; i < PTRS_PER_PMD; i++)
		if (!pmd_none(pmd[i]))
			ephmap_free_table((void *)pmd_page_vaddr(pmd[i]));
	ephmap_free_table(pmd);
	ephmap_free_table((void *)((unsigned long)pud & PAGE_MASK));
	if (p4d)
		ephmap_free_table(p4d);
}

/* === Other CPUs ========================================================== */

static bool ephmap_is_alone(struct mm_struct *mm, unsigned int cpu)
{
	return cpumask_equal(mm_cpumask(mm), cpumask_of(cpu));
}

/* The unrestricted table that this CPU has loaded: mm->pgd or a copy. */
static pgd_t *ephmap_root(void)
{
	return __va(asi_strip_cr3(read_cr3_pa()));
}

/* No other CPU loads the page tables of this one. */
static bool ephmap_is_private(struct mm_struct *mm, unsigned int cpu)
{
	return likely(ephmap_is_alone(mm, cpu)) || ephmap_root() != mm->pgd;
}

/* As flush_tlb_func(): with PCID, the TLB keeps entries of an unloaded mm. */
static void ephmap_leave_or_flush(void *mm)
{
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == mm) {
		if (!this_cpu_read(cpu_tlbstate_shared.is_lazy)) {
			flush_tlb_local();
			return;
		}
		switch_mm_irqs_off(NULL, &init_mm, NULL);
	}
	this_cpu_write(cpu_tlbstate.invalidate_other, true);
	cpumask_clear_cpu(smp_processor_id(), mm_cpumask(mm));
}

/* Does another CPU run a thread of @mm, or is it just switching? */
static bool ephmap_is_shared(struct mm_struct *mm, unsigned int self)
{
	unsigned int cpu;

	for_each_cpu(cpu, mm_cpumask(mm)) {
		struct mm_struct *loaded;

		if (cpu == self)
			continue;
		loaded = READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu));
		if (loaded == LOADED_MM_SWITCHING)
			return true;
		if (loaded == mm &&
		    !READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
			return true;
	}
	return false;
}

/*
 * After a migration the process is not shared, but the old CPU may still have
 * its page tables loaded. Make that CPU drop them, once.
 */
static noinline bool ephmap_become_alone(struct mm_struct *mm, unsigned int cpu)
{
	if (ephmap_is_shared(mm, cpu))
		return false;
	smp_call_function_many(mm_cpumask(mm), ephmap_leave_or_flush, mm, true);
	/* Bits of offline CPUs stay set; those CPUs have nothing loaded. */
	return cpumask_any_and_but(mm_cpumask(mm), cpu_online_mask,
				   cpu) >= nr_cpu_ids;
}

/* === Windows ============================================================= */

static bool ephmap_wanted __ro_after_init = true;

static int __init ephmap_parse(char *arg)
{
	return kstrtobool(arg, &ephmap_wanted);
}
early_param("asi_ephmap", ephmap_parse);

/* A batch section costs more than it saves for a single entry. */
static void ephmap_begin_writing(unsigned int nr)
{
	if (nr > 1)
		kpkeys_batch_begin();
}

static void ephmap_end_writing(unsigned int nr)
{
	if (nr > 1)
		kpkeys_batch_end();
}

static bool ephmap_is_needed(struct mm_struct *mm)
{
	return ephmap_wanted && asi_restricted() &&
	       this_cpu_read(cpu_tlbstate.loaded_mm) == mm;
}

/* The TLB entries of the process on this CPU, in one address space. */
static __always_inline void ephmap_make_stale(bool restricted)
{
	if (cpu_feature_enabled(X86_FEATURE_PCID))
		this_cpu_or(asi_stale[restricted],
			    BIT(__native_read_cr3() & ASI_PCID_PROCESS));
}

bool ephmap_open(struct ephmap *map)
{
	struct mm_struct *mm = current->mm;
	int tries;

	if (!mm || !in_task() || irqs_disabled())
		return false;

	for (tries = 0; tries < 2; tries++) {
		unsigned int cpu = get_cpu();
		pgd_t *root;

		if (!ephmap_is_needed(mm))
			break;
		if (!ephmap_is_private(mm, cpu) && !ephmap_become_alone(mm, cpu)) {
			put_cpu();
			asi_ask_for_copy();
			return false;
		}
		map->addr = ephmap_address(cpu);
		map->nr = 0;
		map->pte = ephmap_pte(map->addr);
		if (likely(map->pte)) {
			this_cpu_write(asi_left, false);
			raw_cpu_inc(asi_switches[ASI_EPHMAP]);
			return true;
		}
		root = ephmap_root();
		put_cpu();
		if (!ephmap_make_tables(mm, root, map->addr))
			return false;
	}
	put_cpu();
	return false;
}

void *ephmap_add(struct ephmap *map, struct page *page, unsigned int nr)
{
	void *addr = (void *)map->addr + map->nr * PAGE_SIZE;
	unsigned long pfn = page_to_pfn(page);
	pgprot_t prot = PAGE_KERNEL;
	pte_t *pte = map->pte + map->nr;
	unsigned int i;

	if (WARN_ON_ONCE(nr > EPHMAP_PAGES - map->nr))
		return NULL;
	/* A forged pointer to @page must not get round its key. */
	if (!kpkeys_may_map(pfn, nr, true))
		return NULL;
	pgprot_val(prot) &= ~_PAGE_GLOBAL;
	ephmap_begin_writing(nr);
	for (i = 0; i < nr; i++)
		set_pte(pte + i, pfn_pte(pfn + i, prot));
	ephmap_end_writing(nr);
	map->nr += nr;
	return addr;
}

void ephmap_close(struct ephmap *map)
{
	struct mm_struct *mm = current->mm;
	unsigned int i;

	ephmap_begin_writing(map->nr);
	for (i = 0; i < map->nr; i++)
		set_pte(map->pte + i, __pte(0));
	ephmap_end_writing(map->nr);
	/*
	 * invlpg flushes one address space only. Where an interrupt leaves from
	 * now on, there is nothing to be cached.
	 */
	if (unlikely(this_cpu_read(asi_left)))
		ephmap_make_stale(false);
	/* Also a barrier: CPUs not seen below cannot use the entries. */
	for (i = 0; i < map->nr; i++)
		invlpg(map->addr + i * PAGE_SIZE);
	raw_cpu_add(asi_switches[ASI_EPHMAP_PAGE], map->nr);
	if (unlikely(!asi_restricted()))
		ephmap_make_stale(true);
	if (unlikely(!ephmap_is_private(mm, smp_processor_id())))
		smp_call_function_many(mm_cpumask(mm), ephmap_leave_or_flush,
				       mm, true);
	put_cpu();
}
