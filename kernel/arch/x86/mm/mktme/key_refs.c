// SPDX-License-Identifier: GPL-2.0-only
/*
 * References to keys: by descriptors and VMAs, which are the users of a key,
 * and by pages. The last one queues the work that ends the key, see keys.c.
 */
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/mktme.h>
#include <linux/percpu-refcount.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

#include "keys.h"

/* Indexed by KeyID; entry 0 is unused. */
struct mktme_key mktme_keys[MKTME_MAX_KEYIDS + 1];

/* Number of keys without users whose KeyID is not yet free. */
atomic_t mktme_keys_ending = ATOMIC_INIT(0);

/* === All anonymous memory =============================================== */

#ifdef CONFIG_X86_MKTME_DEBUG
/* Here and not in anon.c, which asks keys.c for a key. */
static unsigned int anon_keyid __ro_after_init;

unsigned int mktme_anon_keyid(void)
{
	return anon_keyid;
}

/**
 * mktme_key_set_anon() - Set the KeyID of all new anonymous memory.
 * @keyid: the KeyID, reserved for that.
 *
 * Context: boot, before there are processes.
 */
void __init mktme_key_set_anon(unsigned int keyid)
{
	anon_keyid = keyid;
}
#endif

/* === Users ============================================================== */

/**
 * mktme_key_put() - Drop a user of a key.
 * @key: the key.
 *
 * Context: process.
 */
void mktme_key_put(struct mktme_key *key)
{
	if (!refcount_dec_and_test(&key->users))
		return;
	atomic_inc(&mktme_keys_ending);
	queue_work(system_dfl_wq, &key->end_work);
}

/**
 * mktme_release_keyid() - Drop a key of the kernel.
 * @keyid: the KeyID from mktme_reserve_keyid().
 *
 * Context: process.
 */
void mktme_release_keyid(unsigned int keyid)
{
	mktme_key_put(&mktme_keys[keyid]);
}

void __mktme_get_vma(const struct vm_area_struct *vma)
{
	/* The key of mktme_anon= is never forgotten. */
	if (vma_keyid(vma) != mktme_anon_keyid())
		refcount_inc(&mktme_keys[vma_keyid(vma)].users);
}

void __mktme_put_vma(const struct vm_area_struct *vma)
{
	if (vma_keyid(vma) != mktme_anon_keyid())
		mktme_key_put(&mktme_keys[vma_keyid(vma)]);
}

bool __mktme_forbids_access(const struct vm_area_struct *vma)
{
	return mktme_key_revoked(&mktme_keys[vma_keyid(vma)]);
}

/* === Pages ============================================================== */

/**
 * mktme_keyid_get_pages() - Take references for pages that get a KeyID.
 * @keyid: the KeyID.
 * @nr: number of pages, which may also come out of the pool.
 *
 * Return: false if the key is being forgotten.
 */
bool mktme_keyid_get_pages(unsigned int keyid, unsigned int nr)
{
	return percpu_ref_tryget_many(&mktme_keys[keyid].pages, nr);
}

/**
 * mktme_keyid_put_pages() - Drop references for pages that lose a KeyID.
 * @keyid: the KeyID.
 * @nr: number of pages, which may also go into the pool.
 */
void mktme_keyid_put_pages(unsigned int keyid, unsigned int nr)
{
	percpu_ref_put_many(&mktme_keys[keyid].pages, nr);
}

/**
 * mktme_key_in_memory() - Does a forbidden key still have pages?
 * @key: the key.
 *
 * Return: false if there are certainly none.
 */
bool mktme_key_in_memory(struct mktme_key *key)
{
	return !percpu_ref_is_zero(&key->pages);
}

/* === State ============================================================== */

/**
 * mktme_key_algorithm() - Get the encryption algorithm of a key.
 * @key: the key.
 *
 * Return: MKTME_AES_XTS_128 or MKTME_AES_XTS_256.
 */
u32 mktme_key_algorithm(const struct mktme_key *key)
{
	return key->algorithm;
}

/**
 * mktme_key_revoked() - Has a key been revoked?
 * @key: the key.
 *
 * Return: true if so.
 */
bool mktme_key_revoked(const struct mktme_key *key)
{
	return READ_ONCE(key->revoked);
}
