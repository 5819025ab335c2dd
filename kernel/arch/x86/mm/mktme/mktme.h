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
#define TME_ACTIVATE_ALGORITHMS	GENMASK_ULL(63, 48)

/* MSR_IA32_TME_CAPABILITY */
#define TME_CAPABILITY_MAX_KEYS	GENMASK_ULL(50, 36)

/* MSR_IA32_MKTME_KEYID_PARTITIONING */
#define MKTME_KEYIDS_NOT_TDX	GENMASK_ULL(31, 0)

/* Leaf MKTME_KEY_PROGRAM of PCONFIG: its number, and its commands. */
#define MKTME_KEY_PROGRAM	0
#define MKTME_SET_KEY_DIRECT	0
#define MKTME_SET_KEY_RANDOM	1
#define MKTME_CLEAR_KEY		2

#define MKTME_PCONFIG_COMMAND	GENMASK(7, 0)
#define MKTME_PCONFIG_ALGORITHM	GENMASK(23, 8)

/* Its error codes. */
#define MKTME_ENTROPY_ERROR	2
#define MKTME_DEVICE_BUSY	5

/**
 * struct mktme_pconfig - operand of PCONFIG, as the CPU defines it.
 * @keyid: the KeyID.
 * @control: command and algorithm.
 * @reserved: 0.
 * @data_key: key for data.
 * @tweak_key: key for addresses.
 * @padding: makes kzalloc() align it.
 */
struct mktme_pconfig {
	u16 keyid;
	u32 control;
	u8 reserved[58];
	u8 data_key[64];
	u8 tweak_key[64];
	u8 padding[64];
} __packed __aligned(256);

/**
 * struct mktme_ops - hardware operations, or their emulation.
 * @name: for messages.
 * @read_msr: read an MSR. Any context.
 * @flush: write back and invalidate the cache of a range of a direct map, the
 *	contents of which may be lost. Any context.
 * @pconfig: execute a command on the package of this CPU: 0, -EBUSY if it may
 *	be retried, -EIO. Any context.
 */
struct mktme_ops {
	const char *name;
	u64 (*read_msr)(u32 msr);
	void (*flush)(void *addr, size_t size);
	int (*pconfig)(const struct mktme_pconfig *pconfig);
};

extern const struct mktme_ops *mktme_ops;

/* === core.c ============================================================= */

void mktme_off(const char *why);
void mktme_activate(void);

/* === mms.c: processes with memory under KeyIDs ========================= */

void mktme_unnote_mm(struct mm_struct *mm, unsigned int keyid);
struct mm_struct *mktme_next_mm(struct mm_struct *last, unsigned int keyid);

/* === layout.c: arithmetic, independent of the machine =================== */

unsigned int mktme_usable_keyids(u64 activate, u64 capability, u64 partitioning);
void mktme_plan(struct mktme_config *config, unsigned long wanted,
		unsigned long needed, unsigned long window);
unsigned long mktme_offset_mask(const struct mktme_config *config);

#endif /* __X86_MM_MKTME_H */
