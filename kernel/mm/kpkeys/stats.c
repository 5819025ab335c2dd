// SPDX-License-Identifier: GPL-2.0-only
/*
 * Per-CPU statistics, in debugfs as kpkeys/stats.
 */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>

#include "kpkeys.h"

DEFINE_PER_CPU(unsigned long [KPKEYS_NR_STATS], kpkeys_stats);

const char * const kpkeys_stat_names[KPKEYS_NR_STATS] = {
	[KPKEYS_STAT_SWITCHES]		= "switches_pgtables",
	[KPKEYS_STAT_NESTED]		= "guards_nested",
	[KPKEYS_STAT_TAG_CALLS]		= "tag_calls",
	[KPKEYS_STAT_PTPS_TAGGED]	= "ptps_tagged",
	[KPKEYS_STAT_PTPS_UNTAGGED]	= "ptps_untagged",
	[KPKEYS_STAT_TAG_FAILURES]	= "tag_failures",
	[KPKEYS_STAT_UNTAG_FAILURES]	= "untag_failures",
	[KPKEYS_STAT_VIOLATIONS]	= "violations",
};

/**
 * kpkeys_count_switch() - Count a kpkeys_set_level().
 * @nested: the level was already raised.
 *
 * Out of line, because kpkeys_set_level() is inlined into every page table
 * helper.
 */
void kpkeys_count_switch(bool nested)
{
	if (!nested) {
		kpkeys_stat_add(KPKEYS_STAT_SWITCHES, 1);
		return;
	}

	/* At the raised level, the end of counting must not reschedule. */
	preempt_disable_notrace();
	kpkeys_stat_add(KPKEYS_STAT_NESTED, 1);
	preempt_enable_no_resched_notrace();
}
EXPORT_SYMBOL(kpkeys_count_switch);

/**
 * kpkeys_stat_read() - Sum a statistic over all CPUs.
 * @stat: the statistic.
 *
 * CPUs keep counting meanwhile.
 *
 * Return: the number of events since boot.
 */
unsigned long kpkeys_stat_read(enum kpkeys_stat stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(kpkeys_stats[stat], cpu);
	return sum;
}

static int kpkeys_stats_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < KPKEYS_NR_STATS; i++)
		seq_printf(m, "%s %lu\n", kpkeys_stat_names[i],
			   kpkeys_stat_read(i));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kpkeys_stats);

static int __init kpkeys_stats_init(void)
{
	debugfs_create_file("stats", 0400, kpkeys_debugfs_dir(), NULL,
			    &kpkeys_stats_fops);
	return 0;
}
late_initcall(kpkeys_stats_init);
