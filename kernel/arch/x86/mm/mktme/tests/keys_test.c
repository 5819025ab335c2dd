// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of key teardown, on a machine that has KeyIDs. Included by
 * keys.c, because they queue its work in a rare order.
 */
#include <linux/delay.h>

#include <kunit/test.h>

#define PATIENCE_MS	5000
#define STEP_MS		10

/* Also waits for keys of other suites. */
static bool all_are_forgotten(void)
{
	unsigned int ms;

	for (ms = 0; atomic_read(&mktme_keys_ending) && ms < PATIENCE_MS;
	     ms += STEP_MS)
		msleep(STEP_MS);
	return !atomic_read(&mktme_keys_ending);
}

static bool pages_have_ended(struct mktme_key *key)
{
	unsigned int ms;

	for (ms = 0; mktme_key_in_memory(key) && ms < PATIENCE_MS; ms += STEP_MS)
		msleep(STEP_MS);
	return !mktme_key_in_memory(key);
}

static int keys_test_init(struct kunit *test)
{
	if (!mktme_nr_keyids())
		kunit_skip(test, "no KeyIDs");
	return all_are_forgotten() ? 0 : -ETIMEDOUT;
}

/* Direct maps get slower, and hibernation is refused, with the first key only. */
static void nothing_is_on_without_a_key(struct kunit *test)
{
	const struct mktme_key_spec spec = {
		.algorithm = mktme_algorithm(0),
		.random = true,
	};
	DECLARE_BITMAP(before, MKTME_MAX_KEYIDS + 1);

	if (mktme_active())
		kunit_skip(test, "there has been a key");
	scoped_guard(mutex, &keys_lock) {
		bitmap_copy(before, occupied, MKTME_MAX_KEYIDS + 1);
		bitmap_fill(occupied, MKTME_MAX_KEYIDS + 1);
	}
	KUNIT_EXPECT_EQ(test, PTR_ERR(mktme_key_new(&spec)), -ENOSPC);
	scoped_guard(mutex, &keys_lock)
		bitmap_copy(occupied, before, MKTME_MAX_KEYIDS + 1);
	KUNIT_EXPECT_FALSE(test, mktme_active());
}

/*
 * For a revoked key, the work for its pages runs late: after the last user is
 * gone, but before the work for that. Freeing the KeyID then would kill the
 * pages of its next key.
 */
static void end_with_late_work(struct kunit *test, struct mktme_key *key)
{
	unsigned int keyid = mktme_key_keyid(key);

	mktme_key_forbid(key);
	KUNIT_EXPECT_TRUE(test, pages_have_ended(key));
	mktme_key_forget_work(&key->forget_work);
	KUNIT_EXPECT_FALSE(test, key->programmed);
	KUNIT_EXPECT_TRUE(test, test_bit(keyid, occupied));

	/* Like mktme_key_put(), without queueing the work. */
	KUNIT_EXPECT_TRUE(test, refcount_dec_and_test(&key->users));
	atomic_inc(&mktme_keys_ending);
	mktme_key_forget_work(&key->forget_work);
	KUNIT_EXPECT_TRUE(test, test_bit(keyid, occupied));

	/* The later work finishes the teardown. */
	queue_work(system_dfl_wq, &key->end_work);
	KUNIT_EXPECT_TRUE(test, all_are_forgotten());
	KUNIT_EXPECT_FALSE(test, test_bit(keyid, occupied));
}

/* Twice, because the second key reuses the state of the first. */
static void keys_end_once(struct kunit *test)
{
	const struct mktme_key_spec spec = {
		.algorithm = mktme_algorithm(0),
		.random = true,
	};
	unsigned int round, first = 0;

	for (round = 0; round < 2; round++) {
		struct mktme_key *key = mktme_key_new(&spec);
		unsigned int keyid;

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, key);
		keyid = mktme_key_keyid(key);
		if (!round)
			first = keyid;
		KUNIT_EXPECT_EQ(test, first, keyid);
		KUNIT_EXPECT_TRUE(test, mktme_keyid_get_pages(keyid, 1));
		mktme_keyid_put_pages(keyid, 1);
		end_with_late_work(test, key);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(nothing_is_on_without_a_key),
	KUNIT_CASE(keys_end_once),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_keys",
	.init = keys_test_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
