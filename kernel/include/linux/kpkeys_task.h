/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Identities of tasks, in memory that an arbitrary write does not reach: which
 * credentials a task has, which address space, and which registers it left
 * behind when it stopped running.
 *
 * The members of struct task_struct are copies, for those who only look. See
 * Documentation/security/kpkeys-cred.rst.
 */
#ifndef _LINUX_KPKEYS_TASK_H
#define _LINUX_KPKEYS_TASK_H

#include <linux/compiler.h>
#include <linux/kpkeys.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include <asm/ptrace.h>
#include <asm/thread_info.h>

struct cred;
struct kpkeys_secret;
struct mm_struct;

#ifdef CONFIG_KPKEYS_HARDENED_CRED

/* Overridden credentials that a task can return to. */
#define KPKEYS_CRED_DEPTH	8

/**
 * struct kpkeys_task - who a task is. Protected.
 * @task: the task. First member, by which it is searched.
 * @stack: the lowest address of its kernel stack, 0 if that was freed.
 * @cred: its subjective credentials.
 * @real_cred: its objective credentials.
 * @nr_overridden: length of @overridden.
 * @overridden: values of @cred before override_creds(), the latest last.
 * @mm: its address space.
 * @regs: its user registers, unless it runs.
 * @ptrauth_keys: its keys of pointer authentication.
 */
struct kpkeys_task {
	const struct task_struct *task;
	unsigned long stack;
	const struct cred __rcu *cred;
	const struct cred __rcu *real_cred;
	unsigned long nr_overridden;
	const struct cred *overridden[KPKEYS_CRED_DEPTH];
	struct mm_struct *mm;
#ifdef CONFIG_KPKEYS_HARDENED_REGS
	unsigned long regs[KPKEYS_NR_REGS];
#endif
#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
	struct kpkeys_secret *ptrauth_keys;
#endif
};

/* Almost all objects lie in one block of memory, naturally aligned. */
#define KPKEYS_FIRST_OBJECTS_SIZE	SZ_2M
#define KPKEYS_TASK_ALIGN		SZ_64

extern unsigned long kpkeys_first_objects;

bool kpkeys_is_object_memory(const void *addr);

/* Not if it lies elsewhere, which __kpkeys_task_of() finds out. */
static __always_inline bool kpkeys_task_is_near(const struct kpkeys_task *id,
						const struct task_struct *task)
{
	unsigned long offset = (unsigned long)id - kpkeys_first_objects;

	return !(offset & ~(KPKEYS_FIRST_OBJECTS_SIZE - KPKEYS_TASK_ALIGN)) &&
	       READ_ONCE(id->task) == task;
}

const struct kpkeys_task *__kpkeys_task_of(const struct task_struct *task);
/**
 * kpkeys_task_of() - Find out who a task is.
 * @task: the task.
 *
 * A pointer in @task that is not to its own struct kpkeys_task is reported, and
 * the right one is searched.
 *
 * Context: any but NMIs.
 * Return: in protected memory.
 */
static __always_inline const struct kpkeys_task *
kpkeys_task_of(const struct task_struct *task)
{
	const struct kpkeys_task *id = READ_ONCE(task->kpkeys_task);

	return likely(kpkeys_task_is_near(id, task)) ? id : __kpkeys_task_of(task);
}

/* === The current task =================================================== */

#ifdef arch_kpkeys_set_current
const struct kpkeys_task *__kpkeys_task_here(const struct kpkeys_task *id);

/* Does this code run on the stack of that task? */
static __always_inline bool kpkeys_task_is_here(const struct kpkeys_task *id)
{
	return likely(current_stack_pointer - id->stack < THREAD_SIZE);
}
#else
/* A register says which task is the current one. */
#define kpkeys_task_is_here(_id)	true
static inline const struct kpkeys_task *__kpkeys_task_here(const struct kpkeys_task *id)
{
	return id;
}
#endif

