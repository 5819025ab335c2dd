/* SPDX-License-Identifier: GPL-2.0-only */
/* Per-page data. Private to arch/x86/mm/mktme. */
#ifndef __X86_MM_MKTME_PAGES_H
#define __X86_MM_MKTME_PAGES_H

#include <linux/types.h>

/**
 * struct mktme_page - data of a page, in its page_ext.
 * @keyid: its KeyID.
 */
struct mktme_page {
	u8 keyid;
};

#ifdef CONFIG_X86_MKTME_DEBUG
void mktme_debug_change(const struct mktme_page *info, unsigned long pfn,
			unsigned int to);
#else
static inline void mktme_debug_change(const struct mktme_page *info,
				      unsigned long pfn, unsigned int to) { }
#endif

#endif /* __X86_MM_MKTME_PAGES_H */
