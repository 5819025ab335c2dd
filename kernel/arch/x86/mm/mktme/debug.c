// SPDX-License-Identifier: GPL-2.0-only
/* Counters of memory encryption, in debugfs. */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>

static int mktme_counters_show(struct seq_file *m, void *v)
{
	static const char * const names[] = {
		[MKTME_STAT_ALLOCATED] = "flushed_for_keyid",
		[MKTME_STAT_FREED] = "flushed_when_freed",
		[MKTME_STAT_PROGRAMMED] = "programmed",
		[MKTME_STAT_RANGES] = "flushed_ranges",
		[MKTME_STAT_WHOLE] = "flushed_all",
		[MKTME_STAT_HITS] = "pool_hits",
		[MKTME_STAT_MISSES] = "pool_misses",
		[MKTME_STAT_REFUSED] = "pool_refused",
		[MKTME_STAT_RETURNED] = "pool_returned",
		[MKTME_STAT_BATCHES] = "pool_batches",
	};
	unsigned int i;
	int cpu;

	for (i = 0; i < MKTME_NR_STATS; i++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu(mktme_stats[i], cpu);
		seq_printf(m, "%s %lu\n", names[i], sum);
	}
	seq_printf(m, "pool_most %lu\n", READ_ONCE(mktme_most_returned));
	seq_printf(m, "pool_pages %lu\n", mktme_pool_pages());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mktme_counters);

static int __init mktme_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("mktme", NULL);

	debugfs_create_file("stats", 0400, dir, NULL, &mktme_counters_fops);
	return 0;
}
late_initcall(mktme_debug_init);
