// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checking KeyID changes of pages, and injecting bugs.
 *
 * Emulated caches are coherent. So the effect of a cache line that was not
 * flushed is simulated: after a delay, the line is written over the current
 * contents.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/mktme_pool.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "mktme.h"
#include "pages.h"

#define LINE_SIZE	64
#define LATE_MS		20
#define MAX_LATE	64

/* Bits of enum mktme_bug. */
unsigned long mktme_bugs;

DEFINE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);
/* Size of the largest batch returned from the pool. Updates may race. */
unsigned long mktme_most_returned;

/* === Late write-back of cache lines ===================================== */

struct late_line {
	unsigned long pfn;
	unsigned int keyid;
};

static struct late_line late[MAX_LATE];
static unsigned int nr_late;
static DEFINE_SPINLOCK(late_lock);

static void write_late(struct work_struct *work)
{
	unsigned int i;

	guard(spinlock_irqsave)(&late_lock);
	for (i = 0; i < nr_late; i++)
		memset(mktme_va(PFN_PHYS(late[i].pfn), late[i].keyid), 0xdb,
		       LINE_SIZE);
	nr_late = 0;
}

static DECLARE_DELAYED_WORK(late_work, write_late);

/* Skip free pages, because the kernel may already use them without KeyID. */
static void write_back_late(unsigned long pfn, unsigned int keyid)
{
	if (!keyid)
		return;
	guard(spinlock_irqsave)(&late_lock);
	if (nr_late < MAX_LATE)
		late[nr_late++] = (struct late_line){ pfn, keyid };
	schedule_delayed_work(&late_work, msecs_to_jiffies(LATE_MS));
}

/**
 * mktme_debug_change() - Check a change of a page's KeyID.
 * @info: data of the page, before the change.
 * @pfn: its frame.
 * @to: the new KeyID.
 * @flushed: whether the cache was flushed under the old KeyID.
 */
void mktme_debug_change(struct mktme_page *info, unsigned long pfn,
			unsigned int to, bool flushed)
{
	WARN_ONCE(!to == !info->keyid,
		  "mktme: page %#lx goes from KeyID %u to %u\n", pfn,
		  info->keyid, to);
	if (WARN_ONCE(!flushed, "mktme: page %#lx goes from KeyID %u to %u, and was not flushed\n",
		      pfn, info->keyid, to))
		write_back_late(pfn, to);
}

/* === All anonymous memory =============================================== */

static unsigned int anon_wanted __initdata;
static unsigned int anon_keyid __ro_after_init;

unsigned int mktme_anon_keyid(void)
{
	return anon_keyid;
}

static int __init parse_anon(char *text)
{
	return text ? kstrtouint(text, 10, &anon_wanted) : -EINVAL;
}
early_param("mktme_anon", parse_anon);

/* Runs before there are processes. */
static int __init mktme_anon_init(void)
{
	int keyid = 0;

	if (!anon_wanted)
		return 0;
	/* Lower KeyIDs stay reserved and unused. */
	while (keyid >= 0 && keyid < anon_wanted)
		keyid = mktme_nr_keyids() ? mktme_reserve_keyid() : -ENOSPC;
	if (keyid < 0) {
		pr_err("mktme_anon=%u: there is no such KeyID\n", anon_wanted);
		return 0;
	}
	anon_keyid = keyid;
	pr_info("all anonymous memory is under KeyID %u\n", anon_keyid);
	return 0;
}
core_initcall(mktme_anon_init);

/* === Files ============================================================== */

static int stats_show(struct seq_file *m, void *v)
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
DEFINE_SHOW_ATTRIBUTE(stats);

static int __init mktme_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("mktme", NULL);

	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
	debugfs_create_ulong("bugs", 0600, dir, &mktme_bugs);
	return 0;
}
late_initcall(mktme_debug_init);
