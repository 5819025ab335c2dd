// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: check the restricted direct map against pageblocks.
 *
 * In debugfs as asi/audit, with counters in asi/stats and asi/switches.
 */
#include <linux/asi.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/seq_file.h>

#include "asi.h"

static const char * const event_names[ASI_NR_EVENTS] = {
	[ASI_TO_SENSITIVE]	= "to_sensitive",
	[ASI_TO_ORDINARY]	= "to_ordinary",
	[ASI_FLUSHES]		= "flushes",
	[ASI_REFUSED]		= "refused",
	[ASI_EXHAUSTED]		= "exhausted",
};

static const char * const switch_names[ASI_NR_SWITCHES] = {
	[ASI_ENTER]		= "enter",
	[ASI_REENTER]		= "reenter",
	[ASI_SWITCH_MM]		= "switch_mm",
	[ASI_EXIT_FAULT]	= "exit_fault",
	[ASI_EXIT_SWITCH_MM]	= "exit_switch_mm",
	[ASI_EXIT_TEMPORARY_MM]	= "exit_temporary_mm",
	[ASI_EXIT_KEXEC]	= "exit_kexec",
	[ASI_EXIT_SUSPEND]	= "exit_suspend",
	[ASI_IBPB]		= "ibpb",
	[ASI_VERW]		= "verw",
	[ASI_L1D]		= "l1d",
	[ASI_EPHMAP]		= "ephmap",
	[ASI_EPHMAP_PAGE]	= "ephmap_page",
	[ASI_UNRESTRICTED]	= "unrestricted",
};

static void asi_audit_block(struct page *page, struct asi_audit *audit)
{
	unsigned long addr = (unsigned long)page_address(page);
	bool sensitive;
	enum asi_entry entry = asi_look(page, addr, &sensitive);

	if (sensitive) {
		audit->sensitive++;
		audit->leaks += entry != ASI_UNMAPPED;
		return;
	}
	audit->ordinary++;
	audit->missing += entry == ASI_UNMAPPED;
	audit->stale += entry == ASI_STALE;
}

/**
 * asi_audit() - Compare all pageblocks with the restricted direct map.
 * @audit: receives the result.
 *
 * Context: may sleep.
 */
void asi_audit(struct asi_audit *audit)
{
	struct zone *zone;

	memset(audit, 0, sizeof(*audit));
	if (!asi_enabled())
		return;

	get_online_mems();
	for_each_populated_zone(zone) {
		unsigned long pfn = ALIGN_DOWN(zone->zone_start_pfn,
					       PTRS_PER_PMD);

		for (; pfn < zone_end_pfn(zone); pfn += PTRS_PER_PMD) {
			struct page *page = pfn_to_online_page(pfn);

			if (page && page_zone(page) == zone)
				asi_audit_block(page, audit);
			cond_resched();
		}
	}
	put_online_mems();
	audit->aliases = arch_asi_aliases();
}

static int asi_audit_show(struct seq_file *m, void *unused)
{
	struct asi_audit audit;

	asi_audit(&audit);
	seq_printf(m, "sensitive %lu\nordinary %lu\nleaks %lu\nmissing %lu\nstale %lu\naliases %lu\n",
		   audit.sensitive, audit.ordinary, audit.leaks, audit.missing,
		   audit.stale, audit.aliases);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(asi_audit);

static int asi_events_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < ASI_NR_EVENTS; i++)
		seq_printf(m, "%s %ld\n", event_names[i], asi_event_read(i));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(asi_events);

/* Sums over CPUs, which keep counting meanwhile. */
static int asi_switches_show(struct seq_file *m, void *unused)
{
	int i, cpu;

	for (i = 0; i < ASI_NR_SWITCHES; i++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(asi_switches, cpu)[i]);
		seq_printf(m, "%s %lu\n", switch_names[i], sum);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(asi_switches);

static int __init asi_debugfs_init(void)
{
	struct dentry *dir;

	if (!asi_enabled())
		return 0;

	dir = debugfs_create_dir("asi", NULL);
	debugfs_create_file("audit", 0400, dir, NULL, &asi_audit_fops);
	debugfs_create_file("stats", 0400, dir, NULL, &asi_events_fops);
	debugfs_create_file("switches", 0400, dir, NULL, &asi_switches_fops);
	return 0;
}
late_initcall(asi_debugfs_init);
