// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of encrypted keys: where their decrypted data is, and who reads it. */
#include <keys/encrypted-type.h>
#include <keys/user-type.h>
#include <linux/cred.h>
#include <linux/key-type.h>
#include <linux/key.h>
#include <linux/kpkeys_secret.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../../mm/kpkeys/tests/test.h"
#include "../internal.h"
#include "../test.h"

#define KEY_SIZE	32
#define ECRYPTFS_SIZE	64
#define NEW		"new user:kunit-master 32"
#define NEW_ECRYPTFS	"new ecryptfs user:kunit-master 64"
#define NEW_MASTER	"update user:kunit-other-master"

static const char master[] = "a master key of the tests, thirty-two bytes and more";

static struct key *encrypted_key(struct kunit *test, const char *command)
{
	return new_test_key(test, &key_type_encrypted, "kunit:key", command,
			    strlen(command), NULL);
}

static struct encrypted_key_payload *payload_of(const struct key *key)
{
	return key->payload.data[0];
}

/* The data, which is given back. */
static void get_data(struct kunit *test, struct key *key, u8 *copy)
{
	struct encrypted_key_payload *payload;
	const u8 *data;

	guard(rwsem_read)(&key->sem);
	payload = payload_of(key);
	KUNIT_ASSERT_EQ(test, payload->decrypted_datalen, KEY_SIZE);
	data = encrypted_key_borrow(key, payload);
	KUNIT_ASSERT_FALSE(test, key_data_borrow_failed(data));
	memcpy(copy, data, KEY_SIZE);
	key_data_return(data);
	KUNIT_EXPECT_EQ(test, encrypted_key_copy(key, payload, copy + KEY_SIZE, 4), 0);
	KUNIT_EXPECT_EQ(test, memcmp(copy + KEY_SIZE, copy, 4), 0);
	EXPECT_LEVEL_DEFAULT(test);
}

static void expect_hidden(struct kunit *test, const struct key *key, const u8 *data)
{
	const struct encrypted_key_payload *payload = payload_of(key);
	unsigned long value = 0;

	if (!kpkeys_hardened_secret_enabled()) {
		KUNIT_EXPECT_NULL(test, payload->secret);
		KUNIT_EXPECT_EQ(test, memcmp(payload->decrypted_data, data, KEY_SIZE), 0);
		return;
	}
	KUNIT_EXPECT_NULL(test, memchr_inv(payload->decrypted_data, 0, KEY_SIZE));
	KUNIT_EXPECT_TRUE(test, kpkeys_is_secret(payload->secret, 1));
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, payload->secret), -EFAULT);
	KUNIT_EXPECT_EQ(test, value, 0);
}

static void decrypted_data_is_secret(struct kunit *test)
{
	struct key *key = encrypted_key(test, NEW);
	u8 data[KEY_SIZE + 4];

	get_data(test, key, data);
	KUNIT_EXPECT_NOT_NULL(test, memchr_inv(data, 0, KEY_SIZE));
	expect_hidden(test, key, data);
}

/* As a process saves a key on a disk, and loads it at the next boot. */
static void saved_key_is_loaded_again(struct kunit *test)
{
	struct key *key = encrypted_key(test, NEW), *again;
	char *command = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	u8 data[KEY_SIZE + 4], copy[KEY_SIZE + 4];
	long len;

	KUNIT_ASSERT_NOT_NULL(test, command);
	strscpy(command, "load ", PAGE_SIZE);
	scoped_guard(rwsem_read, &key->sem)
		len = key_type_encrypted.read(key, command + strlen(command),
					      PAGE_SIZE - strlen(command));
	KUNIT_ASSERT_GT(test, len, 0);
	again = encrypted_key(test, command);

	get_data(test, key, data);
	get_data(test, again, copy);
	KUNIT_EXPECT_EQ(test, memcmp(data, copy, KEY_SIZE), 0);
	expect_hidden(test, again, data);
}

static void new_master_keeps_the_data(struct kunit *test)
{
	struct key *key = encrypted_key(test, NEW);
	u8 data[KEY_SIZE + 4], copy[KEY_SIZE + 4];

	get_data(test, key, data);
	KUNIT_ASSERT_EQ(test, key_update(make_key_ref(key, true), NEW_MASTER,
					 strlen(NEW_MASTER)), 0);
	get_data(test, key, copy);
	KUNIT_EXPECT_EQ(test, memcmp(data, copy, KEY_SIZE), 0);
	expect_hidden(test, key, data);
}

/* The pointer to the payload is ordinary memory. */
static void payload_of_another_key_is_refused(struct kunit *test)
{
	struct key *mine = encrypted_key(test, NEW), *other = encrypted_key(test, NEW);
	bool refused = kpkeys_hardened_secret_enabled();
	unsigned long before;
	u8 copy[KEY_SIZE] = {};
	void *own;

	guard(rwsem_read)(&mine->sem);
	own = mine->payload.data[0];
	mine->payload.data[0] = other->payload.data[0];
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, encrypted_key_copy(mine, payload_of(mine), copy, KEY_SIZE),
			refused ? -EACCES : 0);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, !memchr_inv(copy, 0, KEY_SIZE), refused);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + refused);
	mine->payload.data[0] = own;
}

/* As EVM does with its key, when it has a copy. */
static void burnt_key_has_zeroes(struct kunit *test)
{
	struct key *key = encrypted_key(test, NEW);
	u8 data[KEY_SIZE + 4];

	scoped_guard(rwsem_read, &key->sem)
		encrypted_key_burn(key, payload_of(key));
	get_data(test, key, data);
	KUNIT_EXPECT_NULL(test, memchr_inv(data, 0, KEY_SIZE));
}

/* ecryptfs works on it where it is. */
static void data_for_ecryptfs_is_readable(struct kunit *test)
{
	struct key *key = new_test_key(test, &key_type_encrypted, "0123456789abcdef",
				       NEW_ECRYPTFS, strlen(NEW_ECRYPTFS), NULL);

	guard(rwsem_read)(&key->sem);
	KUNIT_EXPECT_NULL(test, payload_of(key)->secret);
	KUNIT_EXPECT_NOT_NULL(test, memchr_inv(payload_of(key)->decrypted_data, 0,
					       ECRYPTFS_SIZE));
}

/* Those of this thread, which ends with the test, get a keyring with the masters. */
static int encrypted_keys_init(struct kunit *test)
{
	struct cred *cred = prepare_creds();
	struct key *ring;

	if (!cred)
		return -ENOMEM;
	if (install_thread_keyring_to_cred(cred)) {
		abort_creds(cred);
		return -ENOMEM;
	}
	commit_creds(cred);

	ring = current_cred()->thread_keyring;
	new_test_key(test, &key_type_user, "kunit-master", master, sizeof(master), ring);
	new_test_key(test, &key_type_user, "kunit-other-master", master, sizeof(master) - 1,
		     ring);
	return 0;
}

static struct kunit_case encrypted_keys_cases[] = {
	KUNIT_CASE(decrypted_data_is_secret),
	KUNIT_CASE(saved_key_is_loaded_again),
	KUNIT_CASE(new_master_keeps_the_data),
	KUNIT_CASE(payload_of_another_key_is_refused),
	KUNIT_CASE(burnt_key_has_zeroes),
	KUNIT_CASE(data_for_ecryptfs_is_readable),
	{}
};

static struct kunit_suite encrypted_keys_suite = {
	.name = "kpkeys_encrypted_keys",
	.init = encrypted_keys_init,
	.test_cases = encrypted_keys_cases,
};

kunit_test_suite(encrypted_keys_suite);
