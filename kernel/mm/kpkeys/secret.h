/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of secrets, for the checker and for tests. Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_SECRET_H
#define __MM_KPKEYS_SECRET_H

#include <linux/list.h>
#include <linux/minmax.h>

#include "pool.h"

/* The longest secret needs nine pages of 4 KB. */
#define KPKEYS_SECRETS_ORDER	MIN(4, KPKEYS_BLOCK_ORDER)

/**
 * struct kpkeys_secret_run - pages of user space that got the key together.
 * @list: in the runs of a file.
 * @page: the first page.
 * @order: their number, as a power of two.
 */
struct kpkeys_secret_run {
	struct list_head list;
	struct page *page;
	unsigned int order;
};

#ifdef CONFIG_KPKEYS_HARDENED_SECRET
const void *kpkeys_secrets_next(const void *last, unsigned int *nr);
void kpkeys_secrets_clear(void *start, unsigned int nr);
bool kpkeys_has_secret_pages(const void *start, size_t size);
bool kpkeys_secret_may_copy(const void *other, size_t size);
void kpkeys_secret_mark(struct page *page, unsigned int nr);
#else
static inline bool kpkeys_has_secret_pages(const void *start, size_t size)
{
	return false;
}

static inline const void *kpkeys_secrets_next(const void *last, unsigned int *nr)
{
	return NULL;
}
#endif

#endif /* __MM_KPKEYS_SECRET_H */
