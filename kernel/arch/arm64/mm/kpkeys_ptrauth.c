// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pointer authentication keys as secrets: an attacker who reads them could sign
 * pointers.
 *
 * The keys of a task are a secret, to which its struct kpkeys_task points. What
 * entry.S loads lies in a page of each CPU, and is copied there when the task
 * begins to run.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/cache.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_secret.h>
#include <linux/kpkeys_task.h>
#include <linux/mmdebug.h>
#include <linux/panic.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include <asm/alternative.h>
#include <asm/cpufeature.h>
#include <asm/insn.h>
#include <asm/kpkeys_ptrauth.h>
#include <asm/pointer_auth.h>
#include <asm/sysreg.h>

#include "../../../mm/kpkeys/kpkeys.h"
#include "../../../mm/kpkeys/secret.h"

/**
 * struct arm64_ptrauth_keys - the keys of a task. Secret.
 * @user: those for user space.
 * @kernel: that for the kernel.
 */
struct arm64_ptrauth_keys {
	struct ptrauth_keys_user user;
	struct ptrauth_keys_kernel kernel;
};

static_assert(offsetof(struct arm64_ptrauth_cpu, kernel) == PTRAUTH_CPU_KERNEL);
static_assert(offsetof(struct arm64_ptrauth_cpu, user) == PTRAUTH_CPU_USER);

DEFINE_PER_CPU_PAGE_ALIGNED(struct arm64_ptrauth_cpu, arm64_ptrauth_cpu);

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_ptrauth_key);

kpkeys_boot_switch(enable, "kpkeys_hardened_ptrauth");

/* Does entry.S look at secrets only? */
static bool is_patched __ro_after_init;

/* === From a task to its keys ============================================ */

/*
 * The level is raised. Although only protected memory points there, look at whom
 * they are for: those that were freed may be another secret by now.
 */
static __always_inline struct arm64_ptrauth_keys *
arm64_ptrauth_keys_of(const struct kpkeys_task *id)
{
	struct kpkeys_secret *secret = READ_ONCE(id->ptrauth_keys);

	if (unlikely(secret->owner != id)) {
		kpkeys_lower();
		panic("kpkeys: a task without keys\n");
	}
	return (struct arm64_ptrauth_keys *)secret->data;
}

/*
 * Raise the level with all exceptions masked, as pseudo-NMIs come otherwise: they
 * would save a key in ordinary memory, or where it is to go. Where there are such,
 * the scheduler does not see that interrupts are masked like this: it must not
 * preempt at all, nor may counting have it do so.
 */
static __always_inline u64 arm64_ptrauth_raise(void)
{
	u64 flags = read_sysreg(daif);

	VM_WARN_ON_ONCE(preemptible());
	asm volatile("msr daifset, #0xf" : : : "memory");
	kpkeys_raise(KPKEYS_LVL_SECRET);
	return flags;
}

static __always_inline void arm64_ptrauth_lower(u64 flags)
{
	kpkeys_lower();
	write_sysreg(flags, daif);
}

/* The level is raised. A register that an exception saves has no key later. */
static __always_inline void arm64_ptrauth_copy(unsigned long *dst, const void *src)
{
	unsigned long lo, hi;

	asm volatile("ldp	%0, %1, [%3]\n"
		     "stp	%0, %1, [%2]\n"
		     "mov	%0, xzr\n"
		     "mov	%1, xzr\n"
		     : "=&r" (lo), "=&r" (hi)
		     : "r" (dst), "r" (src)
		     : "memory");
}

