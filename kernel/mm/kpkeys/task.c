// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks: find out who a task is, whatever the pointers in it say.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/align.h>
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/kpkeys_cred.h>
#include <linux/mm.h>
#include <linux/panic.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

#include "cred.h"
#include "kpkeys.h"
#include "objects.h"

/**
 * __kpkeys_task_of() - As kpkeys_task_of(), wherever the object lies.
 * @task: the task.
 *
 * Context: any but NMIs.
 * Return: in protected memory.
 */
const struct kpkeys_task *__kpkeys_task_of(const struct task_struct *task)
{
	const struct kpkeys_task *id = READ_ONCE(task->kpkeys_task);

	if (likely(kpkeys_object_is(KPKEYS_OBJECT_TASK, id) && id->task == task))
		return id;

	kpkeys_violation_refused("identity of %s[%d] replaced", task->comm,
				 task_pid_nr((struct task_struct *)task));
	kpkeys_violation_kill();
	id = kpkeys_object_search(KPKEYS_OBJECT_TASK, offsetof(struct kpkeys_task, task),
				  (unsigned long)task);
	if (!id)
		panic("kpkeys: a task without identity\n");
	return id;
}
EXPORT_SYMBOL(__kpkeys_task_of);

#ifdef arch_kpkeys_set_current
/*
 * The scheduler switches stacks before it says which task is current, and what is
 * traced in between may ask. Forged, this spares an attacker the report only.
 */
static bool kpkeys_task_is_switched(const struct task_struct *from,
				    const struct task_struct *to)
{
	return irqs_disabled() && READ_ONCE(from->on_cpu) && READ_ONCE(to->on_cpu) &&
	       task_cpu(from) == raw_smp_processor_id();
}

/**
 * __kpkeys_task_here() - As kpkeys_task_here(), of code on another stack.
 * @id: the current task, if the word in memory is right.
 *
 * The preemption count, which would tell interrupts, is a word in memory, too.
 *
 * Context: any.
 * Return: in protected memory.
 */
const struct kpkeys_task *__kpkeys_task_here(const struct kpkeys_task *id)
{
	unsigned long stack = ALIGN_DOWN(current_stack_pointer, THREAD_SIZE);
	const struct kpkeys_task *real;

	/* That of an NMI, which must not wait for a lock, is neither. */
	if (!is_vmalloc_addr((void *)stack) && !virt_addr_valid((void *)stack))
		return id;
	real = kpkeys_object_search(KPKEYS_OBJECT_TASK, offsetof(struct kpkeys_task, stack),
				    stack);
	if (!real || real == id)
		return id;
	if (kpkeys_task_is_switched(id->task, real->task))
		return real;

	/* Before anything else is done to the current task. */
	arch_kpkeys_set_current((struct task_struct *)real->task);
	kpkeys_violation_refused("current task replaced by %s[%d]", id->task->comm,
				 task_pid_nr((struct task_struct *)id->task));
	kpkeys_violation_kill();
	return real;
}
EXPORT_SYMBOL(__kpkeys_task_here);
#endif

/**
 * kpkeys_task_current() - As kpkeys_task_here(), to write.
 *
 * No exception for stacks of interrupts.
 *
 * Context: process context.
 * Return: in protected memory, to be written at the level of credentials.
 */
struct kpkeys_task *kpkeys_task_current(void)
{
	unsigned long here = (unsigned long)__builtin_frame_address(0);
	const struct kpkeys_task *id = kpkeys_task_here();

	if (here - id->stack >= THREAD_SIZE)
		panic("kpkeys: the current task has another stack\n");
	return (struct kpkeys_task *)id;
}

/**
 * kpkeys_task_alloc() - Have a new task be somebody.
 * @task: the task.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int kpkeys_task_alloc(struct task_struct *task)
{
	struct kpkeys_task *id;

	task->kpkeys_task = NULL;
	if (!kpkeys_hardened_cred_enabled())
		return 0;
	id = kpkeys_object_alloc(KPKEYS_OBJECT_TASK);
	if (!id)
		return -ENOMEM;

	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_CRED);
		id->task = task;
		kpkeys_lower();
	}
	task->kpkeys_task = id;
	return 0;
}

/**
 * kpkeys_task_leave_stack() - Note that a task has no stack any more.
 * @task: the task, which is dead. The next task that gets the stack is not it.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_task_leave_stack(struct task_struct *task)
{
	struct kpkeys_task *id;

	if (!kpkeys_hardened_cred_enabled())
		return;
	id = (struct kpkeys_task *)kpkeys_task_of(task);
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	WRITE_ONCE(id->stack, 0);
	kpkeys_lower();
}

/**
 * kpkeys_task_free() - Forget who a task was.
 * @task: the task, which nobody can find any more.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_task_free(struct task_struct *task)
{
	if (kpkeys_hardened_cred_enabled())
		kpkeys_object_free(KPKEYS_OBJECT_TASK, (void *)kpkeys_task_of(task));
}
