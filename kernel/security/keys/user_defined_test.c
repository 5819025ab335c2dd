// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of keys of processes: where their payloads are, and who reads them. */
#include <keys/user-type.h>
#include <linux/key-type.h>
#include <linux/key.h>
#include <linux/kpkeys_secret.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../mm/kpkeys/tests/test.h"
#include "test.h"

static const char text[] = "correct horse battery staple";
static const char other_text[] = "incorrect";

static struct key *key_with(struct kunit *test, struct key_type *type, const char *data,
			    size_t size)
{
	return new_test_key(test, type, "kunit:key", data, size, NULL);
}

static void expect_data(struct kunit *test, struct key *key, const char *data, size_t size)
{
	char copy[64] = "";

	guard(rwsem_read)(&key->sem);
	KUNIT_EXPECT_EQ(test, user_read(key, NULL, 0), size);
	KUNIT_EXPECT_EQ(test, user_read(key, copy, sizeof(copy)), size);
	KUNIT_EXPECT_EQ(test, memcmp(copy, data, size), 0);
	memset(copy, 0, sizeof(copy));
	KUNIT_EXPECT_EQ(test, user_read(key, copy, 4), size);
	KUNIT_EXPECT_EQ(test, memcmp(copy, data, 4), 0);
	KUNIT_EXPECT_EQ(test, copy[4], 0);
	EXPECT_LEVEL_DEFAULT(test);
}

static void keys_have_their_data(struct kunit *test)
{
	expect_data(test, key_with(test, &key_type_user, text, sizeof(text)), text,
		    sizeof(text));
	expect_data(test, key_with(test, &key_type_logon, text, sizeof(text)), text,
		    sizeof(text));
}

static void payloads_are_secret(struct kunit *test)
{
	struct key *key = key_with(test, &key_type_logon, text, sizeof(text));
	struct user_key_payload *payload;
	unsigned long value = 0;

	guard(rwsem_read)(&key->sem);
	payload = user_key_payload_locked(key);
	if (!kpkeys_hardened_secret_enabled()) {
		KUNIT_EXPECT_NULL(test, payload->secret);
		KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, payload->data), 0);
		KUNIT_EXPECT_EQ(test, memcmp(&value, text, sizeof(value)), 0);
		return;
	}
	KUNIT_EXPECT_TRUE(test, kpkeys_is_secret(payload->secret, 1));
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, payload->secret), -EFAULT);
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, (void *)payload->secret + 16), -EFAULT);
	KUNIT_EXPECT_EQ(test, value, 0);
}

static void updated_keys_have_new_data(struct kunit *test)
{
	struct key *key = key_with(test, &key_type_user, text, sizeof(text));

	KUNIT_ASSERT_EQ(test, key_update(make_key_ref(key, true), other_text,
					 sizeof(other_text)), 0);
	expect_data(test, key, other_text, sizeof(other_text));
}

/* The pointer to the payload is ordinary memory. */
static void payload_of_another_key_is_refused(struct kunit *test)
{
	struct key *mine = key_with(test, &key_type_user, text, sizeof(text));
	struct key *other = key_with(test, &key_type_user, other_text, sizeof(other_text));
	bool refused = kpkeys_hardened_secret_enabled();
	unsigned long before;
	char copy[64] = "";
	void *own;

	guard(rwsem_read)(&mine->sem);
	own = mine->payload.data[0];
	mine->payload.data[0] = other->payload.data[0];
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, user_read(mine, copy, sizeof(copy)),
			refused ? -EACCES : (long)sizeof(other_text));
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_STREQ(test, copy, refused ? "" : other_text);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + refused);
	mine->payload.data[0] = own;
}

