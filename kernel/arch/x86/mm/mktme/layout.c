// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many KeyIDs there are, and how large the direct maps can be.
 */
#include <linux/bitfield.h>
#include <linux/log2.h>
#include <linux/minmax.h>

#include "mktme.h"

/**
 * mktme_usable_keyids() - Count the KeyIDs that are neither 0 nor TDX's.
 * @activate: MSR_IA32_TME_ACTIVATE.
 * @capability: MSR_IA32_TME_CAPABILITY.
 * @partitioning: MSR_IA32_MKTME_KEYID_PARTITIONING, which is looked at only if
 *	@activate says that TDX has some.
 *
 * Return: the highest KeyID that can be used, which may be 0.
 */
unsigned int mktme_usable_keyids(u64 activate, u64 capability, u64 partitioning)
{
	u64 nr = BIT(FIELD_GET(TME_ACTIVATE_KEYID_BITS, activate)) - 1;
	u64 keys = FIELD_GET(TME_CAPABILITY_MAX_KEYS, capability);
	u64 not_tdx = FIELD_GET(MKTME_KEYIDS_NOT_TDX, partitioning);

	nr = min3(nr, keys, MKTME_MAX_KEYIDS);
	if (activate & TME_ACTIVATE_TDX_BITS)
		nr = min(nr, not_tdx);
	return nr;
}

/**
 * mktme_plan() - Divide the room for direct maps among the KeyIDs.
 * @config: with the KeyIDs that there are; gets those that have a direct map,
 *	and its size.
 * @wanted: bytes of physical addresses that should be mapped.
 * @needed: bytes of them that have to be: up to where memory ends.
 * @window: bytes of virtual addresses there are for all of them, a power of two.
 *
 * Rather gives up what is wanted than a KeyID, and rather KeyIDs than memory:
 * none is left if memory reaches into their bits.
 */
void mktme_plan(struct mktme_config *config, unsigned long wanted,
		unsigned long needed, unsigned long window)
{
	unsigned long per_keyid = window >> order_base_2(config->nr_keyids + 1);
	unsigned long size = roundup_pow_of_two(max(needed, 1UL << PUD_SHIFT));

	size = max(size, min(roundup_pow_of_two(wanted), per_keyid));
	/* There are no addresses beyond the KeyIDs' bits. */
	size = min(size, BIT(config->keyid_shift));

	config->nr_keyids = size < needed ? 0 :
			    min(config->nr_keyids, window / size - 1);
	config->map_size = size;
}

/**
 * mktme_offset_mask() - What is left of an offset into the direct maps.
 * @config: the result of mktme_plan().
 *
 * Return: a mask that makes a physical address of it.
 */
unsigned long mktme_offset_mask(const struct mktme_config *config)
{
	return config->nr_keyids ? config->map_size - 1 : ~0UL;
}
