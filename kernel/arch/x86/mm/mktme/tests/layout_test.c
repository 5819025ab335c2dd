// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of KeyID and direct map arithmetic, for machines of all sizes. */
#include <linux/bitfield.h>
#include <linux/log2.h>
#include <linux/sizes.h>

#include <kunit/test.h>

#include "../mktme.h"

/* Address space for direct maps with 4 and 5 levels of page tables. */
static const unsigned long windows[] = { SZ_64T, BIT(52) };

static u64 activate_of(unsigned int bits, unsigned int tdx_bits)
{
	return TME_ACTIVATE_LOCKED | TME_ACTIVATE_ENABLED |
	       FIELD_PREP(TME_ACTIVATE_KEYID_BITS, bits) |
	       FIELD_PREP(TME_ACTIVATE_TDX_BITS, tdx_bits);
}

static u64 capability_of(unsigned int keys)
{
	return FIELD_PREP(TME_CAPABILITY_MAX_KEYS, keys);
}

static void keyids_are_counted(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, mktme_usable_keyids(activate_of(0, 0),
						     capability_of(63), 0));
	KUNIT_EXPECT_EQ(test, 3, mktme_usable_keyids(activate_of(2, 0),
						     capability_of(63), 0));
	/* The CPU has fewer keys than KeyID bits allow. */
	KUNIT_EXPECT_EQ(test, 5, mktme_usable_keyids(activate_of(6, 0),
						     capability_of(5), 0));
	/* TDX has some of the KeyIDs, or all. */
	KUNIT_EXPECT_EQ(test, 31, mktme_usable_keyids(activate_of(6, 5),
						      capability_of(63), 31));
	KUNIT_EXPECT_EQ(test, 0, mktme_usable_keyids(activate_of(6, 6),
						     capability_of(63), 0));
	/* Without KeyID bits for TDX, the partitioning is ignored. */
	KUNIT_EXPECT_EQ(test, 63, mktme_usable_keyids(activate_of(6, 0),
						      capability_of(63), 1));
	KUNIT_EXPECT_EQ(test, MKTME_MAX_KEYIDS,
			mktme_usable_keyids(activate_of(15, 0),
					    capability_of(32767), 0));
}

/* Direct maps must not overlap, and addresses must convert back. */
static void check_plan(struct kunit *test, unsigned int nr, unsigned int shift,
		       unsigned long memory, unsigned long window)
{
	struct mktme_config config = { .nr_keyids = nr, .keyid_shift = shift };
	unsigned long mask, last;
	unsigned int keyid;

	mktme_plan(&config, window, memory, window);
	mask = mktme_offset_mask(&config);

	KUNIT_ASSERT_LE(test, config.nr_keyids, nr);
	if (!config.nr_keyids) {
		/* Allowed only if there is no room. */
		KUNIT_EXPECT_GT(test, 2 * roundup_pow_of_two(memory), window);
		KUNIT_EXPECT_EQ(test, ~0UL, mask);
		return;
	}
	KUNIT_EXPECT_TRUE(test, is_power_of_2(config.map_size));
	KUNIT_EXPECT_GE(test, config.map_size, memory);
	KUNIT_EXPECT_LE(test, config.map_size, BIT(shift));
	KUNIT_EXPECT_LE(test, config.map_size * (config.nr_keyids + 1), window);
	/* KeyIDs are given up only for lack of room. */
	if (config.nr_keyids < nr)
		KUNIT_EXPECT_GT(test,
				roundup_pow_of_two(memory) * (config.nr_keyids + 2),
				window);

	last = memory - 1;
	for (keyid = 0; keyid <= config.nr_keyids; keyid++) {
		unsigned long base = keyid * config.map_size;

		KUNIT_ASSERT_EQ(test, 0, base & mask);
		KUNIT_ASSERT_EQ(test, last, (base + last) & mask);
	}
}

/* The same for all sizes of memory that the CPU can address. */
static void check_plans(struct kunit *test, unsigned int nr, unsigned int shift,
			unsigned long window)
{
	unsigned long size;

	for (size = SZ_256M; size < min(BIT(shift), window); size *= 2) {
		check_plan(test, nr, shift, size, window);
		check_plan(test, nr, shift, size + SZ_128M, window);
	}
}

static void plans_fit(struct kunit *test)
{
	unsigned int i, nr, shift;

	for (i = 0; i < ARRAY_SIZE(windows); i++)
		for (nr = 1; nr <= MKTME_MAX_KEYIDS; nr++)
			for (shift = 36; shift + order_base_2(nr + 1) <= 52; shift++)
				check_plans(test, nr, shift, windows[i]);
}

/* With 46 address bits, 63 keys leave 1 TB for each direct map. */
static void four_levels_have_room_for_all_keys(struct kunit *test)
{
	struct mktme_config config = { .nr_keyids = 63, .keyid_shift = 40 };

	mktme_plan(&config, SZ_64T, SZ_1G, SZ_64T);
	KUNIT_EXPECT_EQ(test, 63, config.nr_keyids);
	KUNIT_EXPECT_EQ(test, (unsigned long)SZ_1T, config.map_size);
}

/* More memory leaves room for fewer keys. */
static void keys_give_way_to_memory(struct kunit *test)
{
	struct mktme_config config = { .nr_keyids = 63, .keyid_shift = 46 };

	mktme_plan(&config, SZ_64T, SZ_1T + SZ_1G, SZ_64T);
	KUNIT_EXPECT_EQ(test, 31, config.nr_keyids);
	KUNIT_EXPECT_EQ(test, (unsigned long)SZ_2T, config.map_size);

	config = (struct mktme_config){ .nr_keyids = 63, .keyid_shift = 46 };
	mktme_plan(&config, SZ_64T, SZ_32T + SZ_1G, SZ_64T);
	KUNIT_EXPECT_EQ(test, 0, config.nr_keyids);
}

/* As with more emulated bits than the CPU can spare. */
static void memory_in_the_bits_of_keyids_leaves_none(struct kunit *test)
{
	struct mktme_config config = { .nr_keyids = 3, .keyid_shift = 36 };

	mktme_plan(&config, SZ_64T, SZ_64G + SZ_128M, SZ_64T);
	KUNIT_EXPECT_EQ(test, 0, config.nr_keyids);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(keyids_are_counted),
	KUNIT_CASE_SLOW(plans_fit),
	KUNIT_CASE(four_levels_have_room_for_all_keys),
	KUNIT_CASE(keys_give_way_to_memory),
	KUNIT_CASE(memory_in_the_bits_of_keyids_leaves_none),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_layout",
	.test_cases = cases,
};

kunit_test_suite(suite);
