/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credentials as objects. Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_CRED_H
#define __MM_KPKEYS_CRED_H

#include <linux/atomic.h>
#include <linux/cred.h>

/**
 * enum kpkeys_cred_state - what may happen to credentials.
 * @KPKEYS_CRED_FREE: nothing: there are none.
 * @KPKEYS_CRED_PREPARED: the task that prepares them may write to them.
 * @KPKEYS_CRED_COMMITTED: tasks have them, or had.
 * @KPKEYS_CRED_DEAD: their last reference is gone, and so are all tasks.
 */
enum kpkeys_cred_state {
	KPKEYS_CRED_FREE,
	KPKEYS_CRED_PREPARED,
	KPKEYS_CRED_COMMITTED,
	KPKEYS_CRED_DEAD,
};

/**
 * struct kpkeys_cred - credentials, and what decides about them. Protected.
 * @cred: the credentials.
 * @builder: the task that prepares them.
 * @shared_with: tasks that have these credentials may commit them as well; or
 *	NULL.
 * @pins: how often tasks have them, which the count of references, in ordinary
 *	memory, may deny.
 * @state: enum kpkeys_cred_state.
 */
struct kpkeys_cred {
	struct cred cred;
	const struct task_struct *builder;
	const struct cred *shared_with;
	atomic_t pins;
	int state;
};

struct kpkeys_cred *kpkeys_cred_of(const struct cred *cred);

#endif /* __MM_KPKEYS_CRED_H */
