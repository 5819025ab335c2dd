/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is known of each page. Private to arch/x86/mm/mktme.
 */
#ifndef __X86_MM_MKTME_PAGES_H
#define __X86_MM_MKTME_PAGES_H

#include <linux/percpu.h>
#include <linux/types.h>

/**
 * struct mktme_page - what is known of a page, in its page_ext.
 * @keyid: its KeyID.
 */
struct mktme_page {
	u8 keyid;
};

/* Pages that were flushed from the caches, by what for. */
enum mktme_stat {
	MKTME_STAT_ALLOCATED,
	MKTME_STAT_FREED,
	MKTME_NR_STATS
};

#ifdef CONFIG_X86_MKTME_DEBUG
DECLARE_PER_CPU(unsigned long[MKTME_NR_STATS], mktme_stats);

static inline void mktme_count(enum mktme_stat stat, unsigned int nr)
{
	this_cpu_add(mktme_stats[stat], nr);
}

void mktme_debug_change(struct mktme_page *info, unsigned long pfn,
			unsigned int to, bool flushed);
#else
static inline void mktme_count(enum mktme_stat stat, unsigned int nr) { }

static inline void mktme_debug_change(struct mktme_page *info, unsigned long pfn,
				      unsigned int to, bool flushed) { }
#endif

#endif /* __X86_MM_MKTME_PAGES_H */
