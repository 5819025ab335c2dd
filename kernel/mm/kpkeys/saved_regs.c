// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saved registers: what user mode goes on with is what it stopped with.
 *
 * While a task does not run, its user registers are in ordinary memory. They
 * are noted before another task runs, and compared when this one runs again.
 * Code that changes them meanwhile, as ptrace does, notes them anew. There are no
 * exceptions for threads of the kernel, whose flag is in ordinary memory too.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_task.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>

#include "kpkeys.h"

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_regs_key);

static __always_inline bool kpkeys_regs_differ(const unsigned long *a,
					       const unsigned long *b)
{
	unsigned long difference = 0;
	unsigned int i;

	/* In each context switch: a loop would take twice as many instructions. */
#pragma GCC unroll 64
	for (i = 0; i < KPKEYS_NR_REGS; i++)
		difference |= (a[i] ^ b[i]) & arch_kpkeys_reg_mask(i);
	return difference;
}

/**
 * __kpkeys_regs_save() - As kpkeys_regs_save(), of hardened tasks.
 * @task: the task.
 *
 * Context: any but NMIs.
 */
void __kpkeys_regs_save(struct task_struct *task)
{
	struct kpkeys_task *id = (struct kpkeys_task *)kpkeys_task_of(task);
	const unsigned long *regs = arch_kpkeys_user_regs(task, id->stack);

	/* Often a task waits in the same place again. */
	if (!kpkeys_regs_differ(id->regs, regs))
		return;
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	memcpy(id->regs, regs, sizeof(id->regs));
	kpkeys_lower();
}

/**
 * __kpkeys_regs_check() - As kpkeys_regs_check(), of hardened tasks.
 * @task: the task.
 *
 * Context: any but NMIs.
 */
void __kpkeys_regs_check(struct task_struct *task)
{
	const struct kpkeys_task *id = kpkeys_task_find(task);
	unsigned long *regs = arch_kpkeys_user_regs(task, id->stack);
	unsigned int i;

	if (likely(!kpkeys_regs_differ(id->regs, regs)))
		return;
	kpkeys_violation_refused("saved registers of %s[%d] altered", task->comm,
				 task_pid_nr(task));
	for (i = 0; i < KPKEYS_NR_REGS; i++)
		regs[i] ^= (regs[i] ^ id->regs[i]) & arch_kpkeys_reg_mask(i);
}

kpkeys_boot_switch(enable, "kpkeys_hardened_regs");

/**
 * kpkeys_hardened_regs_init() - Start to compare registers.
 *
 * Context: boot, one CPU, one task, which has an identity.
 */
void __init kpkeys_hardened_regs_init(void)
{
	if (!enable) {
		pr_info("saved registers not hardened: disabled by kpkeys_hardened_regs=off\n");
		return;
	}
	static_branch_enable(&kpkeys_hardened_regs_key);
	pr_info("saved registers hardened\n");
}
