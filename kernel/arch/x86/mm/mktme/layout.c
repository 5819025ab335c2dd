// SPDX-License-Identifier: GPL-2.0-only
/* Number of KeyIDs and size of the direct maps. */
#include <linux/bitfield.h>
#include <linux/log2.h>
#include <linux/minmax.h>

#include "mktme.h"

/**
 * mktme_usable_keyids() - Count KeyIDs other than 0 that TDX does not use.
 * @activate: MSR_IA32_TME_ACTIVATE.
 * @capability: MSR_IA32_TME_CAPABILITY.
 * @partitioning: MSR_IA32_MKTME_KEYID_PARTITIONING; ignored unless @activate
 *	has KeyID bits for TDX.
 *
 * Return: the highest usable KeyID, 0 if there is none.
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
 * mktme_plan() - Divide address space among the direct maps of KeyIDs.
 * @config: has the number of available KeyIDs; receives the number of those
 *	with a direct map, and its size.
 * @wanted: size of physical memory that should be mapped, in bytes.
 * @needed: size that must be mapped: up to the end of memory.
 * @window: virtual address space for all direct maps in bytes, a power of two.
 *
 * Reduces the size below @wanted before giving up KeyIDs, and gives up KeyIDs
 * before memory: none is left if memory extends into the KeyID bits.
 */
void mktme_plan(struct mktme_config *config, unsigned long wanted,
		unsigned long needed, unsigned long window)
{
	unsigned long per_keyid = window >> order_base_2(config->nr_keyids + 1);
	unsigned long size = roundup_pow_of_two(max(needed, 1UL << PUD_SHIFT));

	size = max(size, min(roundup_pow_of_two(wanted), per_keyid));
	/* Physical addresses end below the KeyID bits. */
	size = min(size, BIT(config->keyid_shift));

	config->nr_keyids = size < needed ? 0 :
			    min(config->nr_keyids, window / size - 1);
	config->map_size = size;
}

/**
 * mktme_offset_mask() - Get the mask for offsets into the direct maps.
 * @config: the result of mktme_plan().
 *
 * Return: the mask that turns such an offset into a physical address.
 */
unsigned long mktme_offset_mask(const struct mktme_config *config)
{
	return config->nr_keyids ? config->map_size - 1 : ~0UL;
}
