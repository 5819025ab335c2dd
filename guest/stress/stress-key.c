// SPDX-License-Identifier: GPL-2.0-only
/* Keys: their data is added, read, replaced and gone. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stress.h"

/* Most keys are short; the longest that the kernel takes has this many bytes. */
#define LONGEST		32767
#define USUAL		200
#define RARELY		20

static unsigned char data[LONGEST], copy[LONGEST + 1];

static long keyctl(int command, long a, long b, long c)
{
	return syscall(SYS_keyctl, command, a, b, c, 0);
}

static enum start start_key(void)
{
	if (keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0, 0) < 0 && errno == ENOSYS)
		return LEFT_OUT;
	return READY;
}

static size_t make_data(size_t longest)
{
	size_t size = 1 + rnd(rnd(RARELY) ? USUAL : longest), i;

	for (i = 0; i < size; i++)
		data[i] = rnd(256);
	return size;
}

static bool has_data(long key, size_t size)
{
	long n;

	memset(copy, 0, size + 1);
	n = keyctl(KEYCTL_READ, key, (long)copy, sizeof(copy));
	if (n < 0)
		return need(false);
	return check(n == (long)size) && check(!memcmp(copy, data, size)) && check(!copy[size]);
}

/* Data is counted until the kernel has collected the garbage. */
static bool quota_is_used_up(void)
{
	missed = errno == EDQUOT;
	return missed;
}

/* The kernel does so for a page at most. */
static bool replace(long key)
{
	size_t size = make_data(page);

	if (keyctl(KEYCTL_UPDATE, key, (long)data, size))
		return quota_is_used_up() || need(false);
	return has_data(key, size);
}

static bool remove_key(long key)
{
	if (rnd(2) && !need(!keyctl(KEYCTL_REVOKE, key, 0, 0)))
		return false;
	return need(!keyctl(KEYCTL_UNLINK, key, KEY_SPEC_PROCESS_KEYRING, 0)) &&
	       check(keyctl(KEYCTL_READ, key, (long)copy, sizeof(copy)) < 0);
}

static bool op_key(void)
{
	size_t size = make_data(LONGEST);
	char name[32];
	bool ok;
	long key;

	snprintf(name, sizeof(name), "stress-%d", getpid());
	key = syscall(SYS_add_key, "user", name, data, size, KEY_SPEC_PROCESS_KEYRING);
	if (key < 0)
		return quota_is_used_up() || need(false);
	ok = has_data(key, size) && replace(key);
	return remove_key(key) && ok;
}

const struct op key_op = {
	.name = "key",
	.run = op_key,
	.start = start_key,
};
