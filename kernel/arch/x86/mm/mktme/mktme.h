/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Private to arch/x86/mm/mktme.
 */
#ifndef __X86_MM_MKTME_H
#define __X86_MM_MKTME_H

#include <linux/types.h>

#include <asm/mktme.h>

/* MSR_IA32_TME_ACTIVATE */
#define TME_ACTIVATE_LOCKED	BIT_ULL(0)
#define TME_ACTIVATE_ENABLED	BIT_ULL(1)
#define TME_ACTIVATE_KEYID_BITS	GENMASK_ULL(35, 32)
#define TME_ACTIVATE_TDX_BITS	GENMASK_ULL(39, 36)

/* MSR_IA32_TME_CAPABILITY */
#define TME_CAPABILITY_MAX_KEYS	GENMASK_ULL(50, 36)

/* MSR_IA32_MKTME_KEYID_PARTITIONING */
#define MKTME_KEYIDS_NOT_TDX	GENMASK_ULL(31, 0)

/**
 * struct mktme_ops - what the hardware does, or something in its place.
 * @name: for people.
 * @read_msr: the value of an MSR. Any context.
 * @flush: writes back and forgets what is cached of memory that is mapped at an
 *	address of a direct map; what is there is of no use any more. Any context.
 */
struct mktme_ops {
	const char *name;
	u64 (*read_msr)(u32 msr);
	void (*flush)(void *addr, size_t size);
};

extern const struct mktme_ops *mktme_ops;

/* === core.c ============================================================= */

void mktme_off(const char *why);

/* === layout.c: arithmetic, without looking at the machine =============== */

unsigned int mktme_usable_keyids(u64 activate, u64 capability, u64 partitioning);
void mktme_plan(struct mktme_config *config, unsigned long wanted,
		unsigned long needed, unsigned long window);
unsigned long mktme_offset_mask(const struct mktme_config *config);

#endif /* __X86_MM_MKTME_H */
