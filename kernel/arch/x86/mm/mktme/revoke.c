// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking a key back from all processes.
 */
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

/* What somebody holds for longer is not waited for. */
#define PASSES		50
#define PASS_MS		10

static void zap_mm(struct mm_struct *mm, unsigned int keyid)
{
	struct vm_area_struct *vma;

	VMA_ITERATOR(vmi, mm, 0);

	mmap_read_lock(mm);
	for_each_vma(vmi, vma)
		if (vma_keyid(vma) == keyid)
			zap_vma(vma);
	mmap_read_unlock(mm);
}

/* The memory of the next thread, from this PID on; to be put. */
static struct mm_struct *next_mm(int *nr)
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

static void zap_all(unsigned int keyid)
{
	struct mm_struct *mm, *last = NULL;
	int nr = 1;

	/* Most threads have that of the one before. */
	while ((mm = next_mm(&nr))) {
		if (mm != last)
			zap_mm(mm, keyid);
		last = mm;
		mmput(mm);
		cond_resched();
	}
}

/**
 * mktme_key_revoke() - Have no memory under a key any more.
 * @key: the key.
 *
 * From now on nobody can have new memory under it. What there is of processes
 * is taken away: they get SIGBUS when they access it.
 *
 * Context: process, may sleep.
 * Return: 0 if there is none left, and the CPUs forget the key; -EAGAIN if
 * somebody holds some of it; -EINTR. It is revoked in any case, and can be
 * tried again.
 */
int mktme_key_revoke(struct mktme_key *key)
{
	unsigned int pass;

	mktme_key_forbid(key);
	/* A process that is just being forked may not be seen at first. */
	for (pass = 0; pass < PASSES && mktme_key_in_memory(key); pass++) {
		zap_all(mktme_key_keyid(key));
		/* CPUs hold back what has just been faulted in. */
		lru_add_drain_all();
		if (msleep_interruptible(PASS_MS))
			return -EINTR;
	}
	return mktme_key_in_memory(key) ? -EAGAIN : 0;
}
