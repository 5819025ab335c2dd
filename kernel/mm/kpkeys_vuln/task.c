// SPDX-License-Identifier: GPL-2.0-only
/* Leaks about the kernel stack of a task. */
#include <linux/compiler.h>
#include <linux/extable.h>
#include <linux/kernel.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

#include "internal.h"

#ifndef CONFIG_UML
/* Exception entry may align the stack: to a cache line on x86. */
#ifdef CONFIG_ARM64
#define MAX_GAP		0

static unsigned long saved_sp(struct task_struct *task)
{
	return thread_saved_sp(task);
}
#else
#define MAX_GAP		63

static unsigned long saved_sp(struct task_struct *task)
{
	return task->thread.sp;
}
#endif

/*
 * Is this a pt_regs that a kernel-mode exception left on the stack? Locals that
 * nobody has set may have an older one. If the task blocks, that of an interrupt.
 */
static __no_kasan_or_inline bool is_frame(struct pt_regs *regs, bool asleep)
{
	unsigned long sp = kernel_stack_pointer(regs), ip = instruction_pointer(regs);

	if (user_mode(regs) || sp - (unsigned long)(regs + 1) > MAX_GAP)
		return false;
	return asleep ? !!search_exception_tables(ip) : __kernel_text_address(ip);
}

static void find_frame(struct task_struct *task, struct kpkeys_vuln_frame *f)
{
	unsigned long sp = saved_sp(task);

	/* The saved stack pointer is stale while the task runs. */
	if (task == current || task_curr(task) || sp < f->base || sp >= f->top)
		return;

	f->sp = sp;
	for (; sp + sizeof(struct pt_regs) < f->top; sp += sizeof(long)) {
		if (!is_frame((struct pt_regs *)sp, f->asleep))
			continue;
		f->regs = sp;
		return;
	}
}

/* One that was preempted as it was about to block has the frame of that. */
static bool is_blocked(struct task_struct *task)
{
	return !READ_ONCE(task->on_rq) || READ_ONCE(task->se.sched_delayed);
}

int kpkeys_vuln_leak_frame(void __user *arg)
{
	struct kpkeys_vuln_frame f;
	struct task_struct *task;
	void *stack;

	if (copy_from_user(&f, arg, sizeof(f)))
		return -EFAULT;

	task = find_get_task_by_vpid(f.pid);
	if (!task)
		return -ESRCH;
	stack = try_get_task_stack(task);
	if (!stack) {
		put_task_struct(task);
		return -ESRCH;
	}
	f.base = (unsigned long)stack;
	f.top = f.base + THREAD_SIZE;
	f.sp = 0;
	f.regs = 0;
	f.asleep = is_blocked(task);
	find_frame(task, &f);
	put_task_stack(task);
	put_task_struct(task);

	return copy_to_user(arg, &f, sizeof(f)) ? -EFAULT : 0;
}
#else
/* This architecture has no kernel-mode exceptions that sleep. */
int kpkeys_vuln_leak_frame(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

/* Only some architectures have the count. */
int kpkeys_vuln_leak_lazy(void __user *arg)
{
	u64 addr = 0;

#ifdef CONFIG_ARCH_HAS_LAZY_MMU_MODE
	addr = (unsigned long)&current->lazy_mmu_state.enable_count;
#endif
	return copy_to_user(arg, &addr, sizeof(addr)) ? -EFAULT : 0;
}
