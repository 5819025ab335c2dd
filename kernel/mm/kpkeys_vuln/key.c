// SPDX-License-Identifier: GPL-2.0-only
/* A leak about keys. */
#include <keys/user-type.h>
#include <linux/err.h>
#include <linux/key-type.h>
#include <linux/key.h>
#include <linux/rwsem.h>
#include <linux/uaccess.h>

#include "internal.h"

static unsigned long where_data_is(const struct user_key_payload *payload)
{
#ifdef CONFIG_KPKEYS_HARDENED_SECRET
	if (payload->secret)
		return (unsigned long)payload->secret->data;
#endif
	return (unsigned long)payload->data;
}

int kpkeys_vuln_leak_key(void __user *arg)
{
	const struct user_key_payload *payload;
	struct kpkeys_vuln_key k;
	struct key *key;
	key_ref_t ref;

	if (copy_from_user(&k, arg, sizeof(k)))
		return -EFAULT;
	ref = lookup_user_key(k.serial, 0, KEY_DEFER_PERM_CHECK);
	if (IS_ERR(ref))
		return PTR_ERR(ref);
	key = key_ref_to_ptr(ref);
	k.addr = 0;
	scoped_guard(rwsem_read, &key->sem) {
		payload = user_key_payload_locked(key);
		if (payload && key->type->preparse == user_preparse)
			k.addr = where_data_is(payload);
	}
	key_put(key);
	return copy_to_user(arg, &k, sizeof(k)) ? -EFAULT : 0;
}
