/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_PGTABLE_ARENA_H
#define __ASM_PGTABLE_ARENA_H

#include <linux/types.h>

#include <asm/barrier.h>
#include <asm/fixmap.h>

#ifdef CONFIG_ARM64_EARLY_PGTABLE_ARENA
void *pgtable_map(enum fixed_addresses slot, phys_addr_t phys);
void pgtable_unmap(enum fixed_addresses slot);

phys_addr_t pgtable_arena_alloc(void);
void pgtable_arena_init(void (*map)(phys_addr_t start, phys_addr_t end));
void pgtable_arena_exit(void);

/**
 * pgtable_publish() - Make writes to page tables visible to table walks
 *
 * Call it after creating mappings and before using them: pgtable_unmap() lacks
 * the barriers of clearing a fixmap slot.
 */
static inline void pgtable_publish(void)
{
	dsb(ishst);
	isb();
}
#else
#define pgtable_map(slot, phys)	set_fixmap_offset(slot, phys)
#define pgtable_unmap(slot)	clear_fixmap(slot)

static inline phys_addr_t pgtable_arena_alloc(void)
{
	return 0;
}

static inline void pgtable_arena_init(void (*map)(phys_addr_t start,
						  phys_addr_t end)) { }
static inline void pgtable_arena_exit(void) { }
static inline void pgtable_publish(void) { }
#endif

#endif /* __ASM_PGTABLE_ARENA_H */
