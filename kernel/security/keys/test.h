/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the KUnit suites of types of keys. */
#ifndef __SECURITY_KEYS_TEST_H
#define __SECURITY_KEYS_TEST_H

#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/key.h>
#include <linux/uidgid.h>

static inline void put_test_key(void *key)
{
	key_put(key);
}

/* A key that ends with the test, in a keyring if @ring is not NULL. */
static inline struct key *new_test_key(struct kunit *test, struct key_type *type,
				       const char *name, const char *data, size_t size,
				       struct key *ring)
{
	struct key *key = key_alloc(type, name, GLOBAL_ROOT_UID, GLOBAL_ROOT_GID,
				    current_cred(), KEY_POS_ALL | KEY_USR_ALL,
				    KEY_ALLOC_NOT_IN_QUOTA, NULL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, key);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_test_key, key), 0);
	KUNIT_ASSERT_EQ(test, key_instantiate_and_link(key, data, size, ring, NULL), 0);
	return key;
}

#endif /* __SECURITY_KEYS_TEST_H */
