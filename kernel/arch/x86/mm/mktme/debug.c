// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watching how pages change their KeyIDs, and mistakes to be noticed.
 *
 * Emulated caches are coherent. So what a line that was not flushed would do is
 * done here, a little later: it is written back, over what is there by then.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "mktme.h"
#include "pages.h"

#define LINE_SIZE	64
#define LATE_MS		20
#define MAX_LATE	64

/* Bits of enum mktme_bug. */
unsigned long mktme_bugs;

DEFINE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);

/* === Lines that are written back late =================================== */

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

/* Not over what the kernel may keep there, as a page that became free. */
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
 * mktme_debug_change() - See whether a page may change its KeyID.
 * @info: of the page, before it changes.
 * @pfn: its frame.
 * @to: the KeyID it gets.
 * @flushed: whether no lines of it are cached under the one it has.
 *
 * Context: any.
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

/* === Files ============================================================== */

static int stats_show(struct seq_file *m, void *v)
{
	static const char * const names[] = {
		[MKTME_STAT_ALLOCATED] = "flushed_for_keyid",
		[MKTME_STAT_FREED] = "flushed_when_freed",
	};
	unsigned int i;
	int cpu;

	for (i = 0; i < MKTME_NR_STATS; i++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu(mktme_stats[i], cpu);
		seq_printf(m, "%s %lu\n", names[i], sum);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* "ADDRESS LENGTH KEYID": memory of the process that writes it. */
static ssize_t encrypt_write(struct file *file, const char __user *from,
			     size_t size, loff_t *pos)
{
	unsigned long addr, len;
	unsigned int keyid;
	char text[64];
	int err;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	text[size] = '\0';
	if (sscanf(text, "%lx %lx %u", &addr, &len, &keyid) != 3)
		return -EINVAL;

	err = mktme_encrypt_range(addr, len, keyid);
	return err ? : size;
}

static const struct file_operations encrypt_fops = {
	.open = simple_open,
	.write = encrypt_write,
	.llseek = noop_llseek,
};

static int __init mktme_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("mktme", NULL);

	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
	debugfs_create_file("encrypt", 0200, dir, NULL, &encrypt_fops);
	debugfs_create_ulong("bugs", 0600, dir, &mktme_bugs);
	return 0;
}
late_initcall(mktme_debug_init);
