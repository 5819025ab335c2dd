// SPDX-License-Identifier: GPL-2.0-only
#define pr_fmt(fmt) "linear map: " fmt

#include <linux/init.h>
#include <linux/printk.h>

#include <asm/barrier.h>
#include <asm/linear_map_stats.h>
#include <asm/sysreg.h>

struct linear_map_stats linear_map_stats;

static u64 start_ticks __initdata;

/**
 * linear_map_stats_start() - Reset the counters
 *
 * Context: Boot, before any other CPU.
 */
void __init linear_map_stats_start(void)
{
	linear_map_stats = (struct linear_map_stats){ };
	isb();
	start_ticks = read_sysreg(cntvct_el0);
}

/**
 * linear_map_stats_report() - Print the counters in one line
 *
 * Ticks are those of the architected counter. An emulator may derive them from
 * the number of executed instructions.
 *
 * Context: Boot, before any other CPU.
 */
void __init linear_map_stats_report(void)
{
	u64 ticks;

	isb();
	ticks = read_sysreg(cntvct_el0) - start_ticks;
	pr_info("%lu tables, %lu fixmap slots set, %lu cleared, %llu ticks at %llu Hz\n",
		linear_map_stats.tables, linear_map_stats.fixmap_set,
		linear_map_stats.fixmap_cleared, ticks,
		(u64)read_sysreg(cntfrq_el0));
}
