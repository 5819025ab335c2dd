// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deliberate bugs, for tests to see that they are noticed. Written to
 * mktme/bugs in debugfs, as bits of enum mktme_bug.
 *
 * Emulated caches are coherent. So the effect of a cache line that was not
 * flushed is simulated: after a delay, the line is written over the current
 * contents.
 */
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#define LINE_SIZE	64
#define LATE_MS		20
#define MAX_LATE	64

unsigned long mktme_bugs;

struct late_line {
	unsigned long pfn;
	unsigned int keyid;
};

static struct late_line late[MAX_LATE];
static unsigned int nr_late;
static DEFINE_SPINLOCK(late_lock);

static void mktme_write_late(struct work_struct *work)
{
	unsigned int i;

	guard(spinlock_irqsave)(&late_lock);
	for (i = 0; i < nr_late; i++)
		memset(mktme_va(PFN_PHYS(late[i].pfn), late[i].keyid), 0xdb,
		       LINE_SIZE);
	nr_late = 0;
}

static DECLARE_DELAYED_WORK(late_work, mktme_write_late);

/* Skip free pages, because the kernel may already use them without KeyID. */
static void mktme_write_back_late(unsigned long pfn, unsigned int keyid)
{
	if (!keyid)
		return;
	guard(spinlock_irqsave)(&late_lock);
	if (nr_late < MAX_LATE)
		late[nr_late++] = (struct late_line){ pfn, keyid };
	schedule_delayed_work(&late_work, msecs_to_jiffies(LATE_MS));
}

/**
 * mktme_bug_unflushed() - Notice that a page was not flushed.
 * @pfn: its frame.
 * @from: the KeyID under which the cache should have been flushed.
 * @to: the new KeyID.
 */
void mktme_bug_unflushed(unsigned long pfn, unsigned int from, unsigned int to)
{
	WARN_ONCE(1, "mktme: page %#lx goes from KeyID %u to %u, and was not flushed\n",
		  pfn, from, to);
	mktme_write_back_late(pfn, to);
}

static int __init mktme_bugs_init(void)
{
	struct dentry *dir = debugfs_lookup("mktme", NULL);

	debugfs_create_ulong("bugs", 0600, dir, &mktme_bugs);
	dput(dir);
	return 0;
}
late_initcall_sync(mktme_bugs_init);