#define arm64_ptrauth_load(name, src) do {				\
	unsigned long __lo, __hi;					\
									\
	asm volatile("ldp	%0, %1, [%2]\n"				\
		     __msr_s(SYS_ ## name ## KEYLO_EL1, "%x0")		\
		     __msr_s(SYS_ ## name ## KEYHI_EL1, "%x1")		\
		     "mov	%0, xzr\n"				\
		     "mov	%1, xzr\n"				\
		     : "=&r" (__lo), "=&r" (__hi)			\
		     : "r" (src)					\
		     : "memory");					\
} while (0)

/**
 * arm64_ptrauth_switch() - Load the keys of a task for user space.
 * @next: the task that runs next, or runs.
 *
 * That for the kernel is loaded together with its stack: code that is not inline
 * would return by another key than it was called with.
 *
 * Context: interrupts off.
 */
void arm64_ptrauth_switch(struct task_struct *next)
{
	const struct kpkeys_task *id = kpkeys_task_of(next);
	struct arm64_ptrauth_cpu *cpu = this_cpu_ptr(&arm64_ptrauth_cpu);
	struct arm64_ptrauth_keys *keys;
	u64 flags = arm64_ptrauth_raise();

	keys = arm64_ptrauth_keys_of(id);
	arm64_ptrauth_copy(cpu->kernel, &keys->kernel.apia);
	arm64_ptrauth_copy(cpu->user, &keys->user.apia);
	arm64_ptrauth_load(APIB, &keys->user.apib);
	arm64_ptrauth_load(APDA, &keys->user.apda);
	arm64_ptrauth_load(APDB, &keys->user.apdb);
	if (system_supports_generic_auth())
		arm64_ptrauth_load(APGA, &keys->user.apga);
	arm64_ptrauth_lower(flags);
}
NOKPROBE_SYMBOL(arm64_ptrauth_switch);

/**
 * arm64_ptrauth_cpu_up() - Prepare what a CPU loads when it comes up.
 * @cpu: the CPU.
 * @idle: its first task.
 *
 * Context: may sleep, @cpu is down.
 */
void arm64_ptrauth_cpu_up(unsigned int cpu, struct task_struct *idle)
{
	struct arm64_ptrauth_cpu *page = per_cpu_ptr(&arm64_ptrauth_cpu, cpu);
	const struct kpkeys_task *id = kpkeys_task_of(idle);
	u64 flags;

	guard(preempt)();
	flags = arm64_ptrauth_raise();
	arm64_ptrauth_copy(page->kernel, &arm64_ptrauth_keys_of(id)->kernel.apia);
	arm64_ptrauth_lower(flags);
}

/* === Tasks ============================================================== */

static void arm64_ptrauth_set_keys(struct kpkeys_task *id, struct kpkeys_secret *keys)
{
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	id->ptrauth_keys = keys;
	kpkeys_lower();
}

/* Keys that are filled in where nobody reads them. */
static int arm64_ptrauth_make_secret(struct kpkeys_task *id)
{
	static const struct arm64_ptrauth_keys none;
	struct kpkeys_secret *secret = kpkeys_secret_alloc(&none, sizeof(none));
	int err;

	if (IS_ERR(secret))
		return PTR_ERR(secret);
	err = kpkeys_secret_give(secret, id);
	if (!err)
		arm64_ptrauth_set_keys(id, secret);
	return err;
}

static void arm64_ptrauth_set_kernel_key(const struct kpkeys_task *id, struct ptrauth_key *key)
{
	u64 flags;

	guard(preempt)();
	flags = arm64_ptrauth_raise();
	arm64_ptrauth_copy(&arm64_ptrauth_keys_of(id)->kernel.apia.lo, key);
	arm64_ptrauth_lower(flags);
}

static __always_inline void arm64_ptrauth_copy_user(struct ptrauth_keys_user *dst,
						    const struct ptrauth_keys_user *src)
{
	arm64_ptrauth_copy(&dst->apia.lo, &src->apia);
	arm64_ptrauth_copy(&dst->apib.lo, &src->apib);
	arm64_ptrauth_copy(&dst->apda.lo, &src->apda);
	arm64_ptrauth_copy(&dst->apdb.lo, &src->apdb);
	arm64_ptrauth_copy(&dst->apga.lo, &src->apga);
}

static void arm64_ptrauth_inherit(const struct kpkeys_task *id, const struct kpkeys_task *from)
{
	u64 flags;

	guard(preempt)();
	flags = arm64_ptrauth_raise();
	arm64_ptrauth_copy_user(&arm64_ptrauth_keys_of(id)->user,
				&arm64_ptrauth_keys_of(from)->user);
	arm64_ptrauth_lower(flags);
}

/**
 * arm64_ptrauth_alloc() - Give a new task a key of its own for the kernel.
 * @task: the task, which has those of the current one for user space.
 *
 * Context: may sleep.
 * Return: 0; -ENOMEM; -EACCES: a violation.
 */
int arm64_ptrauth_alloc(struct task_struct *task)
{
	struct kpkeys_task *id = (struct kpkeys_task *)kpkeys_task_of(task);
	struct ptrauth_keys_kernel new;
	int err;

	err = arm64_ptrauth_make_secret(id);
	if (err)
		return err;
	arm64_ptrauth_inherit(id, kpkeys_task_here());
	get_random_bytes(&new, sizeof(new));
	arm64_ptrauth_set_kernel_key(id, &new.apia);
	/* There may be that of the parent. */
	if (is_patched)
		memset(&task->thread.keys_kernel, 0, sizeof(new));
	else
		task->thread.keys_kernel = new;
	memzero_explicit(&new, sizeof(new));
	return 0;
}

/**
 * arm64_ptrauth_free() - Forget the keys of a task.
 * @task: the task, which nobody can find any more.
 *
 * Context: any but hard interrupts and NMIs.
 */
void arm64_ptrauth_free(struct task_struct *task)
{
	struct kpkeys_task *id = (struct kpkeys_task *)kpkeys_task_of(task);
	struct kpkeys_secret *secret = id->ptrauth_keys;

	/* A task for which there was no memory has none. */
	if (!secret)
		return;
	arm64_ptrauth_set_keys(id, NULL);
	kpkeys_secret_free_of(secret, id);
}

/**
 * arm64_ptrauth_read() - Copy the keys of a task for user space.
 * @task: the current task, or one that does not run.
 * @copy: where to, which the caller clears.
 *
 * Context: any but NMIs.
 * Return: @copy.
 */
struct ptrauth_keys_user *arm64_ptrauth_read(struct task_struct *task,
					     struct ptrauth_keys_user *copy)
{
	const struct kpkeys_task *id = kpkeys_task_of(task);

	if (kpkeys_secret_read(id->ptrauth_keys, id, copy, sizeof(*copy)))
		memset(copy, 0, sizeof(*copy));
	return copy;
}

/**
 * arm64_ptrauth_write() - Set the keys of a task for user space.
 * @task: the current task, or one that does not run.
 * @copy: the keys, in ordinary memory, which the caller clears.
 *
 * Context: any but NMIs.
 */
void arm64_ptrauth_write(struct task_struct *task, const struct ptrauth_keys_user *copy)
{
	const struct kpkeys_task *id = kpkeys_task_of(task);
	u64 flags;

	if (!kpkeys_secret_may_copy(copy, sizeof(*copy)))
		return;
	guard(preempt)();
	flags = arm64_ptrauth_raise();
	arm64_ptrauth_copy_user(&arm64_ptrauth_keys_of(id)->user, copy);
	arm64_ptrauth_lower(flags);
	if (task == current) {
		guard(irqsave)();
		arm64_ptrauth_switch(task);
	}
}

/* === Start ============================================================== */

/**
 * arm64_ptrauth_patch_secret() - Have entry.S look at secrets.
 * @alt: the place.
 * @origptr: its instruction.
 * @updptr: the same, to be written.
 * @nr_inst: 1.
 *
 * Context: all other CPUs are stopped; no program has run yet.
 */
void noinstr arm64_ptrauth_patch_secret(struct alt_instr *alt, __le32 *origptr,
					__le32 *updptr, int nr_inst)
{
	if (!kpkeys_hardened_ptrauth_enabled())
		return;
	*updptr = cpu_to_le32(aarch64_insn_gen_nop());
	is_patched = true;
}

/* The first task has got its key for the kernel since. */
static int __init arm64_ptrauth_note_first(void)
{
	if (kpkeys_hardened_ptrauth_enabled())
		arm64_ptrauth_set_kernel_key(kpkeys_task_of(&init_task),
					     &init_task.thread.keys_kernel.apia);
	return 0;
}
early_initcall(arm64_ptrauth_note_first);

/* Tasks older than the change of entry.S have their key in both places. */
static int __init arm64_ptrauth_forget_old(void)
{
	struct task_struct *process, *task;
	int cpu;

	if (!kpkeys_hardened_ptrauth_enabled())
		return 0;
	guard(rcu)();
	for_each_process_thread(process, task)
		memzero_explicit(&task->thread.keys_kernel, sizeof(task->thread.keys_kernel));
	for_each_possible_cpu(cpu) {
		task = idle_task(cpu);
		if (task)
			memzero_explicit(&task->thread.keys_kernel,
					 sizeof(task->thread.keys_kernel));
	}
	return 0;
}
late_initcall(arm64_ptrauth_forget_old);

static int __init arm64_ptrauth_tag_cpus(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kpkeys_secret_mark(virt_to_page(per_cpu_ptr(&arm64_ptrauth_cpu, cpu)), 1);
	return kpkeys_tag_percpu(&arm64_ptrauth_cpu, KPKEYS_PKEY_SECRET);
}

/**
 * kpkeys_hardened_ptrauth_init() - Start protecting pointer authentication keys.
 *
 * Context: boot, one CPU, one task. Credentials and secrets are protected.
 */
void __init kpkeys_hardened_ptrauth_init(void)
{
	int err;

	if (!enable) {
		pr_info("pointer authentication keys not hardened: disabled by kpkeys_hardened_ptrauth=off\n");
		return;
	}
	if (!kpkeys_hardened_cred_enabled() || !kpkeys_hardened_secret_enabled()) {
		pr_info("pointer authentication keys not hardened: credentials or secrets are not\n");
		return;
	}
	if (!system_supports_address_auth()) {
		pr_info("pointer authentication keys not hardened: the CPU has none\n");
		return;
	}
	err = arm64_ptrauth_tag_cpus();
	if (!err)
		err = arm64_ptrauth_make_secret(current->kpkeys_task);
	if (err) {
		pr_err("pointer authentication keys not hardened: no memory with their key: %pe\n",
		       ERR_PTR(err));
		return;
	}
	static_branch_enable(&kpkeys_hardened_ptrauth_key);
	scoped_guard(irqsave)
		arm64_ptrauth_switch(current);
	pr_info("pointer authentication keys hardened (pkey %d)\n", KPKEYS_PKEY_SECRET);
}
