// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which processes have memory under which KeyID, or had it: revoking a key need
 * look at no others.
 */
#include <linux/bits.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>

#include <asm/mktme.h>

#include "mktme.h"

static_assert(MKTME_MAX_KEYIDS < 64);

/* In the order in which they got their first memory under a key. */
static LIST_HEAD(mms);
/* Protects the list, and mktme_keyids of all processes. */
static DEFINE_SPINLOCK(mms_lock);

void mktme_init_context(struct mm_struct *mm)
{
	INIT_LIST_HEAD(&mm->context.mktme_mms);
	mm->context.mktme_keyids = 0;
}

void mktme_destroy_context(struct mm_struct *mm)
{
	/* By now nobody adds it. */
	if (list_empty(&mm->context.mktme_mms))
		return;
	guard(spinlock)(&mms_lock);
	list_del(&mm->context.mktme_mms);
}

void mktme_note_mm(struct mm_struct *mm, unsigned int keyid)
{
	guard(spinlock)(&mms_lock);
	mm->context.mktme_keyids |= BIT_ULL(keyid);
	if (list_empty(&mm->context.mktme_mms))
		list_add_tail(&mm->context.mktme_mms, &mms);
}

/**
 * mktme_unnote_mm() - Note that a process has no memory under a KeyID.
 * @mm: the process.
 * @keyid: the KeyID, which no VMA has.
 *
 * Context: the mmap lock of @mm is held, so that it gets no such memory.
 */
void mktme_unnote_mm(struct mm_struct *mm, unsigned int keyid)
{
	guard(spinlock)(&mms_lock);
	mm->context.mktme_keyids &= ~BIT_ULL(keyid);
}

/**
 * mktme_next_mm() - Find the next process with memory under a KeyID.
 * @last: the one before that, which the caller has still got; or NULL.
 * @keyid: the KeyID.
 *
 * Context: any that may take a spinlock.
 * Return: the process, which the caller puts; or NULL.
 */
struct mm_struct *mktme_next_mm(struct mm_struct *last, unsigned int keyid)
{
	struct mm_struct *mm;

	guard(spinlock)(&mms_lock);
	mm = list_prepare_entry(last, &mms, context.mktme_mms);
	list_for_each_entry_continue(mm, &mms, context.mktme_mms)
		if (mm->context.mktme_keyids & BIT_ULL(keyid) &&
		    mmget_not_zero(mm))
			return mm;
	return NULL;
}
