// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: the restricted direct map.
 *
 * It has its own page tables down to the PMD level, where it differs from the
 * direct map. A PMD is either empty, or a copy of the one in the direct map and
 * shares the PTE table below, if any.
 */
#include <linux/asi.h>
#include <linux/asi_pipe.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/pgtable.h>

#include <asm/asi.h>
#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/pgalloc.h>
#include <asm/sections.h>

/* The kernel's half of a restricted address space. */
static pgd_t *asi_pgd __ro_after_init;

/* === Processes =========================================================== */

/**
 * asi_set_user_pgd() - Copy a change of the user half to the restricted table.
 * @pgdp: the entry in the unrestricted top-level table.
 * @pgd: its new value.
 *
 * As in __pti_set_user_pgtbl(), entries of the kernel half and identity
 * mappings are ignored. So is init_mm, which has no user half.
 */
void asi_set_user_pgd(pgd_t *pgdp, pgd_t pgd)
{
	/*
	 * In this order: KASAN maps its shadow before asi_requested() can run.
	 */
	if (!pgdp_maps_userspace(pgdp) || !asi_requested() ||
	    pgd.pgd & _PAGE_NOPTISHADOW ||
	    PTR_ALIGN_DOWN(pgdp, PAGE_SIZE) == swapper_pg_dir)
		return;

	asi_set_copies(pgdp, pgd, *kernel_to_user_pgdp(pgdp));
	guard(kpkeys_hardened_pgtables)();
	WRITE_ONCE(*asi_restricted_pgd(pgdp), pgd);
	if (boot_cpu_has(X86_FEATURE_PTI))
		WRITE_ONCE(*kernel_to_user_pgdp(asi_restricted_pgd(pgdp)),
			   *kernel_to_user_pgdp(pgdp));
}

static void asi_set_ldt(pgd_t *pgd, pgd_t entry)
{
	if (!asi_requested())
		return;
	asi_set_copies(pgd, entry, entry);
	set_pgd(asi_restricted_pgd(pgd), entry);
	set_pgd(kernel_to_user_pgdp(asi_restricted_pgd(pgd)), entry);
}

/**
 * asi_map_ldt() - Copy the LDT mapping to the restricted table.
 * @pgd: the entry in the unrestricted top-level table.
 *
 * Used with page table isolation. The LDT is accessed while %gs has its user
 * base, when a page fault cannot be handled.
 */
void asi_map_ldt(pgd_t *pgd)
{
	asi_set_ldt(pgd, *pgd);
}

/**
 * asi_unmap_ldt() - Remove the LDT mapping, whose tables are about to be freed.
 * @pgd: the entry in the unrestricted top-level table.
 *
 * Context: the caller flushes TLBs before it frees the tables.
 */
void asi_unmap_ldt(pgd_t *pgd)
{
	asi_set_ldt(pgd, __pgd(0));
}

/**
 * asi_pgd_ctor() - Set the kernel half of the restricted table of a process.
 * @pgd: the unrestricted table.
 *
 * It stays empty in tables created before arch_asi_init().
 *
 * Context: under pgd_lock.
 */
void asi_pgd_ctor(pgd_t *pgd)
{
	if (asi_pgd)
		clone_pgd_range(asi_restricted_pgd(pgd) + KERNEL_PGD_BOUNDARY,
				asi_pgd + KERNEL_PGD_BOUNDARY, KERNEL_PGD_PTRS);
}

pgd_t *arch_asi_pgd(struct mm_struct *mm)
{
	return asi_pgd ? asi_restricted_pgd(mm->pgd) : NULL;
}

unsigned long arch_asi_mm_id(struct mm_struct *mm)
{
	return mm->context.ctx_id;
}

/* === The restricted direct map ========================================== */

/* PGD entries that map the direct map only, see kaslr.c. */
static bool asi_pgd_maps_memory(unsigned int index)
{
	return index >= pgd_index(PAGE_OFFSET) &&
	       index < pgd_index(VMALLOC_START);
}

static pmd_t *asi_restricted_pmd(unsigned long addr)
{
	pud_t *pud;

	if (WARN_ON_ONCE(!asi_pgd_maps_memory(pgd_index(addr))))
		return NULL;
	pud = asi_pud_offset(asi_pgd, addr);
	return pud && !pud_none(*pud) ? pmd_offset(pud, addr) : NULL;
}

/* The entry of the direct map, converted to PMD size if need be. */
static pmd_t asi_direct_entry(unsigned long addr)
{
	pud_t *pud = asi_pud_offset(init_mm.pgd, addr);

	if (!pud || pud_none(*pud))
		return __pmd(0);
	if (!pud_leaf(*pud))
		return *pmd_offset(pud, addr);
	if (!pud_present(*pud))
		return __pmd(0);
	return pfn_pmd(pud_pfn(*pud) + pmd_index(addr) * PTRS_PER_PTE,
		       pud_pgprot(*pud));
}

/* Allocate a table of the restricted direct map unless it exists. */
static int asi_make_p4d(unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(asi_pgd, addr);
	p4d_t *p4d;

	if (!pgtable_l5_enabled() || !pgd_none(*pgd))
		return 0;
	p4d = p4d_alloc_one(&init_mm, addr);
	if (!p4d)
		return -ENOMEM;
	set_pgd(pgd, __pgd(_KERNPG_TABLE | __pa(p4d)));
	return 0;
}

static int asi_make_pud(unsigned long addr)
{
	p4d_t *p4d = p4d_offset(pgd_offset_pgd(asi_pgd, addr), addr);
	pud_t *pud;

	if (!p4d_none(*p4d))
		return 0;
	pud = pud_alloc_one(&init_mm, addr);
	if (!pud)
		return -ENOMEM;
	set_p4d(p4d, __p4d(_KERNPG_TABLE | __pa(pud)));
	return 0;
}

