/* SPDX-License-Identifier: GPL-2.0-only */
/* Keys and their KeyIDs. Private to arch/x86/mm/mktme. */
#ifndef __X86_MM_MKTME_KEYS_H
#define __X86_MM_MKTME_KEYS_H

#include <linux/atomic.h>
#include <linux/percpu-refcount.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include <asm/mktme.h>

#define MKTME_KEY_MAX_BYTES	32

/**
 * struct mktme_key_spec - key to program for a KeyID.
 * @algorithm: MKTME_AES_XTS_128 or MKTME_AES_XTS_256.
 * @random: let the CPU generate the key, and ignore the following.
 * @data_key: key for data.
 * @tweak_key: key for addresses.
 */
struct mktme_key_spec {
	u32 algorithm;
	bool random;
	u8 data_key[MKTME_KEY_MAX_BYTES];
	u8 tweak_key[MKTME_KEY_MAX_BYTES];
};

struct misc_cg;

/**
 * struct mktme_key - a key and the users of its KeyID.
 * @users: number of descriptors and VMAs.
 * @pages: number of allocated pages. Killed to stop allocations, when the last
 *	user is gone or the key is revoked.
 * @ending: @pages has been killed.
 * @ended: @end_work no longer accesses the key. Under keys_lock.
 * @revoked: access to memory is forbidden.
 * @programmed: the CPUs have the key. Under keys_lock.
 * @algorithm: encryption algorithm.
 * @cgroup: cgroup charged for the KeyID.
 * @end_work: queued when the last user is gone.
 * @forget_work: queued when the last page is free, and when the last user is
 *	gone.
 */
struct mktme_key {
	refcount_t users;
	struct percpu_ref pages;
	atomic_t ending;
	bool ended;
	bool revoked;
	bool programmed;
	u32 algorithm;
	struct misc_cg *cgroup;
	struct work_struct end_work;
	struct work_struct forget_work;
};

extern struct mktme_key mktme_keys[MKTME_MAX_KEYIDS + 1];
extern atomic_t mktme_keys_ending;

/**
 * mktme_key_keyid() - Get the KeyID of a key.
 * @key: the key.
 *
 * Return: the KeyID.
 */
static inline unsigned int mktme_key_keyid(const struct mktme_key *key)
{
	return key - mktme_keys;
}

/* === key_refs.c: users and pages of keys ================================ */

void mktme_key_put(struct mktme_key *key);
u32 mktme_key_algorithm(const struct mktme_key *key);
bool mktme_key_revoked(const struct mktme_key *key);
bool mktme_key_in_memory(struct mktme_key *key);
void mktme_key_set_anon(unsigned int keyid);

/* === keys.c: KeyIDs of keys ============================================= */

struct mktme_key *mktme_key_new(const struct mktme_key_spec *spec);
void mktme_key_forbid(struct mktme_key *key);

/* === program.c: programming of keys ===================================== */

u32 mktme_algorithm(u32 wanted);
int mktme_program(unsigned int keyid, const struct mktme_key_spec *spec);
void mktme_forget(unsigned int keyid);

/* === revoke.c =========================================================== */

int mktme_key_revoke(struct mktme_key *key);

#endif /* __X86_MM_MKTME_KEYS_H */