/**
 * kpkeys_task_here() - Find out who the current task is.
 *
 * On some architectures a word in memory says which task that is. The stack
 * pointer is not in memory. A word that names another task is reported and put
 * right, and the task is killed. On the stack of an interrupt it is believed.
 *
 * Context: any.
 * Return: in protected memory.
 */
static __always_inline const struct kpkeys_task *kpkeys_task_here(void)
{
	const struct kpkeys_task *id = kpkeys_task_of(current);

	return kpkeys_task_is_here(id) ? id : __kpkeys_task_here(id);
}

int kpkeys_task_alloc(struct task_struct *task);
void kpkeys_task_leave_stack(struct task_struct *task);
void kpkeys_task_free(struct task_struct *task);

/* === Address spaces ===================================================== */

void __kpkeys_task_set_mm(struct task_struct *task, struct mm_struct *mm);
void __kpkeys_task_repair_mm(struct task_struct *task);

/**
 * kpkeys_task_set_mm() - Note which address space a task has from now on.
 * @task: the current task, or one that never ran.
 * @mm: the address space or NULL.
 *
 * Context: interrupts off, or @task does not run: others compare the two.
 */
static inline void kpkeys_task_set_mm(struct task_struct *task,
				      struct mm_struct *mm)
{
	if (kpkeys_hardened_cred_enabled())
		__kpkeys_task_set_mm(task, mm);
}

/**
 * kpkeys_task_mm() - Get the address space of a task.
 * @task: the task. It does not run, is the current one, or has its lock held.
 *
 * A pointer in @task to another is reported, and replaced.
 *
 * Context: any but NMIs.
 * Return: its address space or NULL.
 */
static __always_inline struct mm_struct *kpkeys_task_mm(struct task_struct *task)
{
	if (kpkeys_hardened_cred_enabled() &&
	    unlikely(READ_ONCE(kpkeys_task_of(task)->mm) != task->mm))
		__kpkeys_task_repair_mm(task);
	return task->mm;
}

#else /* !CONFIG_KPKEYS_HARDENED_CRED */

static inline bool kpkeys_is_object_memory(const void *addr) { return false; }

static inline int kpkeys_task_alloc(struct task_struct *task) { return 0; }
static inline void kpkeys_task_free(struct task_struct *task) { }

/* Macros, so that nothing is computed. */
#define kpkeys_task_leave_stack(...)	do { } while (0)
#define kpkeys_task_set_mm(_task, _mm)	do { } while (0)
#define kpkeys_task_mm(_task)		((_task)->mm)

#endif /* CONFIG_KPKEYS_HARDENED_CRED */

/* === Registers ========================================================== */

/* Bits of a saved register that are compared. */
#ifndef arch_kpkeys_reg_mask
#define arch_kpkeys_reg_mask(_i)	(~0UL)
#endif

#ifdef CONFIG_KPKEYS_HARDENED_REGS
void __kpkeys_regs_save(struct task_struct *task);
void __kpkeys_regs_check(struct task_struct *task);

/**
 * kpkeys_regs_save() - Note the user registers of a task.
 * @task: the current task, which is about to stop running; or one that does not
 *	run, after the kernel has changed its registers.
 *
 * Context: any but NMIs.
 */
static __always_inline void kpkeys_regs_save(struct task_struct *task)
{
	if (kpkeys_hardened_regs_enabled())
		__kpkeys_regs_save(task);
}

/**
 * kpkeys_regs_check() - See that a task has the registers that were saved.
 * @task: the current task, which has just begun to run; or one that does not
 *	run, before the kernel looks at its registers or changes them.
 *
 * Any others are reported, and replaced by those.
 *
 * Context: any but NMIs.
 */
static __always_inline void kpkeys_regs_check(struct task_struct *task)
{
	if (kpkeys_hardened_regs_enabled())
		__kpkeys_regs_check(task);
}
#else
#define kpkeys_regs_save(_task)		do { } while (0)
#define kpkeys_regs_check(_task)	do { } while (0)
#endif

#endif /* _LINUX_KPKEYS_TASK_H */