static void borrowed_data_is_given_back(struct kunit *test)
{
	struct key *key = key_with(test, &key_type_logon, text, sizeof(text));
	const struct user_key_payload *payload;
	const char *data;
	void *copy;

	guard(rwsem_read)(&key->sem);
	payload = user_key_payload_locked(key);
	data = user_key_borrow(key, payload);
	KUNIT_ASSERT_FALSE(test, key_data_borrow_failed(data));
	KUNIT_EXPECT_EQ(test, memcmp(data, text, sizeof(text)), 0);
	KUNIT_EXPECT_TRUE(test, kpkeys_hardened_secret_enabled() || data == payload->data);
	key_data_return(data);

	copy = user_key_dup(key, payload);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_EQ(test, memcmp(copy, text, sizeof(text)), 0);
	kfree_sensitive(copy);
}

/* ecryptfs works on it where it is: from then on it is no secret. */
static void exposed_data_is_readable(struct kunit *test)
{
	struct key *key = key_with(test, &key_type_user, text, sizeof(text));
	struct user_key_payload *payload;
	char *data;

	scoped_guard(rwsem_write, &key->sem) {
		data = user_key_expose(key, user_key_payload_locked(key));
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, data);
		KUNIT_EXPECT_STREQ(test, data, text);
		payload = user_key_payload_locked(key);
		KUNIT_EXPECT_TRUE(test, data == payload->data);
		KUNIT_EXPECT_TRUE(test, data == user_key_expose(key, payload));
	}
	expect_data(test, key, text, sizeof(text));
}

static int preparse_what_was_verified(struct key_preparsed_payload *prep)
{
	return user_preparse(prep);
}

/* As pkcs7_test, which looks at the data before it has it preparsed. */
static struct key_type verified_type = {
	.name = "kunit_verified",
	.preparse = preparse_what_was_verified,
	.free_preparse = user_free_preparse,
	.instantiate = generic_key_instantiate,
	.revoke = user_revoke,
	.destroy = user_destroy,
	.describe = user_describe,
	.read = user_read,
};

static void other_types_have_such_payloads(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct key *key;
	const char *data;

	key = key_with(test, &verified_type, text, sizeof(text));
	kpkeys_expect_violation(true);
	expect_data(test, key, text, sizeof(text));
	scoped_guard(rwsem_read, &key->sem) {
		data = user_key_borrow(key, user_key_payload_locked(key));
		KUNIT_EXPECT_FALSE(test, key_data_borrow_failed(data));
		if (!key_data_borrow_failed(data))
			key_data_return(data);
	}
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);
}

static void payloads_of_any_length(struct kunit *test)
{
	char *data = kunit_kzalloc(test, KPKEYS_SECRET_MAX + 1, GFP_KERNEL);
	struct key *key;

	KUNIT_ASSERT_NOT_NULL(test, data);
	memset(data, 'x', KPKEYS_SECRET_MAX);
	key = key_with(test, &key_type_user, data, KPKEYS_SECRET_MAX);
	scoped_guard(rwsem_read, &key->sem) {
		const char *copy = user_key_borrow(key, user_key_payload_locked(key));

		KUNIT_ASSERT_FALSE(test, key_data_borrow_failed(copy));
		KUNIT_EXPECT_EQ(test, memcmp(copy, data, KPKEYS_SECRET_MAX), 0);
		key_data_return(copy);
	}
	key = key_with(test, &key_type_user, "x", 1);
	scoped_guard(rwsem_read, &key->sem)
		KUNIT_EXPECT_EQ(test, user_read(key, NULL, 0), 1);
}

static struct kunit_case user_keys_cases[] = {
	KUNIT_CASE(keys_have_their_data),
	KUNIT_CASE(payloads_are_secret),
	KUNIT_CASE(updated_keys_have_new_data),
	KUNIT_CASE(payload_of_another_key_is_refused),
	KUNIT_CASE(borrowed_data_is_given_back),
	KUNIT_CASE(exposed_data_is_readable),
	KUNIT_CASE(other_types_have_such_payloads),
	KUNIT_CASE(payloads_of_any_length),
	{}
};

static struct kunit_suite user_keys_suite = {
	.name = "kpkeys_user_keys",
	.test_cases = user_keys_cases,
};

kunit_test_suite(user_keys_suite);
