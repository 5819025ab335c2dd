/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Secrets: memory with a key that forbids even to read it.
 *
 * An attacker who can read anywhere finds keys and passwords where the kernel
 * keeps them. Kept as secrets, they are only found while they are used. See
 * Documentation/security/kpkeys-secret.rst.
 */
#ifndef _LINUX_KPKEYS_SECRET_H
#define _LINUX_KPKEYS_SECRET_H

#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct folio;
struct kpkeys_violation;

/* The longest, in bytes: as long as the payload of a key may be. */
#define KPKEYS_SECRET_MAX	32767

/**
 * struct kpkeys_secret - a secret. Secret itself.
 * @owner: for whom it may be read; NULL until it was given to somebody.
 * @size: size of @data in bytes.
 * @data: the secret. Code to which protected memory points out a secret reads it
 *	here, at KPKEYS_LVL_SECRET, and sees that it is still of @owner.
 */
struct kpkeys_secret {
	const void *owner;
	size_t size;
	u8 data[];
};

/* Callers ask kpkeys_hardened_secret_enabled(), or have a secret. */
struct kpkeys_secret *kpkeys_secret_alloc(const void *data, size_t size);
int kpkeys_secret_give(struct kpkeys_secret *secret, const void *owner);
int kpkeys_secret_read(const struct kpkeys_secret *secret, const void *owner,
		       void *dst, size_t size);
int kpkeys_secret_clear(struct kpkeys_secret *secret, const void *owner);
void kpkeys_secret_free(struct kpkeys_secret *secret);
void kpkeys_secret_free_of(struct kpkeys_secret *secret, const void *owner);

/**
 * struct kpkeys_secret_pages - the secret pages of a file of user space.
 * @lock: protects the others.
 * @runs: pages that got the key together.
 * @ready: those of them that the file does not use yet.
 * @nr: how many pages there are.
 */
struct kpkeys_secret_pages {
#ifdef CONFIG_KPKEYS_HARDENED_SECRET
	struct mutex lock; /* of the others */
	struct list_head runs, ready;
	unsigned long nr;
#endif
};

/* For a file that was made when kpkeys_hardened_secret_enabled(). */
void kpkeys_secret_pages_init(struct kpkeys_secret_pages *pages);
struct folio *kpkeys_secret_folio_alloc(struct kpkeys_secret_pages *pages, gfp_t gfp,
					unsigned long most);
void kpkeys_secret_folio_undo(struct kpkeys_secret_pages *pages, struct folio *folio);
void kpkeys_secret_pages_free(struct kpkeys_secret_pages *pages);

#ifdef CONFIG_KPKEYS_HARDENED_SECRET
DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_secret_key);

/**
 * kpkeys_hardened_secret_enabled() - Is there memory that nobody reads by default?
 *
 * Return: true from boot on, or never.
 */
static __always_inline bool kpkeys_hardened_secret_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_secret_key);
}

void kpkeys_secret_copy_page(void *dst, const void *src);
bool __kpkeys_is_secret(const void *start, size_t size);
bool kpkeys_secret_is_overrun(const struct kpkeys_violation *violation);

/**
 * kpkeys_is_secret() - Does memory contain secrets, or secret pages of user space?
 * @start: its start.
 * @size: its size in bytes.
 *
 * Context: any.
 * Return: true if a read of it would be refused.
 */
static inline bool kpkeys_is_secret(const void *start, size_t size)
{
	return kpkeys_hardened_secret_enabled() && __kpkeys_is_secret(start, size);
}

#else

static inline bool kpkeys_hardened_secret_enabled(void) { return false; }

static inline bool kpkeys_is_secret(const void *start, size_t size)
{
	return false;
}

static inline void kpkeys_secret_copy_page(void *dst, const void *src) { }

static inline bool kpkeys_secret_is_overrun(const struct kpkeys_violation *violation)
{
	return false;
}

#endif /* CONFIG_KPKEYS_HARDENED_SECRET */

#endif /* _LINUX_KPKEYS_SECRET_H */
