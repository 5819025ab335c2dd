// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests: who reads keys of pointer authentication, and which are loaded. */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_secret.h>
#include <linux/kpkeys_task.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/cpufeature.h>
#include <asm/kpkeys_ptrauth.h>
#include <asm/pointer_auth.h>
#include <asm/sysreg.h>

#include "../../../mm/kpkeys/kpkeys.h"

/* Keys for user space are in front of it in the secret of a task. */
#define KERNEL_KEY_OFFSET	sizeof(struct ptrauth_keys_user)

struct all_keys {
	struct ptrauth_keys_user user;
	struct ptrauth_keys_kernel kernel;
};

#define skip_unless_there_are_keys(test)				\
	do {								\
		if (!system_supports_address_auth())			\
			kunit_skip(test, "this CPU has no pointer authentication"); \
	} while (0)

#define skip_unless_keys_are_secret(test)				\
	do {								\
		if (!kpkeys_hardened_ptrauth_enabled())			\
			kunit_skip(test, "keys are not hardened in this boot"); \
	} while (0)

static struct ptrauth_key key_in_register(void)
{
	return (struct ptrauth_key) {
		.lo = read_sysreg_s(SYS_APIAKEYLO_EL1),
		.hi = read_sysreg_s(SYS_APIAKEYHI_EL1),
	};
}

static void read_keys(struct kunit *test, struct task_struct *task, struct all_keys *keys)
{
	const struct kpkeys_task *id = kpkeys_task_of(task);

	KUNIT_ASSERT_EQ(test, kpkeys_secret_read(id->ptrauth_keys, id, keys, sizeof(*keys)), 0);
}

static bool is_key_in_register(struct kunit *test)
{
	struct ptrauth_key loaded;
	struct all_keys keys;

	read_keys(test, current, &keys);
	loaded = key_in_register();
	return !memcmp(&keys.kernel.apia, &loaded, sizeof(loaded));
}

/* === Who reads them ===================================================== */

static void keys_of_a_task_are_read_by_nobody(struct kunit *test)
{
	unsigned long value = 0, before;
	void *keys;

	skip_unless_keys_are_secret(test);

	keys = kpkeys_task_here()->ptrauth_keys->data;
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, keys), -EFAULT);
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, keys + KERNEL_KEY_OFFSET), -EFAULT);
	KUNIT_EXPECT_EQ(test, value, 0);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 2);
}

static void keys_of_a_cpu_are_read_by_nobody(struct kunit *test)
{
	unsigned long value = 0, before;
	int cpu;

	skip_unless_keys_are_secret(test);

	for_each_possible_cpu(cpu) {
		void *page = per_cpu_ptr(&arm64_ptrauth_cpu, cpu);

		before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
		KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, page), -EFAULT);
		KUNIT_EXPECT_EQ(test, kpkeys_test_write(page, &value, sizeof(value)), -EFAULT);
		KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 2);
		/* A debugger gets an error. */
		KUNIT_EXPECT_EQ(test, copy_from_kernel_nofault(&value, page, sizeof(value)),
				-ERANGE);
	}
	KUNIT_EXPECT_EQ(test, value, 0);
}

/* A pointer to them may be put in place of one to the payload of a key. */
static void nobody_frees_keys_of_a_task(struct kunit *test)
{
	struct kpkeys_secret *secret;
	unsigned long before;

	skip_unless_keys_are_secret(test);

	secret = kpkeys_task_here()->ptrauth_keys;
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	kpkeys_expect_violation(true);
	kpkeys_secret_free(secret);
	kpkeys_secret_free_of(secret, test);
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 2);
	KUNIT_EXPECT_TRUE(test, is_key_in_register(test));
}

/* Whatever ordinary memory says of the page. */
static void keys_of_a_cpu_are_not_copied(struct kunit *test)
{
	void *keys = per_cpu_ptr(&arm64_ptrauth_cpu, 0);
	struct ptrauth_keys_user mine, after;
	unsigned long before, mark;
	struct kpkeys_secret *copy;

	skip_unless_keys_are_secret(test);

	arm64_ptrauth_read(current, &mine);
	mark = page_private(virt_to_page(keys));
	set_page_private(virt_to_page(keys), 0);
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	kpkeys_expect_violation(true);
	copy = kpkeys_secret_alloc(keys, 2 * sizeof(struct ptrauth_key));
	arm64_ptrauth_write(current, keys);
	kpkeys_expect_violation(false);
	set_page_private(virt_to_page(keys), mark);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(copy), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 2);
	arm64_ptrauth_read(current, &after);
	KUNIT_EXPECT_MEMEQ(test, &after, &mine, sizeof(mine));
}

