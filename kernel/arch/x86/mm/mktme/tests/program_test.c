// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of when keys can be programmed, on a machine that has KeyIDs.
 * Included by program.c; nothing really sleeps.
 */
#include <linux/delay.h>
#include <linux/mktme.h>

#include <kunit/test.h>

#define PATIENCE_MS	5000
#define STEP_MS		10

/* Keys are forgotten some time after they are released. */
static bool mktme_test_none_programmed(void)
{
	unsigned int ms;

	for (ms = 0; READ_ONCE(nr_programmed) && ms < PATIENCE_MS; ms += STEP_MS)
		msleep(STEP_MS);
	return !READ_ONCE(nr_programmed);
}

static int program_test_init(struct kunit *test)
{
	if (!mktme_nr_keyids())
		kunit_skip(test, "no KeyIDs");
	if (!mktme_test_none_programmed())
		kunit_skip(test, "somebody has a key, as with mktme_anon=");
	return 0;
}

static int mktme_test_notify(unsigned long action)
{
	return mktme_pm_notify(&mktme_pm_notifier, action, NULL);
}

/* Create a key and release it; returns the KeyID or error. */
static int mktme_test_result_of_key(void)
{
	int keyid = mktme_reserve_keyid();

	if (keyid > 0)
		mktme_release_keyid(keyid);
	return min(keyid, 0);
}

static void no_key_comes_before_sleep(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, NOTIFY_OK, mktme_test_notify(PM_SUSPEND_PREPARE));
	KUNIT_EXPECT_EQ(test, -EAGAIN, mktme_test_result_of_key());
	KUNIT_EXPECT_EQ(test, NOTIFY_OK, mktme_test_notify(PM_POST_SUSPEND));
	KUNIT_EXPECT_EQ(test, 0, mktme_test_result_of_key());
	KUNIT_EXPECT_TRUE(test, mktme_test_none_programmed());
}

/* As while /dev/snapshot is open. */
static void sleep_within_sleep_does_not_end_it(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, NOTIFY_OK,
			mktme_test_notify(PM_HIBERNATION_PREPARE));
	KUNIT_EXPECT_EQ(test, NOTIFY_OK, mktme_test_notify(PM_SUSPEND_PREPARE));
	KUNIT_EXPECT_EQ(test, NOTIFY_OK, mktme_test_notify(PM_POST_SUSPEND));
	KUNIT_EXPECT_EQ(test, -EAGAIN, mktme_test_result_of_key());
	KUNIT_EXPECT_EQ(test, NOTIFY_OK,
			mktme_test_notify(PM_POST_HIBERNATION));
	KUNIT_EXPECT_EQ(test, 0, mktme_test_result_of_key());
	KUNIT_EXPECT_TRUE(test, mktme_test_none_programmed());
}

/* A notifier that refuses gets no PM_POST_*. */
static void no_sleep_comes_with_a_key(struct kunit *test)
{
	int keyid = mktme_reserve_keyid();

	KUNIT_ASSERT_GT(test, keyid, 0);
	KUNIT_EXPECT_EQ(test, notifier_from_errno(-EBUSY),
			mktme_test_notify(PM_SUSPEND_PREPARE));
	KUNIT_EXPECT_EQ(test, notifier_from_errno(-EBUSY),
			mktme_test_notify(PM_HIBERNATION_PREPARE));
	KUNIT_EXPECT_EQ(test, 0U, nr_sleeping);
	mktme_release_keyid(keyid);
	KUNIT_EXPECT_TRUE(test, mktme_test_none_programmed());
	KUNIT_EXPECT_EQ(test, 0, mktme_test_result_of_key());
	KUNIT_EXPECT_TRUE(test, mktme_test_none_programmed());
}

/* Package numbers from APIC IDs must match those of running CPUs. */
static void packages_are_those_of_cpus(struct kunit *test)
{
	unsigned int cpu;

	guard(cpus_read_lock)();
	for_each_online_cpu(cpu)
		KUNIT_EXPECT_EQ(test, (int)topology_logical_package_id(cpu),
				mktme_package_of(cpu));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(no_key_comes_before_sleep),
	KUNIT_CASE(sleep_within_sleep_does_not_end_it),
	KUNIT_CASE(no_sleep_comes_with_a_key),
	KUNIT_CASE(packages_are_those_of_cpus),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_program",
	.init = program_test_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
