// SPDX-License-Identifier: GPL-2.0-only
/* Read clocks and counters around timed regions. */
#include <linux/compiler.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>

#include "bench.h"

#ifdef CONFIG_UML
#include <host_calls.h>
#include <os.h>

/* Counted in arch/um/os-Linux, which cannot include kernel headers. */
unsigned long long host_calls_ns;
unsigned long long host_calls_nr;

/* The clocks of UML resolve to 256 ns and to a jiffy; the host's to 1 ns. */
static u64 clock(void)
{
	return os_nsecs();
}

static void read_host(struct kbench_counters *c)
{
	c->host_ns = READ_ONCE(host_calls_ns);
	c->host_calls = READ_ONCE(host_calls_nr);
}
#else
static u64 clock(void)
{
	return ktime_get_ns();
}

static void read_host(struct kbench_counters *c)
{
	c->host_ns = 0;
	c->host_calls = 0;
}
#endif

#ifdef CONFIG_KPKEYS_STATS
static void read_stats(struct kbench_counters *c)
{
	int i;

	for (i = 0; i < KBENCH_NR_STATS; i++)
		c->stats[i] = kpkeys_stat_read(i);
}

static void sum_stats(struct kbench_run *run, const struct kbench_counters *end)
{
	int i;

	for (i = 0; i < KBENCH_NR_STATS; i++)
		run->sum.stats[i] += end->stats[i] - run->start.stats[i];
}

static void show_stats(struct seq_file *m, const struct kbench_run *run)
{
	int i;

	for (i = 0; i < KBENCH_NR_STATS; i++)
		seq_printf(m, " stat_%s=%llu", kpkeys_stat_names[i],
			   run->sum.stats[i]);
}
#else
static void read_stats(struct kbench_counters *c)
{
}

static void sum_stats(struct kbench_run *run, const struct kbench_counters *end)
{
}

static void show_stats(struct seq_file *m, const struct kbench_run *run)
{
}
#endif

static void read_first(struct kbench_counters *c)
{
	read_stats(c);
	read_host(c);
	barrier();
	c->ns = clock();
	barrier();
}

static void read_last(struct kbench_counters *c)
{
	barrier();
	c->ns = clock();
	barrier();
	read_host(c);
	read_stats(c);
}

/**
 * kbench_begin() - Start a timed region.
 * @run: the sample.
 *
 * Waits for RCU, which would otherwise free older page tables inside the
 * region. The clock is read last here and first in kbench_end().
 *
 * Context: task. Regions do not nest.
 */
void kbench_begin(struct kbench_run *run)
{
	rcu_barrier();
	read_first(&run->start);
}

/**
 * kbench_end() - End a timed region, and add it to the sample.
 * @run: the sample.
 *
 * Context: task.
 */
void kbench_end(struct kbench_run *run)
{
	struct kbench_counters end;

	read_last(&end);
	run->sum.ns += end.ns - run->start.ns;
	run->sum.host_ns += end.host_ns - run->start.host_ns;
	run->sum.host_calls += end.host_calls - run->start.host_calls;
	sum_stats(run, &end);
}

/**
 * kbench_end_freeing() - kbench_end() for an operation that frees page tables.
 * @run: the sample.
 *
 * RCU frees the tables later. That counts for the statistics, but its time is
 * kept apart: with CONFIG_TINY_RCU it is the freeing and two task switches,
 * else almost only waiting.
 *
 * Context: task.
 */
void kbench_end_freeing(struct kbench_run *run)
{
	struct kbench_counters end;

	kbench_end(run);
	read_first(&run->start);
	rcu_barrier();
	read_last(&end);
	run->free_ns += end.ns - run->start.ns;
	sum_stats(run, &end);
}

/**
 * kbench_add_tables() - Count the page tables of an mm, without its PGD.
 * @run: the sample.
 * @mm: the mm.
 *
 * Context: not in a timed region.
 */
void kbench_add_tables(struct kbench_run *run, struct mm_struct *mm)
{
	run->tables += mm_pgtables_bytes(mm) / PAGE_SIZE;
}

/**
 * kbench_show() - Print a sample in one line.
 * @m: output.
 * @run: the sample.
 *
 * Context: task.
 */
void kbench_show(struct seq_file *m, const struct kbench_run *run)
{
	seq_printf(m, "workload=%s size=%lu ops=%u ns=%llu host_ns=%llu host_calls=%llu tables=%lu free_ns=%llu",
		   run->workload->name, run->size, run->ops, run->sum.ns,
		   run->sum.host_ns, run->sum.host_calls, run->tables,
		   run->free_ns);
	show_stats(m, run);
	seq_putc(m, '\n');
}
