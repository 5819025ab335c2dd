/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_LINEAR_MAP_STATS_H
#define __ASM_LINEAR_MAP_STATS_H

#include <linux/kconfig.h>
#include <linux/types.h>

/**
 * struct linear_map_stats - the cost of writing to page tables
 * @tables: page tables allocated while the linear map is created
 * @fixmap_set: fixmap slots pointed at a page table
 * @fixmap_cleared: slots cleared again, with a broadcast TLB invalidation
 */
struct linear_map_stats {
	unsigned long tables;
	unsigned long fixmap_set;
	unsigned long fixmap_cleared;
};

extern struct linear_map_stats linear_map_stats;

/**
 * linear_map_count() - Increment a counter
 * @counter: a member of linear_map_stats
 *
 * Not atomic: counts may be lost after boot.
 */
static inline void linear_map_count(unsigned long *counter)
{
	if (IS_ENABLED(CONFIG_ARM64_LINEAR_MAP_STATS))
		(*counter)++;
}

#ifdef CONFIG_ARM64_LINEAR_MAP_STATS
void linear_map_stats_start(void);
void linear_map_stats_report(void);
#else
static inline void linear_map_stats_start(void) { }
static inline void linear_map_stats_report(void) { }
#endif

#endif /* __ASM_LINEAR_MAP_STATS_H */
