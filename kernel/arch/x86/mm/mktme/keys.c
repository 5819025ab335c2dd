// SPDX-License-Identifier: GPL-2.0-only
/*
 * How keys get their KeyIDs, and lose them again.
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
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/refcount.h>
#include <linux/swap.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "keys.h"
#include "mktme.h"

static DECLARE_BITMAP(occupied, MKTME_MAX_KEYIDS + 1);
/* Protects occupied, and serialises programming. */
static DEFINE_MUTEX(keys_lock);
/* Woken when a KeyID becomes free. */
static DECLARE_WAIT_QUEUE_HEAD(keyid_freed);
static unsigned long nr_freed;

/* Bound on waiting for a KeyID: its pages may be held forever. */
#define FREED_TIMEOUT	HZ

/* === Teardown =========================================================== */

/* True if there are no pages, and no new ones can be allocated. */
static bool mktme_key_without_pages(struct mktme_key *key)
{
	guard(mutex)(&keys_lock);
	return test_bit(mktme_key_keyid(key), occupied) &&
	       atomic_read(&key->ending) && percpu_ref_is_zero(&key->pages);
}

/* Queued for the last user and the last page; the later one finishes. */
static void mktme_key_forget_work(struct work_struct *work)
{
	struct mktme_key *key = container_of(work, struct mktme_key, forget_work);
	unsigned int keyid = mktme_key_keyid(key);

	if (!mktme_key_without_pages(key))
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
	 * Having no users is not enough: a late mktme_key_end_work() would kill
	 * the pages of the next key with this KeyID.
	 */
	if (!key->ended)
		return;

	percpu_ref_exit(&key->pages);
	misc_cg_uncharge(MISC_CG_RES_MKTME, key->cgroup, 1);
	put_misc_cg(key->cgroup);
	clear_bit(keyid, occupied);
	atomic_dec(&mktme_keys_ending);
	WRITE_ONCE(nr_freed, nr_freed + 1);
	wake_up_all(&keyid_freed);
}

static void mktme_key_no_pages(struct percpu_ref *ref)
{
	struct mktme_key *key = container_of(ref, struct mktme_key, pages);

	queue_work(system_dfl_wq, &key->forget_work);
}

static void mktme_key_end_pages(struct mktme_key *key)
{
	if (!atomic_xchg(&key->ending, 1))
		percpu_ref_kill(&key->pages);
}

static void mktme_key_end_work(struct work_struct *work)
{
	struct mktme_key *key = container_of(work, struct mktme_key, end_work);

	/* Per-CPU LRU batches hold references to pages. */
	lru_add_drain_all();
	mktme_key_end_pages(key);
	scoped_guard(mutex, &keys_lock)
		key->ended = true;
	/* The pages of a revoked key may already be gone. */
	queue_work(system_dfl_wq, &key->forget_work);
}

/* === Creation =========================================================== */

/* Called under keys_lock. */
static int mktme_key_start(unsigned int keyid,
			   const struct mktme_key_spec *spec)
{
	struct mktme_key *key = &mktme_keys[keyid];
	int err;

	err = percpu_ref_init(&key->pages, mktme_key_no_pages, 0, GFP_KERNEL);
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
static int mktme_key_occupy(const struct mktme_key_spec *spec)
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
	err = mktme_key_start(keyid, spec);
	if (err) {
		misc_cg_uncharge(MISC_CG_RES_MKTME, cgroup, 1);
		put_misc_cg(cgroup);
		return err;
	}
	mktme_keys[keyid].cgroup = cgroup;
	return keyid;
}

/* Closing the last descriptor frees the KeyID later: wait for that. */
static int mktme_key_occupy_soon(const struct mktme_key_spec *spec)
{
	for (;;) {
		unsigned long seen = READ_ONCE(nr_freed);
		int ret = mktme_key_occupy(spec);
		long left;

		if (ret != -ENOSPC && ret != -EBUSY)
			return ret;
		if (READ_ONCE(nr_freed) == seen &&
		    !atomic_read(&mktme_keys_ending))
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
	int ret = mktme_key_occupy_soon(spec);

	if (ret < 0)
		return ERR_PTR(ret);
	/* Before there is memory under the key, and not if there will be none. */
	mktme_activate();
	return &mktme_keys[ret];
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

static int __init mktme_keys_init(void)
{
	unsigned int keyid;

	/* Not for each key: work on the previous key may still be pending. */
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		INIT_WORK(&mktme_keys[keyid].end_work, mktme_key_end_work);
		INIT_WORK(&mktme_keys[keyid].forget_work,
			  mktme_key_forget_work);
	}
	return misc_cg_set_capacity(MISC_CG_RES_MKTME, mktme_nr_keyids());
}
early_initcall(mktme_keys_init);

/* === Revocation ========================================================= */

/**
 * mktme_key_forbid() - Forbid page faults and allocations under a key.
 * @key: the key; it is forgotten once its last page is free.
 *
 * Context: process, may sleep.
 */
void mktme_key_forbid(struct mktme_key *key)
{
	WRITE_ONCE(key->revoked, true);
	mktme_key_end_pages(key);
}

#ifdef CONFIG_X86_MKTME_KUNIT_TEST
#include "tests/keys_test.c"
#endif
