// SPDX-License-Identifier: GPL-2.0-only
/* Revoking a key. */
#include <linux/delay.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>

#include "keys.h"
#include "mktme.h"

/* Pages that are still held after that are not waited for. */
#define PASSES		50
#define PASS_MS		10

static void mktme_zap_mm(struct mm_struct *mm, unsigned int keyid)
{
	struct vm_area_struct *vma;
	bool found = false;

	VMA_ITERATOR(vmi, mm, 0);

	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		if (vma_keyid(vma) != keyid)
			continue;
		zap_vma(vma);
		found = true;
	}
	if (!found)
		mktme_unnote_mm(mm, keyid);
	mmap_read_unlock(mm);
}

static void mktme_zap_all(unsigned int keyid)
{
	struct mm_struct *mm = NULL, *next;

	while ((next = mktme_next_mm(mm, keyid))) {
		if (mm)
			mmput(mm);
		mm = next;
		mktme_zap_mm(mm, keyid);
		cond_resched();
	}
	if (mm)
		mmput(mm);
}

/**
 * mktme_key_revoke() - Revoke a key.
 * @key: the key.
 *
 * Forbids new memory under the key, and unmaps existing memory from all
 * processes, which get SIGBUS on access.
 *
 * Context: process, may sleep.
 * Return: 0 if no memory is left and the CPUs forget the key; -EAGAIN if some
 * is still held; -EINTR. The key is revoked in any case, and the call can be
 * repeated.
 */
int mktme_key_revoke(struct mktme_key *key)
{
	unsigned int pass;

	mktme_key_forbid(key);
	/* The first pass may miss a process that is being forked. */
	for (pass = 0; pass < PASSES && mktme_key_in_memory(key); pass++) {
		mktme_zap_all(mktme_key_keyid(key));
		/* Per-CPU LRU batches hold references to new pages. */
		lru_add_drain_all();
		if (msleep_interruptible(PASS_MS))
			return -EINTR;
	}
	return mktme_key_in_memory(key) ? -EAGAIN : 0;
}
