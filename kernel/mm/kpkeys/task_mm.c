// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address spaces: which one a task has, whatever task->mm says.
 *
 * The scheduler loads the page tables that task->mm leads to, and system calls
 * map and unmap there.
 */
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_task.h>
#include <linux/sched.h>

#include "kpkeys.h"

/**
 * __kpkeys_task_set_mm() - As kpkeys_task_set_mm(), of hardened tasks.
 * @task: the task.
 * @mm: the address space or NULL.
 *
 * Context: as kpkeys_task_set_mm().
 */
void __kpkeys_task_set_mm(struct task_struct *task, struct mm_struct *mm)
{
	struct kpkeys_task *id = kpkeys_task_find(task);

	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	WRITE_ONCE(id->mm, mm);
	kpkeys_lower();
}

/**
 * __kpkeys_task_repair_mm() - Have a task point to its address space again.
 * @task: the task, which points to another.
 *
 * Context: as kpkeys_task_mm().
 */
void __kpkeys_task_repair_mm(struct task_struct *task)
{
	struct mm_struct *mm = READ_ONCE(kpkeys_task_of(task)->mm);

	kpkeys_violation_refused("address space of %s[%d] replaced by 0x%lx", task->comm,
				 task_pid_nr(task), (unsigned long)task->mm);
	if (mm)
		task->active_mm = mm;
	task->mm = mm;
	if (task == current)
		kpkeys_violation_kill();
}

/**
 * __kpkeys_verify_mm() - As kpkeys_verify_mm(), of hardened tasks.
 * @mm: the address space.
 *
 * Context: process context.
 */
void __kpkeys_verify_mm(const struct mm_struct *mm)
{
	struct task_struct *task = current;
	const struct kpkeys_task *id = kpkeys_task_of(task);

	/* Else the caller has the address space of the other task by now. */
	if (kpkeys_task_is_here(id) || __kpkeys_task_here(id) == id) {
		if (mm != task->mm || likely(READ_ONCE(id->mm) == mm))
			return;
		/* Its end is to be the end of its own address space. */
		__kpkeys_task_repair_mm(task);
	}
	if (!kpkeys_violation_is_expected())
		kpkeys_violation_die(NULL, 0);
}
EXPORT_SYMBOL(__kpkeys_verify_mm);
