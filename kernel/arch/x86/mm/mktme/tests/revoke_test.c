// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of revoking a key, on a machine that has KeyIDs. */
#include <linux/err.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/uaccess.h>

#include <kunit/test.h>

#include "../keys.h"
#include "../mktme.h"

static void put_key(void *key)
{
	mktme_key_put(key);
}

static struct mktme_key *new_key(struct kunit *test)
{
	const struct mktme_key_spec spec = {
		.algorithm = mktme_algorithm(0),
		.random = true,
	};
	struct mktme_key *key;

	if (!mktme_nr_keyids())
		kunit_skip(test, "no KeyIDs");
	key = mktme_key_new(&spec);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, key);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_key, key), 0);
	return key;
}

/* Memory of this test under a key. No thread of a process has it mapped. */
static int __user *memory_under(struct kunit *test, struct mktme_key *key)
{
	unsigned long addr;

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_EQ(test, mktme_encrypt_range(addr, PAGE_SIZE,
						  mktme_key_keyid(key)), 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (int __user *)addr), 0);
	return (int __user *)addr;
}

static void memory_without_a_thread_is_revoked(struct kunit *test)
{
	struct mktme_key *key = new_key(test);
	int __user *memory = memory_under(test, key);

	KUNIT_EXPECT_TRUE(test, mktme_key_in_memory(key));
	KUNIT_EXPECT_EQ(test, mktme_key_revoke(key), 0);
	KUNIT_EXPECT_FALSE(test, mktme_key_in_memory(key));
	KUNIT_EXPECT_EQ(test, put_user(2, memory), -EFAULT);
}

/* So others are not looked at, which may hold their mmap lock for long. */
static void processes_are_known_by_their_keys(struct kunit *test)
{
	struct mktme_key *key = new_key(test), *other = new_key(test);
	struct mm_struct *mm;

	memory_under(test, key);
	mm = mktme_next_mm(NULL, mktme_key_keyid(key));
	KUNIT_EXPECT_PTR_EQ(test, mm, current->mm);
	if (mm) {
		KUNIT_EXPECT_NULL(test, mktme_next_mm(mm, mktme_key_keyid(key)));
		mmput(mm);
	}
	KUNIT_EXPECT_NULL(test, mktme_next_mm(NULL, mktme_key_keyid(other)));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(memory_without_a_thread_is_revoked),
	KUNIT_CASE(processes_are_known_by_their_keys),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_revoke",
	.test_cases = cases,
};

kunit_test_suite(suite);
