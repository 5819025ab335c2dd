// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the page tables of the linear map come from, and how they are written.
 *
 * A table can be written where the linear map maps it, but the linear map is
 * what is being created. So one piece of memory, the arena, is mapped first,
 * and all other tables are taken from it. The few that map its first part are
 * in the kernel image, which is mapped already.
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
 * One for each level below the root is what an arena takes. A linear map of
 * blocks has no arena, and needs some more where blocks do not fit.
 */
#define NR_FIRST_TABLES		(IS_ENABLED(CONFIG_ARM64_4K_PAGES) ? 16 : 4)

static u8 first_tables[NR_FIRST_TABLES][PAGE_SIZE] __bss_pgtbl;
static_assert(ARRAY_SIZE(first_tables) >= CONFIG_PGTABLE_LEVELS - 1);

static unsigned int first_tables_used __initdata;

static phys_addr_t arena_next __initdata;
static phys_addr_t arena_end __initdata;

/* There are tables which are not mapped yet. */
static bool pgtables_need_fixmap __ro_after_init;

/* In the part of the image that is kept, and writable, at either address. */
static bool in_image(phys_addr_t phys)
{
	return phys >= __pa_symbol(__bss_stop) && phys < __pa_symbol(_end);
}

/**
 * pgtable_map() - Find out where a kernel page table can be written
 * @slot: the fixmap slot to use if there is no other way
 * @phys: physical address in the page table
 *
 * Context: Boot, or with fixmap_lock held.
 * Return: The address of @phys, valid until pgtable_unmap() of @slot.
 */
void *pgtable_map(enum fixed_addresses slot, phys_addr_t phys)
{
	if (in_image(phys))
		return (void *)__phys_to_kimg(phys);
	if (likely(!pgtables_need_fixmap))
		return __va(phys);
	__set_fixmap(slot, phys & PAGE_MASK, FIXMAP_PAGE_NORMAL);
	return (void *)__fix_to_virt(slot) + offset_in_page(phys);
}

/**
 * pgtable_unmap() - End what pgtable_map() began
 * @slot: the slot it was given
 *
 * Walks need not see yet what was written, see pgtable_publish().
 *
 * Context: As pgtable_map().
 */
void pgtable_unmap(enum fixed_addresses slot)
{
	if (unlikely(pgtables_need_fixmap))
		clear_fixmap(slot);
}

/**
 * pgtable_arena_alloc() - Take a page table that is mapped
 *
 * Context: Boot, while the linear map is created.
 * Return: Its physical address, or 0 if there are no more. Other memory will
 * do then: until pgtable_arena_exit() it is written through the fixmap.
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

static unsigned long __init tables_spanned(phys_addr_t start, phys_addr_t end,
					   unsigned int shift)
{
	unsigned long first = __phys_to_virt(start) >> shift;
	unsigned long last = (__phys_to_virt(end) - 1) >> shift;

	return last - first + 1;
}

/* As much as a linear map of pages can take. */
static phys_addr_t __init arena_size(void)
{
	phys_addr_t tables = 0;
	phys_addr_t start, end;
	u64 i;

	for_each_mem_range(i, &start, &end) {
		if (start >= end)
			continue;
		tables += tables_spanned(start, end, PMD_SHIFT);
		if (CONFIG_PGTABLE_LEVELS > 2)
			tables += tables_spanned(start, end, PUD_SHIFT);
		if (pgtable_l4_enabled())
			tables += tables_spanned(start, end, P4D_SHIFT);
		if (pgtable_l5_enabled())
			tables += tables_spanned(start, end, PGDIR_SHIFT);
	}
	return tables << PAGE_SHIFT;
}

/**
 * pgtable_arena_init() - Set aside memory for the tables of the linear map
 * @map: maps memory in the linear map, with pages
 *
 * For a linear map of pages only: one of blocks has few tables, and a hole of
 * pages in it would cost more than they do.
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

	/* The alignment lets one table of each level do for the first part. */
	first_end = min_t(phys_addr_t, end, start + PMD_SIZE);
	map(start, first_end);

	arena_next = start;
	arena_end = end;
	/* A table is in use for each PMD_SIZE of it that is mapped, at most. */
	if (first_end < end)
		map(first_end, end);
}

/**
 * pgtable_arena_exit() - Give back what is left; all tables are mapped now
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
