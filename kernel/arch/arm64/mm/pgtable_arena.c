// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocation and mapping of the page tables of the linear map.
 *
 * A table is written through the linear map, but that is just being created. So
 * one contiguous piece of memory, the arena, is mapped first, and all other
 * tables come from it. The few tables that map the first part of the arena are
 * in the kernel image, which is already mapped.
 */
#define pr_fmt(fmt) "linear map: " fmt

#include <linux/align.h>
#include <linux/array_size.h>
#include <linux/init.h>
#include <linux/log2.h>
#include <linux/memblock.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/printk.h>
#include <linux/sizes.h>

#include <asm/fixmap.h>
#include <asm/memory.h>
#include <asm/pgtable_arena.h>
#include <asm/sections.h>

/*
 * An arena takes one table for each level below the root. A linear map of
 * blocks has no arena, and needs more tables where blocks do not fit.
 */
#define NR_FIRST_TABLES		(IS_ENABLED(CONFIG_ARM64_4K_PAGES) ? 16 : 4)

static u8 first_tables[NR_FIRST_TABLES][PAGE_SIZE] __bss_pgtbl;
static_assert(ARRAY_SIZE(first_tables) >= CONFIG_PGTABLE_LEVELS - 1);

static unsigned int first_tables_used __initdata;

static phys_addr_t arena_next __initdata;
static phys_addr_t arena_end __initdata;

/* Some tables are not mapped yet. */
static bool pgtables_need_fixmap __ro_after_init;

/* In the part of the image that stays, and is writable by both addresses. */
static bool pgtable_in_image(phys_addr_t phys)
{
	return phys >= __pa_symbol(__bss_stop) && phys < __pa_symbol(_end);
}

/**
 * pgtable_map() - Map a kernel page table for writing
 * @slot: the fixmap slot to use if it is not mapped yet
 * @phys: physical address in the page table
 *
 * Context: Boot, or with fixmap_lock held.
 * Return: The address of @phys, valid until pgtable_unmap() of @slot.
 */
void *pgtable_map(enum fixed_addresses slot, phys_addr_t phys)
{
	if (pgtable_in_image(phys))
		return (void *)__phys_to_kimg(phys);
	if (likely(!pgtables_need_fixmap))
		return __va(phys);
	__set_fixmap(slot, phys & PAGE_MASK, FIXMAP_PAGE_NORMAL);
	return (void *)__fix_to_virt(slot) + offset_in_page(phys);
}

/**
 * pgtable_unmap() - Undo pgtable_map()
 * @slot: the fixmap slot that was passed to it
 *
 * Does not make writes visible to table walks, see pgtable_publish().
 *
 * Context: As pgtable_map().
 */
void pgtable_unmap(enum fixed_addresses slot)
{
	if (unlikely(pgtables_need_fixmap))
		clear_fixmap(slot);
}

/**
 * pgtable_arena_alloc() - Allocate a page table that is already mapped
 *
 * Context: Boot, while the linear map is created.
 * Return: Its physical address, or 0 if none is left. The caller then uses
 * other memory, which is written through the fixmap until pgtable_arena_exit().
 */
phys_addr_t __init pgtable_arena_alloc(void)
{
	phys_addr_t phys = arena_next;

	if (phys < arena_end) {
		arena_next += PAGE_SIZE;
		return phys;
	}
	if (first_tables_used < NR_FIRST_TABLES)
		return __pa_symbol(first_tables[first_tables_used++]);

	pgtables_need_fixmap = true;
	return 0;
}

static unsigned long __init arena_tables_spanned(phys_addr_t start,
						 phys_addr_t end,
						 unsigned int shift)
{
	unsigned long first = __phys_to_virt(start) >> shift;
	unsigned long last = (__phys_to_virt(end) - 1) >> shift;

	return last - first + 1;
}

/* Upper bound for a linear map of pages. */
static phys_addr_t __init arena_size(void)
{
	phys_addr_t tables = 0;
	phys_addr_t start, end;
	u64 i;

	for_each_mem_range(i, &start, &end) {
		if (start >= end)
			continue;
		tables += arena_tables_spanned(start, end, PMD_SHIFT);
		if (CONFIG_PGTABLE_LEVELS > 2)
			tables += arena_tables_spanned(start, end, PUD_SHIFT);
		if (pgtable_l4_enabled())
			tables += arena_tables_spanned(start, end, P4D_SHIFT);
		if (pgtable_l5_enabled())
			tables += arena_tables_spanned(start, end, PGDIR_SHIFT);
	}
	return tables << PAGE_SHIFT;
}

/**
 * pgtable_arena_init() - Reserve memory for the tables of the linear map
 * @map: maps memory in the linear map, with pages
 *
 * For a linear map of pages only: one of blocks has few tables, and mapping the
 * arena with pages would cost more than it saves.
 *
 * Context: Boot, before anything else is in the linear map.
 */
void __init pgtable_arena_init(void (*map)(phys_addr_t start, phys_addr_t end))
{
	phys_addr_t size = arena_size();
	phys_addr_t align = min_t(phys_addr_t, roundup_pow_of_two(size), PMD_SIZE);
	phys_addr_t start, end, first_end;

	start = memblock_phys_alloc_range(size, align, 0,
					  MEMBLOCK_ALLOC_NOLEAKTRACE);
	if (!start) {
		pr_warn("no %llu KiB for its page tables in one piece\n",
			(u64)size / SZ_1K);
		return;
	}
	end = start + size;

	/* Due to the alignment, one table per level maps the first part. */
	first_end = min_t(phys_addr_t, end, start + PMD_SIZE);
	map(start, first_end);

	arena_next = start;
	arena_end = end;
	/* PMD_SIZE takes at most one table, so mapped tables do not run out. */
	if (first_end < end)
		map(first_end, end);
}

/**
 * pgtable_arena_exit() - Free the rest of the arena; all tables are mapped now
 *
 * Context: Boot, when the linear map is complete.
 */
void __init pgtable_arena_exit(void)
{
	if (pgtables_need_fixmap)
		pr_info("some of its page tables were written through the fixmap\n");
	pgtables_need_fixmap = false;

	if (arena_next < arena_end)
		memblock_phys_free(arena_next, arena_end - arena_next);
	arena_next = arena_end;
}
