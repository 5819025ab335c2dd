/* SPDX-License-Identifier: GPL-2.0-only */
/* Bugs of memory encryption that tests inject, to see that they are noticed. */
#ifndef _LINUX_MKTME_BUGS_H
#define _LINUX_MKTME_BUGS_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

enum mktme_bug {
	MKTME_BUG_ALLOC_FLUSH,	/* no cache flush when a page gets a KeyID */
	MKTME_BUG_FREE_FLUSH,	/* no cache flush when a page loses it */
	MKTME_BUG_MIGRATION,	/* migration does not copy the KeyID */
	MKTME_BUG_ZEROPAGE,	/* zero page mapped under a KeyID */
	MKTME_BUG_ENTRY,	/* entries of an encrypted VMA lack its KeyID */
	MKTME_BUG_FORGET,	/* a key is cleared while pages use it */
	MKTME_BUG_POOL,		/* the pool returns pages of another KeyID */
	MKTME_NR_BUGS
};

#ifdef CONFIG_X86_MKTME_DEBUG
extern unsigned long mktme_bugs;

static inline bool mktme_bug(enum mktme_bug bug)
{
	return READ_ONCE(mktme_bugs) & BIT(bug);
}

void mktme_bug_unflushed(unsigned long pfn, unsigned int from, unsigned int to);
#else
static inline bool mktme_bug(enum mktme_bug bug)
{
	return false;
}

static inline void mktme_bug_unflushed(unsigned long pfn, unsigned int from,
				       unsigned int to) { }
#endif

#endif /* _LINUX_MKTME_BUGS_H */
