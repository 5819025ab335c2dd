// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys and their KeyIDs.
 *
 * Descriptors and VMAs are the users of a key. Without users a key gets no new
 * memory, but pages may remain under its KeyID while others hold references to
 * them. Once these are free, too, the CPUs forget the key, and its KeyID can be
 * reused.
 *
 * A revoked key is forgotten as soon as it has no pages, but keeps its KeyID:
 * VMAs still refer to it, and must not see memory of another key.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/misc_cgroup.h>
#include <linux/mktme.h>
#include <linux/mktme_pool.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/refcount.h>
#include <linux/swap.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "keys.h"
#include "mktme.h"

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

/* Indexed by KeyID; entry 0 is unused. */
static struct mktme_key keys[MKTME_MAX_KEYIDS + 1];
static DECLARE_BITMAP(occupied, MKTME_MAX_KEYIDS + 1);
/* Protects occupied, and serialises programming. */
static DEFINE_MUTEX(keys_lock);
/* Woken when a KeyID becomes free. */
static DECLARE_WAIT_QUEUE_HEAD(keyid_freed);
static unsigned long nr_freed;
/* Number of keys without users whose KeyID is not yet free. */
static atomic_t nr_ending = ATOMIC_INIT(0);

/* Bound on waiting for a KeyID: its pages may be held forever. */
#define FREED_TIMEOUT	HZ

/**
 * mktme_key_keyid() - Get the KeyID of a key.
 * @key: the key.
 *
 * Return: the KeyID.
 */
unsigned int mktme_key_keyid(const struct mktme_key *key)
{
	return key - keys;
}

/* === Teardown =========================================================== */

/* True if there are no pages, and no new ones can be allocated. */
static bool without_pages(struct mktme_key *key)
{
	guard(mutex)(&keys_lock);
	return test_bit(mktme_key_keyid(key), occupied) &&
	       atomic_read(&key->ending) && percpu_ref_is_zero(&key->pages);
}

/* Queued for the last user and the last page; the later one finishes. */
static void forget_key(struct work_struct *work)
{
	struct mktme_key *key = container_of(work, struct mktme_key, forget_work);
	unsigned int keyid = mktme_key_keyid(key);

	if (!without_pages(key))
		return;
	/*
	 * Outside keys_lock, because it may take long and others create keys
	 * meanwhile. None gets this KeyID before it is free, and no page with
	 * it comes back to the pool.
	 */
	mktme_pool_drain_keyid(keyid);

	guard(mutex)(&keys_lock);
	if (key->programmed) {
		mktme_forget(keyid);
		key->programmed = false;
	}
	/*
	 * Having no users is not enough: a late end_key() would kill the pages
	 * of the next key with this KeyID.
	 */
	if (!key->ended)
		return;

	percpu_ref_exit(&key->pages);
	misc_cg_uncharge(MISC_CG_RES_MKTME, key->cgroup, 1);
	put_misc_cg(key->cgroup);
	clear_bit(keyid, occupied);
	atomic_dec(&nr_ending);
	WRITE_ONCE(nr_freed, nr_freed + 1);
	wake_up_all(&keyid_freed);
}

static void no_pages(struct percpu_ref *ref)
{
	struct mktme_key *key = container_of(ref, struct mktme_key, pages);

	queue_work(system_dfl_wq, &key->forget_work);
}

static void end_pages(struct mktme_key *key)
{
	if (!atomic_xchg(&key->ending, 1))
		percpu_ref_kill(&key->pages);
}

static void end_key(struct work_struct *work)
{
	struct mktme_key *key = container_of(work, struct mktme_key, end_work);

	/* Per-CPU LRU batches hold references to pages. */
	lru_add_drain_all();
	end_pages(key);
	scoped_guard(mutex, &keys_lock)
		key->ended = true;
	/* The pages of a revoked key may already be gone. */
	queue_work(system_dfl_wq, &key->forget_work);
}

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
	atomic_inc(&nr_ending);
	queue_work(system_dfl_wq, &key->end_work);
}

/* === Creation =========================================================== */

/* Called under keys_lock. */
static int start_key(unsigned int keyid, const struct mktme_key_spec *spec)
{
	struct mktme_key *key = &keys[keyid];
	int err;

	err = percpu_ref_init(&key->pages, no_pages, 0, GFP_KERNEL);
	if (err)
		return err;
	err = mktme_program(keyid, spec);
	if (err) {
		percpu_ref_exit(&key->pages);
		return err;
	}
	refcount_set(&key->users, 1);
	atomic_set(&key->ending, 0);
	key->ended = false;
	key->revoked = false;
	key->programmed = true;
	key->algorithm = spec->algorithm;
	set_bit(keyid, occupied);
	return 0;
}

