/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The data of keys, for those who use it: in the payload of the key, or a secret
 * (Documentation/security/kpkeys-secret.rst), which nobody else reads.
 */
#ifndef _KEYS_BORROW_H
#define _KEYS_BORROW_H

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/key.h>
#include <linux/kpkeys_secret.h>
#include <linux/slab.h>
#include <linux/string.h>

#ifdef CONFIG_KPKEYS_HARDENED_SECRET

/**
 * key_data_copy() - Copy the data of a key, or its beginning.
 * @key: the key.
 * @secret: the data, if it is a secret, or NULL.
 * @plain: the data, if it is none.
 * @dst: where to.
 * @size: number of bytes.
 *
 * For the header of a type of keys. Users of the type call its own function.
 *
 * Context: the payload is not replaced.
 * Return: 0 or -EACCES, if the secret is another key's.
 */
static inline int key_data_copy(const struct key *key, const struct kpkeys_secret *secret,
				const void *plain, void *dst, size_t size)
{
	if (secret)
		return kpkeys_secret_read(secret, key, dst, size);
	memcpy(dst, plain, size);
	return 0;
}

/**
 * key_data_dup() - Allocate a copy of the data of a key.
 * @key: the key.
 * @secret: the data, if it is a secret, or NULL.
 * @plain: the data, if it is none.
 * @size: its size in bytes.
 *
 * Context: may sleep; the payload is not replaced.
 * Return: the copy, to be freed with kfree_sensitive(), or NULL.
 */
static inline void *key_data_dup(const struct key *key, const struct kpkeys_secret *secret,
				 const void *plain, size_t size)
{
	void *copy;

	if (!secret)
		return kmemdup(plain, size, GFP_KERNEL);
	copy = kmalloc(size, GFP_KERNEL);
	if (copy && kpkeys_secret_read(secret, key, copy, size)) {
		kfree(copy);
		copy = NULL;
	}
	return copy;
}

/**
 * key_data_borrow() - Get the data of a key for as long as its semaphore is held.
 * @key: the key.
 * @secret: the data, if it is a secret, or NULL.
 * @plain: the data, if it is none.
 * @size: its size in bytes.
 *
 * A copy even of data that is no secret, where there are secrets: so
 * key_data_return() need not know.
 *
 * Context: may sleep; the semaphore of @key is held.
 * Return: the data, to be given back with key_data_return(); or an ERR_PTR().
 */
static inline const void *key_data_borrow(const struct key *key,
					  const struct kpkeys_secret *secret,
					  const void *plain, size_t size)
{
	if (!kpkeys_hardened_secret_enabled())
		return plain;
	return key_data_dup(key, secret, plain, size) ? : ERR_PTR(-ENOMEM);
}

/* Did key_data_borrow() fail? */
static inline bool key_data_borrow_failed(const void *data)
{
	return IS_ERR(data);
}

/**
 * key_data_return() - Give back what was borrowed.
 * @data: the data.
 *
 * Context: may sleep; the semaphore of the key is held still.
 */
static inline void key_data_return(const void *data)
{
	if (kpkeys_hardened_secret_enabled())
		kfree_sensitive(data);
}

/**
 * key_data_hide() - Make a secret of the data of a new payload.
 * @key: the key that is going to have the payload.
 * @plain: the data, which is cleared if it is a secret then.
 * @size: its size in bytes.
 *
 * Context: may sleep.
 * Return: the secret; NULL if there are none; or an ERR_PTR().
 */
static inline struct kpkeys_secret *key_data_hide(const struct key *key, void *plain,
						  size_t size)
{
	struct kpkeys_secret *secret;
	int err;

	if (!kpkeys_hardened_secret_enabled())
		return NULL;
	secret = kpkeys_secret_alloc(plain, size);
	if (IS_ERR(secret))
		return secret;
	err = kpkeys_secret_give(secret, key);
	if (err)
		return ERR_PTR(err);
	memzero_explicit(plain, size);
	return secret;
}

#else /* !CONFIG_KPKEYS_HARDENED_SECRET */

/* Macros: GCC chooses other registers where a call was inlined, even of nothing. */
#define key_data_copy(key, secret, plain, dst, size)			\
	((void)(key), (void)(secret), memcpy(dst, plain, size), 0)
#define key_data_dup(key, secret, plain, size)				\
	((void)(key), (void)(secret), kmemdup(plain, size, GFP_KERNEL))
#define key_data_borrow(key, secret, plain, size)			\
	((void)(key), (void)(secret), (void)(size), (const void *)(plain))
#define key_data_borrow_failed(data)	((void)(data), false)
#define key_data_return(data)		((void)(data))

#endif /* CONFIG_KPKEYS_HARDENED_SECRET */

#endif /* _KEYS_BORROW_H */
