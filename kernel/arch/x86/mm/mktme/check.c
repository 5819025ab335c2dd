// SPDX-License-Identifier: GPL-2.0-only
/* Counting flushes, and checking changes of the KeyID of pages. */
#include <linux/kernel.h>
#include <linux/mktme.h>
#include <linux/percpu.h>

#include "pages.h"

DEFINE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);
/* Size of the largest batch returned from the pool. Updates may race. */
unsigned long mktme_most_returned;

/**
 * mktme_debug_change() - Check a change of a page's KeyID.
 * @info: data of the page, before the change.
 * @pfn: its frame.
 * @to: the new KeyID.
 */
void mktme_debug_change(const struct mktme_page *info, unsigned long pfn,
			unsigned int to)
{
	WARN_ONCE(!to == !info->keyid,
		  "mktme: page %#lx goes from KeyID %u to %u\n", pfn,
		  info->keyid, to);
}
