// SPDX-License-Identifier: GPL-2.0-only
/* A leak about keys of pointer authentication. */
#include <linux/kpkeys_secret.h>
#include <linux/kpkeys_task.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/stddef.h>
#include <linux/uaccess.h>

#include <asm/pointer_auth.h>

#include "internal.h"

static unsigned long where_key_is(struct task_struct *task)
{
#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
	if (kpkeys_hardened_ptrauth_enabled())
		return (unsigned long)kpkeys_task_of(task)->ptrauth_keys->data +
		       offsetof(struct ptrauth_keys_user, apga);
#endif
	return (unsigned long)&task->thread.keys_user.apga;
}

int kpkeys_vuln_leak_ptrauth(void __user *arg)
{
	struct kpkeys_vuln_ptrauth k;
	struct task_struct *task;

	if (copy_from_user(&k, arg, sizeof(k)))
		return -EFAULT;
	task = find_get_task_by_vpid(k.pid);
	if (!task)
		return -ESRCH;
	k.addr = where_key_is(task);
	put_task_struct(task);
	return copy_to_user(arg, &k, sizeof(k)) ? -EFAULT : 0;
}