/* Returns the KeyID; -ENOSPC if none is free, -EBUSY at the cgroup limit. */
static int occupy(const struct mktme_key_spec *spec)
{
	unsigned int end = mktme_nr_keyids() + 1;
	struct misc_cg *cgroup;
	unsigned int keyid;
	int err;

	guard(mutex)(&keys_lock);
	keyid = find_next_zero_bit(occupied, end, 1);
	if (keyid >= end)
		return -ENOSPC;
	cgroup = get_current_misc_cg();
	err = misc_cg_try_charge(MISC_CG_RES_MKTME, cgroup, 1);
	if (err) {
		put_misc_cg(cgroup);
		return err;
	}
	err = start_key(keyid, spec);
	if (err) {
		misc_cg_uncharge(MISC_CG_RES_MKTME, cgroup, 1);
		put_misc_cg(cgroup);
		return err;
	}
	keys[keyid].cgroup = cgroup;
	return keyid;
}

/* Closing the last descriptor frees the KeyID later: wait for that. */
static int occupy_soon(const struct mktme_key_spec *spec)
{
	for (;;) {
		unsigned long seen = READ_ONCE(nr_freed);
		int ret = occupy(spec);
		long left;

		if (ret != -ENOSPC && ret != -EBUSY)
			return ret;
		if (READ_ONCE(nr_freed) == seen && !atomic_read(&nr_ending))
			return ret;
		left = wait_event_killable_timeout(keyid_freed,
						   READ_ONCE(nr_freed) != seen,
						   FREED_TIMEOUT);
		if (left <= 0)
			return left ? -EINTR : ret;
	}
}

/**
 * mktme_key_new() - Create a key.
 * @spec: the key; can be wiped afterwards.
 *
 * Context: process, may sleep.
 * Return: the key with one user, or ERR_PTR(): -ENOSPC if no KeyID is free,
 * -EBUSY at the cgroup limit, -ENODEV if a package has no online CPU, -EAGAIN
 * if the system is about to sleep, -EIO if programming fails, -EINTR, -ENOMEM.
 */
struct mktme_key *mktme_key_new(const struct mktme_key_spec *spec)
{
	int ret;

	mktme_activate();
	ret = occupy_soon(spec);
	return ret < 0 ? ERR_PTR(ret) : &keys[ret];
}

/**
 * mktme_reserve_keyid() - Create a random key for use by the kernel.
 *
 * Context: process, may sleep.
 * Return: its KeyID, the lowest free one; or an error of mktme_key_new().
 */
int mktme_reserve_keyid(void)
{
	struct mktme_key_spec spec = {
		.algorithm = mktme_algorithm(0),
		.random = true,
	};
	struct mktme_key *key = mktme_key_new(&spec);

	return IS_ERR(key) ? PTR_ERR(key) : mktme_key_keyid(key);
}

/**
 * mktme_release_keyid() - Drop a key of the kernel.
 * @keyid: the KeyID from mktme_reserve_keyid().
 *
 * Context: process.
 */
void mktme_release_keyid(unsigned int keyid)
{
	mktme_key_put(&keys[keyid]);
}

static int __init init_keys(void)
{
	unsigned int keyid;

	/* Not for each key: work on the previous key may still be pending. */
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		INIT_WORK(&keys[keyid].end_work, end_key);
		INIT_WORK(&keys[keyid].forget_work, forget_key);
	}
	return misc_cg_set_capacity(MISC_CG_RES_MKTME, mktme_nr_keyids());
}
early_initcall(init_keys);

/* === State and references =============================================== */

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

/**
 * mktme_key_forbid() - Forbid page faults and allocations under a key.
 * @key: the key; it is forgotten once its last page is free.
 *
 * Context: process, may sleep.
 */
void mktme_key_forbid(struct mktme_key *key)
{
	WRITE_ONCE(key->revoked, true);
	if (mktme_bug(MKTME_BUG_FORGET))
		mktme_forget(mktme_key_keyid(key));
	end_pages(key);
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

/**
 * mktme_keyid_get_pages() - Take references for pages that get a KeyID.
 * @keyid: the KeyID.
 * @nr: number of pages, which may also come out of the pool.
 *
 * Return: false if the key is being forgotten.
 */
bool mktme_keyid_get_pages(unsigned int keyid, unsigned int nr)
{
	return percpu_ref_tryget_many(&keys[keyid].pages, nr);
}

/**
 * mktme_keyid_put_pages() - Drop references for pages that lose a KeyID.
 * @keyid: the KeyID.
 * @nr: number of pages, which may also go into the pool.
 */
void mktme_keyid_put_pages(unsigned int keyid, unsigned int nr)
{
	percpu_ref_put_many(&keys[keyid].pages, nr);
}

void __mktme_get_vma(const struct vm_area_struct *vma)
{
	/* The key of mktme_anon= is never forgotten. */
	if (vma_keyid(vma) != mktme_anon_keyid())
		refcount_inc(&keys[vma_keyid(vma)].users);
}

void __mktme_put_vma(const struct vm_area_struct *vma)
{
	if (vma_keyid(vma) != mktme_anon_keyid())
		mktme_key_put(&keys[vma_keyid(vma)]);
}

bool __mktme_forbids_access(const struct vm_area_struct *vma)
{
	return mktme_key_revoked(&keys[vma_keyid(vma)]);
}

#ifdef CONFIG_X86_MKTME_KUNIT_TEST
#include "keys_test.c"
#endif
