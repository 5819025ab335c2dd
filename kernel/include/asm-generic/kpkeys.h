/* SPDX-License-Identifier: GPL-2.0-only */
/* For architectures without kpkeys: a single key, which is not enforced. */
#ifndef __ASM_GENERIC_KPKEYS_H
#define __ASM_GENERIC_KPKEYS_H

#include <linux/errno.h>
#include <linux/types.h>

#define KPKEYS_PKEY_DEFAULT	0

static inline bool arch_kpkeys_enabled(void) { return false; }
static inline int arch_max_pkey(void) { return 0; }

#endif /* __ASM_GENERIC_KPKEYS_H */
