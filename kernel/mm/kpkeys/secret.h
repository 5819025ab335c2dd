/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of secrets, for the checker and for tests. Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_SECRET_H
#define __MM_KPKEYS_SECRET_H

#include <linux/minmax.h>

#include "pool.h"

/* The longest secret needs nine pages of 4 KB. */
#define KPKEYS_SECRETS_ORDER	MIN(4, KPKEYS_BLOCK_ORDER)

#ifdef CONFIG_KPKEYS_HARDENED_SECRET
const void *kpkeys_secrets_next(const void *last, unsigned int *nr);
#else
static inline const void *kpkeys_secrets_next(const void *last, unsigned int *nr)
{
	return NULL;
}
#endif

#endif /* __MM_KPKEYS_SECRET_H */
