/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an architecture without kpkeys gets: one key, which is not enforced.
 */
#ifndef __ASM_GENERIC_KPKEYS_H
#define __ASM_GENERIC_KPKEYS_H

#include <linux/errno.h>
#include <linux/types.h>

#define KPKEYS_PKEY_DEFAULT	0

static inline bool arch_kpkeys_enabled(void) { return false; }
static inline int arch_max_pkey(void) { return 0; }

#endif /* __ASM_GENERIC_KPKEYS_H */