static int asi_make_pmd(unsigned long addr)
{
	pud_t *pud = asi_pud_offset(asi_pgd, addr);
	pmd_t *pmd;

	if (!pud_none(*pud))
		return 0;
	pmd = pmd_alloc_one(&init_mm, addr);
	if (!pmd)
		return -ENOMEM;
	set_pud(pud, __pud(_KERNPG_TABLE | __pa(pmd)));
	return 0;
}

/* Copy PGD entries of the restricted direct map to all processes. */
static void asi_spread_pgds(unsigned long start, unsigned long end)
{
	unsigned int i;

	guard(spinlock)(&pgd_lock);
	for (i = pgd_index(start); i <= pgd_index(end); i++) {
		struct ptdesc *ptdesc;

		list_for_each_entry(ptdesc, &pgd_list, pt_list)
			clone_pgd_range(asi_restricted_pgd(ptdesc_address(ptdesc)) + i,
					asi_pgd + i, 1);
	}
}

/**
 * asi_sync_global_pgds() - Copy a change of init_mm's PGD.
 * @start: start of the changed range.
 * @end: its last byte.
 *
 * Context: pgd_lock is not held.
 */
void asi_sync_global_pgds(unsigned long start, unsigned long end)
{
	unsigned int i;

	if (!asi_pgd)
		return;
	for (i = pgd_index(start); i <= pgd_index(end); i++) {
		if (!asi_pgd_maps_memory(i))
			clone_pgd_range(asi_pgd + i, swapper_pg_dir + i, 1);
	}
	asi_spread_pgds(start, end);
}

/* === Interface to mm/asi/ ================================================ */

int arch_asi_populate(unsigned long start, unsigned long end)
{
	unsigned long addr;
	int err = 0;

	for (addr = ALIGN_DOWN(start, PUD_SIZE); addr < end && !err;
	     addr += PUD_SIZE) {
		err = asi_make_p4d(addr);
		if (!err)
			err = asi_make_pud(addr);
		if (!err)
			err = asi_make_pmd(addr);
	}
	asi_spread_pgds(start, end - 1);
	return err;
}

void arch_asi_set(unsigned long addr, bool map)
{
	pmd_t *pmd = asi_restricted_pmd(addr);
	pmd_t new = map ? asi_direct_entry(addr) : __pmd(0);

	if (pmd && pmd_val(*pmd) != pmd_val(new))
		set_pmd(pmd, new);
}

enum asi_entry arch_asi_get(unsigned long addr)
{
	pmd_t *pmd = asi_restricted_pmd(addr);

	if (!pmd || pmd_none(*pmd))
		return ASI_UNMAPPED;
	return pmd_val(*pmd) == pmd_val(asi_direct_entry(addr)) ? ASI_MAPPED :
							      ASI_STALE;
}

static unsigned long asi_count_mapped(const char *start, const char *end)
{
	unsigned long addr, nr = 0;

	for (addr = PFN_ALIGN(start); addr < (unsigned long)end;
	     addr += PAGE_SIZE) {
		unsigned int level;
		pte_t *pte = lookup_address(addr, &level);

		nr += pte && pte_present(*pte);
	}
	return nr;
}

/* The ranges freed by free_initmem() and mark_rodata_ro(). */
unsigned long arch_asi_aliases(void)
{
	if (system_state < SYSTEM_RUNNING)
		return 0;
	return asi_count_mapped(__init_begin, __init_end) +
	       asi_count_mapped(_etext, __start_rodata) +
	       asi_count_mapped(__end_rodata, _sdata);
}

/**
 * asi_check_boottime_disable() - Disable isolation or conflicting features.
 *
 * Context: boot, before any long-lived page table is created.
 */
void __init asi_check_boottime_disable(void)
{
	if (!asi_requested())
		return;
	if (boot_cpu_has(X86_FEATURE_XENPV))
		asi_refuse("a Xen PV guest has no page tables of its own");
	else if (hypervisor_is_type(X86_HYPER_MS_HYPERV))
		asi_refuse("Hyper-V flushes TLBs of one address space of a process only");
	else
		/* Broadcast flushes only know one kernel PCID of a process. */
		setup_clear_cpu_cap(X86_FEATURE_INVLPGB);
}

const char * __init arch_asi_init(void)
{
	unsigned long end = (unsigned long)__va(PFN_PHYS(max_pfn));
	struct ptdesc *pt;
	unsigned int i;

	if (!IS_ALIGNED(PAGE_OFFSET, PGDIR_SIZE) ||
	    !IS_ALIGNED(VMALLOC_START, PGDIR_SIZE))
		return "memory shares page tables with other parts of the address space";

	/*
	 * As large as for a process: clone_pgd_range() also writes the PTI
	 * half.
	 */
	pt = pagetable_alloc(GFP_PGTABLE_KERNEL | __GFP_ZERO,
			     pgd_allocation_order());
	if (!pt)
		return "no memory for page tables";
	asi_pgd = ptdesc_address(pt);

	/*
	 * With PTI, this also copies the kernel part of the user page tables.
	 */
	clone_pgd_range(asi_pgd + KERNEL_PGD_BOUNDARY,
			swapper_pg_dir + KERNEL_PGD_BOUNDARY, KERNEL_PGD_PTRS);
	for (i = KERNEL_PGD_BOUNDARY; i < PTRS_PER_PGD; i++) {
		if (asi_pgd_maps_memory(i))
			set_pgd(asi_pgd + i, __pgd(0));
	}
	if (arch_asi_populate(PAGE_OFFSET, end))
		return "no memory for page tables";
	return NULL;
}
