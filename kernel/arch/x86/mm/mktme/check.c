// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counting flushes, checking KeyID changes of pages, and the effect of bugs.
 *
 * Emulated caches are coherent. So the effect of a cache line that was not
 * flushed is simulated: after a delay, the line is written over the current
 * contents.
 */
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/percpu.h>
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