/* Where Linux has them: there only, or nowhere any more. */
static void tasks_have_no_other_copy(struct kunit *test)
{
	bool expected = !kpkeys_hardened_ptrauth_enabled();
	struct task_struct *process, *task;

	skip_unless_there_are_keys(test);

	guard(rcu)();
	for_each_process_thread(process, task) {
		const struct thread_struct *thread = &task->thread;

		KUNIT_EXPECT_EQ_MSG(test, expected,
				    !!memchr_inv(&thread->keys_kernel, 0,
						 sizeof(thread->keys_kernel)),
				    "%s", task->comm);
		if (!expected)
			KUNIT_EXPECT_NULL(test, memchr_inv(&thread->keys_user, 0,
							   sizeof(thread->keys_user)));
	}
}

/* === Which are loaded =================================================== */

static void a_task_has_its_own_key_on_each_cpu(struct kunit *test)
{
	const struct cpumask *before = current->cpus_ptr;
	int cpu;

	skip_unless_keys_are_secret(test);

	for_each_online_cpu(cpu) {
		KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(cpu)), 0);
		KUNIT_EXPECT_TRUE(test, is_key_in_register(test));
	}
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpu_possible_mask), 0);
	KUNIT_EXPECT_PTR_EQ(test, before, current->cpus_ptr);
}

static void what_a_cpu_loads_is_of_its_task(struct kunit *test)
{
	struct ptrauth_key loads[2];
	struct all_keys keys;

	skip_unless_keys_are_secret(test);

	read_keys(test, current, &keys);
	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_SECRET);
		memcpy(loads, this_cpu_ptr(&arm64_ptrauth_cpu), sizeof(loads));
		kpkeys_lower();
	}
	KUNIT_EXPECT_MEMEQ(test, &loads[0], &keys.kernel.apia, sizeof(loads[0]));
	KUNIT_EXPECT_MEMEQ(test, &loads[1], &keys.user.apia, sizeof(loads[1]));
}

static int wait_to_stop(void *unused)
{
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void a_new_task_has_a_new_key_for_the_kernel(struct kunit *test)
{
	struct all_keys mine, its, of_parent;
	struct task_struct *task;

	skip_unless_keys_are_secret(test);

	task = kthread_run(wait_to_stop, NULL, "kpkeys_other");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	read_keys(test, current, &mine);
	read_keys(test, task, &its);
	read_keys(test, kthreadd_task, &of_parent);
	kthread_stop(task);
	KUNIT_EXPECT_MEMNEQ(test, &its.kernel, &mine.kernel, sizeof(mine.kernel));
	KUNIT_EXPECT_MEMNEQ(test, &its.kernel, &of_parent.kernel, sizeof(mine.kernel));
	KUNIT_EXPECT_MEMEQ(test, &its.user, &of_parent.user, sizeof(mine.user));
}

/* As exec() and prctl() do. */
static void keys_for_user_space_are_set(struct kunit *test)
{
	struct ptrauth_keys_user keys, before, after;
	struct all_keys all;

	skip_unless_keys_are_secret(test);

	arm64_ptrauth_read(current, &before);
	get_random_bytes(&keys, sizeof(keys));
	arm64_ptrauth_write(current, &keys);
	KUNIT_EXPECT_EQ(test, read_sysreg_s(SYS_APIBKEYLO_EL1), keys.apib.lo);
	KUNIT_EXPECT_EQ(test, read_sysreg_s(SYS_APDAKEYHI_EL1), keys.apda.hi);
	KUNIT_EXPECT_EQ(test, read_sysreg_s(SYS_APDBKEYLO_EL1), keys.apdb.lo);
	if (system_supports_generic_auth())
		KUNIT_EXPECT_EQ(test, read_sysreg_s(SYS_APGAKEYHI_EL1), keys.apga.hi);
	arm64_ptrauth_read(current, &after);
	KUNIT_EXPECT_MEMEQ(test, &after, &keys, sizeof(keys));
	/* The one for the kernel stays. */
	KUNIT_EXPECT_TRUE(test, is_key_in_register(test));
	read_keys(test, current, &all);
	KUNIT_EXPECT_MEMEQ(test, &all.user, &keys, sizeof(keys));
	arm64_ptrauth_write(current, &before);
}

static struct kunit_case ptrauth_cases[] = {
	KUNIT_CASE(keys_of_a_task_are_read_by_nobody),
	KUNIT_CASE(keys_of_a_cpu_are_read_by_nobody),
	KUNIT_CASE(nobody_frees_keys_of_a_task),
	KUNIT_CASE(keys_of_a_cpu_are_not_copied),
	KUNIT_CASE(tasks_have_no_other_copy),
	KUNIT_CASE(a_task_has_its_own_key_on_each_cpu),
	KUNIT_CASE(what_a_cpu_loads_is_of_its_task),
	KUNIT_CASE(a_new_task_has_a_new_key_for_the_kernel),
	KUNIT_CASE(keys_for_user_space_are_set),
	{}
};

static struct kunit_suite ptrauth_suite = {
	.name = "kpkeys_ptrauth",
	.test_cases = ptrauth_cases,
};

kunit_test_suite(ptrauth_suite);
