/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_KPKEYS_MOCK_H
#define __ASM_KPKEYS_MOCK_H

#include <linux/jump_label.h>
#include <linux/types.h>

#ifdef CONFIG_ARM64_KPKEYS_MOCK
DECLARE_STATIC_KEY_FALSE(arm64_kpkeys_mock_key);

static __always_inline bool arm64_kpkeys_mock(void)
{
	return static_branch_unlikely(&arm64_kpkeys_mock_key);
}

void arm64_kpkeys_mock_init(void);
#else
static __always_inline bool arm64_kpkeys_mock(void) { return false; }
static inline void arm64_kpkeys_mock_init(void) { }
#endif

#endif /* __ASM_KPKEYS_MOCK_H */
