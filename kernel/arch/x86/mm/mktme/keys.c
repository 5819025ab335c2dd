// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys, and the KeyIDs that they occupy.
 *
 * A key is used by descriptors and VMAs; when there are none any more, it has
 * no use for new memory. But pages may be left that somebody holds, under its
 * KeyID. Only when these are free, too, the CPUs forget the key, and its KeyID
 * can be that of another.
 *
 * A key that is revoked is forgotten as soon as there are no pages, but keeps
 * its KeyID: VMAs still have that, and must not see what another key encrypts.
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
 * struct mktme_key - a key, and who uses its KeyID.
 * @users: descriptors and VMAs.
 * @pages: allocated pages. Killed when none are to be allocated any more, which
 *	is when there are no users, or the key is revoked.
 * @ending: @pages has been killed.
 * @ended: @end_work has done all it does with the key. Under keys_lock.
 * @revoked: no memory may be accessed.
 * @programmed: the CPUs know the key. Under keys_lock.
 * @algorithm: of its encryption.
 * @cgroup: is charged for the KeyID.
 * @end_work: when there are no users.
 * @forget_work: when there are no pages, or no users any more.
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

/* By KeyID; that of KeyID 0 is not used. */
static struct mktme_key keys[MKTME_MAX_KEYIDS + 1];
static DECLARE_BITMAP(occupied, MKTME_MAX_KEYIDS + 1);
/* Protects what is occupied, and that only one at a time programs. */
static DEFINE_MUTEX(keys_lock);
/* A KeyID is free again. */
static DECLARE_WAIT_QUEUE_HEAD(keyid_freed);
static unsigned long nr_freed;
/* Keys without users. */
static atomic_t nr_ending = ATOMIC_INIT(0);

/* How long to wait for one: somebody may hold its pages for ever. */
#define FREED_TIMEOUT	HZ

/**
 * mktme_key_keyid() - The KeyID that a key occupies.
 * @key: the key.
 *
 * Return: the KeyID.
 */
unsigned int mktme_key_keyid(const struct mktme_key *key)
{
	return key - keys;
}

/* === Teardown =========================================================== */

/* It has none, and never has one again. */
static bool without_pages(struct mktme_key *key)
{
	guard(mutex)(&keys_lock);
	return test_bit(mktme_key_keyid(key), occupied) &&
	       atomic_read(&key->ending) && percpu_ref_is_zero(&key->pages);
}

/* Whoever comes last has all work done: no users, or no pages. */
static void forget_key(struct work_struct *work)
{
	struct mktme_key *key = container_of(work, struct mktme_key, forget_work);
	unsigned int keyid = mktme_key_keyid(key);

	if (!without_pages(key))
		return;
	/*
	 * That may take long, and others make keys meanwhile. None gets this
	 * KeyID before it is free, and no page comes back to the pool with it.
	 */
	mktme_pool_drain_keyid(keyid);

	guard(mutex)(&keys_lock);
	if (key->programmed) {
		mktme_forget(keyid);
		key->programmed = false;
	}
	/*
	 * That there are no users is not enough: end_key() may be late, and
	 * would kill the pages of the next key that has this KeyID.
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

	/* CPUs hold back pages that have just been used. */
	lru_add_drain_all();
	end_pages(key);
	scoped_guard(mutex, &keys_lock)
		key->ended = true;
	/* Of one that has been revoked, the pages may have come to their end. */
	queue_work(system_dfl_wq, &key->forget_work);
}

/**
 * mktme_key_put() - A descriptor or a VMA does not use a key any more.
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

/* Under keys_lock. */
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

/* The KeyID; -ENOSPC if there is none, -EBUSY if the cgroup may not have it. */
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

/* Closing the last descriptor does not wait for the end of its key: wait here. */
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
 * mktme_key_new() - Make a key.
 * @spec: what it is; can be wiped afterwards.
 *
 * Context: process, may sleep.
 * Return: the key, with one user; ERR_PTR() of -ENOSPC if no KeyID is free,
 * -EBUSY if the cgroup may not have another, -ENODEV if a package has no CPU that
 * could be programmed, -EAGAIN if the machine is about to sleep, -EIO if they
 * refuse, -EINTR, -ENOMEM.
 */
struct mktme_key *mktme_key_new(const struct mktme_key_spec *spec)
{
	int ret;

	mktme_activate();
	ret = occupy_soon(spec);
	return ret < 0 ? ERR_PTR(ret) : &keys[ret];
}

/**
 * mktme_reserve_keyid() - Make a random key for the kernel itself.
 *
 * Context: process, may sleep.
 * Return: its KeyID, the first that is free; or an error of mktme_key_new().
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
 * mktme_release_keyid() - The kernel does not need its key any more.
 * @keyid: the KeyID of mktme_reserve_keyid().
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

	/* Once, as work on one that had the same KeyID may come late. */
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		INIT_WORK(&keys[keyid].end_work, end_key);
		INIT_WORK(&keys[keyid].forget_work, forget_key);
	}
	return misc_cg_set_capacity(MISC_CG_RES_MKTME, mktme_nr_keyids());
}
early_initcall(init_keys);

/* === State and references =============================================== */

/**
 * mktme_key_algorithm() - How memory under a key is encrypted.
 * @key: the key.
 *
 * Return: MKTME_AES_XTS_128 or MKTME_AES_XTS_256.
 */
u32 mktme_key_algorithm(const struct mktme_key *key)
{
	return key->algorithm;
}

/**
 * mktme_key_revoked() - Has a key been taken back?
 * @key: the key.
 *
 * Return: whether it has.
 */
bool mktme_key_revoked(const struct mktme_key *key)
{
	return READ_ONCE(key->revoked);
}

/**
 * mktme_key_forbid() - Let there be no faults under a key any more.
 * @key: the key; at some time there are no pages, then it is forgotten.
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
 * mktme_key_in_memory() - Are there pages under a key that has been forbidden?
 * @key: the key.
 *
 * Return: whether there are, or may be for a moment.
 */
bool mktme_key_in_memory(struct mktme_key *key)
{
	return !percpu_ref_is_zero(&key->pages);
}

/**
 * mktme_keyid_get_pages() - Pages are going to have a KeyID, or leave the pool.
 * @keyid: the KeyID.
 * @nr: how many.
 *
 * Return: false if its key is being forgotten.
 */
bool mktme_keyid_get_pages(unsigned int keyid, unsigned int nr)
{
	return percpu_ref_tryget_many(&keys[keyid].pages, nr);
}

/**
 * mktme_keyid_put_pages() - Pages have lost a KeyID, or are in the pool.
 * @keyid: the KeyID.
 * @nr: how many.
 */
void mktme_keyid_put_pages(unsigned int keyid, unsigned int nr)
{
	percpu_ref_put_many(&keys[keyid].pages, nr);
}

/* A VMA has been made from another, which has a KeyID. */
void __mktme_get_vma(const struct vm_area_struct *vma)
{
	/* The key of all is not forgotten. */
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
