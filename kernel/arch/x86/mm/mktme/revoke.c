// SPDX-License-Identifier: GPL-2.0-only
/* Revoking a key. */
#include <linux/delay.h>
#include <linux/mktme.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/swap.h>

#include "keys.h"
#include "mktme.h"

/* Pages that are still held after that are not waited for. */
#define PASSES		50
#define PASS_MS		10

static void mktme_zap_mm(struct mm_struct *mm, unsigned int keyid)
{
	struct vm_area_struct *vma;

	VMA_ITERATOR(vmi, mm, 0);

	mmap_read_lock(mm);
	for_each_vma(vmi, vma)
		if (vma_keyid(vma) == keyid)
			zap_vma(vma);
	mmap_read_unlock(mm);
}

/* Get the mm of the next thread, from this PID on; the caller puts it. */
static struct mm_struct *mktme_next_mm(int *nr)
{
	struct task_struct *task;
	struct mm_struct *mm;
	struct pid *pid;

	for (;;) {
		scoped_guard(rcu) {
			pid = find_ge_pid(*nr, &init_pid_ns);
			if (!pid)
				return NULL;
			*nr = pid_nr(pid) + 1;
			task = get_pid_task(pid, PIDTYPE_PID);
		}
		if (!task)
			continue;
		mm = get_task_mm(task);
		put_task_struct(task);
		if (mm)
			return mm;
	}
}

static void mktme_zap_all(unsigned int keyid)
{
	struct mm_struct *mm, *last = NULL;
	int nr = 1;

	/* Threads of a process mostly follow each other. */
	while ((mm = mktme_next_mm(&nr))) {
		if (mm != last)
			mktme_zap_mm(mm, keyid);
		last = mm;
		mmput(mm);
		cond_resched();
	}
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
