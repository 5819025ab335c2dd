// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of tasks: which address space they have, and which registers. */
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/irqflags.h>
#include <linux/kpkeys_task.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>

#include "test.h"

/* === Another task ======================================================= */

struct sleeper {
	struct task_struct *task;
	struct completion woken, wake, leave;
};

static int sleep_twice(void *data)
{
	struct sleeper *sleeper = data;

	wait_for_completion(&sleeper->wake);
	complete(&sleeper->woken);
	wait_for_completion(&sleeper->leave);
	return 0;
}

static void start_sleeper(struct kunit *test, struct sleeper *sleeper)
{
	init_completion(&sleeper->woken);
	init_completion(&sleeper->wake);
	init_completion(&sleeper->leave);
	sleeper->task = kthread_run(sleep_twice, sleeper, "kpkeys_sleeper");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, sleeper->task);
	get_task_struct(sleeper->task);
	while (!wait_task_inactive(sleeper->task, TASK_UNINTERRUPTIBLE))
		schedule_timeout_uninterruptible(1);
}

static void wake_sleeper(struct sleeper *sleeper)
{
	complete(&sleeper->wake);
	wait_for_completion(&sleeper->woken);
}

static void end_sleeper(struct sleeper *sleeper)
{
	complete(&sleeper->leave);
	kthread_stop_put(sleeper->task);
}

/* === The current task =================================================== */

#ifdef arch_kpkeys_set_current
/* Another that does not run: lockdep would take what is locked meanwhile for its locks. */
static struct task_struct *idle_here(void)
{
	return idle_task(raw_smp_processor_id());
}

/* Calls, as the compiler takes the current task for a constant in each function. */
static noinline void say_current_is(struct task_struct *task)
{
	arch_kpkeys_set_current(task);
}

static noinline const struct cred *ask_for_cred(void)
{
	return current_cred();
}

static noinline const struct cred *ask_for_real_cred(void)
{
	return current_real_cred();
}

static noinline struct task_struct *ask_for_task(void)
{
	return current;
}

/* Only that it looks matters, not the address space. */
static noinline const struct cred *verify_mm_of_idle(void)
{
	kpkeys_verify_mm(idle_here()->active_mm);
	/* Asking for credentials looks, too. */
	return ask_for_task() == idle_here() ? NULL : current_real_cred();
}

/* A word says what is interrupted as well; on UML the task has it. */
static noinline const struct cred *ask_as_an_nmi(void)
{
	const struct cred *cred;
	struct task_struct *found;

	__preempt_count_add(NMI_OFFSET);
	cred = current_real_cred();
	found = ask_for_task();
	say_current_is(idle_here());
	__preempt_count_sub(NMI_OFFSET);
	say_current_is(found);
	return cred;
}

static void expect_other_is_noticed(struct kunit *test,
				    const struct cred *(*ask)(void))
{
	const struct cred *mine = current_cred(), *cred;
	struct task_struct *task = current, *found;
	unsigned long before;
	struct cred *other;

	other = prepare_creds();
	KUNIT_ASSERT_NOT_NULL(test, other);
	override_creds(other);
	before = expect_refusal();
	scoped_guard(irqsave) {
		say_current_is(idle_here());
		cred = ask();
		found = ask_for_task();
		say_current_is(task);
	}
	was_refused(test, before, 1);
	put_cred(revert_creds(mine));
	KUNIT_EXPECT_PTR_EQ(test, found, task);
	KUNIT_EXPECT_PTR_EQ(test, cred, ask == ask_for_cred ? other : mine);
}

static void stack_says_who_is_current(struct kunit *test)
{
	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "credentials are not hardened in this boot");

	expect_other_is_noticed(test, ask_for_cred);
	expect_other_is_noticed(test, ask_for_real_cred);
	expect_other_is_noticed(test, verify_mm_of_idle);
	expect_other_is_noticed(test, ask_as_an_nmi);
}

/* As between the two steps of __switch_to(), where programs may be attached. */
static void a_switch_of_stacks_is_no_forgery(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct task_struct *task = current, *idle, *found;
	const struct cred *cred;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "credentials are not hardened in this boot");

	scoped_guard(irqsave) {
		idle = idle_here();
		idle->on_cpu = 1;
		say_current_is(idle);
		cred = ask_for_real_cred();
		found = ask_for_task();
		say_current_is(task);
		idle->on_cpu = 0;
	}
	was_refused(test, before, 0);
	KUNIT_EXPECT_PTR_EQ(test, found, idle);
	KUNIT_EXPECT_PTR_EQ(test, cred, current_real_cred());
}
#else
static void stack_says_who_is_current(struct kunit *test)
{
	kunit_skip(test, "a register says which task is the current one");
}

static void a_switch_of_stacks_is_no_forgery(struct kunit *test)
{
	kunit_skip(test, "stack and current task are switched together");
}
#endif

/* Tasks get the stacks of dead ones, which may be found for a while. */
static void dead_have_no_stack(struct kunit *test)
{
	struct kpkeys_task *id;
	struct sleeper sleeper;
	int tries;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "credentials are not hardened in this boot");

	start_sleeper(test, &sleeper);
	id = sleeper.task->kpkeys_task;
	KUNIT_EXPECT_EQ(test, id->stack, (unsigned long)task_stack_page(sleeper.task));
	get_task_struct(sleeper.task);
	wake_sleeper(&sleeper);
	end_sleeper(&sleeper);
	/* The scheduler does it, on whatever CPU. */
	for (tries = 0; READ_ONCE(id->stack) && tries < 100; tries++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, id->stack, 0);
	KUNIT_EXPECT_PTR_EQ(test, id->task, sleeper.task);
	put_task_struct(sleeper.task);
}

/* === Address spaces ===================================================== */

static void address_space_is_noted(struct kunit *test)
{
	const struct kpkeys_task *id;
	struct mm_struct *mm;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "credentials are not hardened in this boot");

	id = kpkeys_task_of(current);
	KUNIT_EXPECT_NULL(test, id->mm);
	KUNIT_EXPECT_EQ(test, probe_write((void *)&id->mm), -EFAULT);
	mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, mm);
	kthread_use_mm(mm);
	KUNIT_EXPECT_PTR_EQ(test, id->mm, mm);
	KUNIT_EXPECT_PTR_EQ(test, kpkeys_task_mm(current), mm);
	mmap_read_lock(mm);
	mmap_read_unlock(mm);
	kthread_unuse_mm(mm);
	KUNIT_EXPECT_NULL(test, id->mm);
	mmput(mm);
	EXPECT_LEVEL_DEFAULT(test);
}

/* As those do who read the memory of others. */
static void pointer_to_address_space_is_no_matter(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	bool hardened = kpkeys_hardened_cred_enabled();
	struct sleeper sleeper;
	struct mm_struct *mm;

	start_sleeper(test, &sleeper);
	sleeper.task->mm = &init_mm;
	mm = kpkeys_task_mm(sleeper.task);
	KUNIT_EXPECT_PTR_EQ(test, sleeper.task->mm, hardened ? NULL : &init_mm);
	sleeper.task->mm = NULL;
	KUNIT_EXPECT_PTR_EQ(test, mm, hardened ? NULL : &init_mm);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + hardened);
	wake_sleeper(&sleeper);
	end_sleeper(&sleeper);
}

/* As the scheduler does, which would load its page tables. */
static void address_space_is_not_switched_to(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct sleeper sleeper;
	struct mm_struct *mm;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "the kernel would switch to a forged address space");

	mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, mm);
	start_sleeper(test, &sleeper);
	sleeper.task->mm = mm;
	wake_sleeper(&sleeper);
	KUNIT_EXPECT_NULL(test, sleeper.task->mm);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 1);
	end_sleeper(&sleeper);
	mmput(mm);
}

static void others_are_not_claimed(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	bool hardened = kpkeys_hardened_cred_enabled();

	/* Found in another way than by a pointer in the task. */
	kpkeys_verify_mm(&init_mm);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);

	kpkeys_expect_violation(true);
	preempt_disable();
	current->mm = &init_mm;
	kpkeys_verify_mm(&init_mm);
	KUNIT_EXPECT_PTR_EQ(test, current->mm, hardened ? NULL : &init_mm);
	current->mm = NULL;
	preempt_enable();
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + hardened);
}

static void take_write_lock(struct mm_struct *mm)
{
	mmap_write_lock(mm);
	mmap_write_unlock(mm);
}

static void take_write_lock_nested(struct mm_struct *mm)
{
	mmap_write_lock_nested(mm, SINGLE_DEPTH_NESTING);
	mmap_write_unlock(mm);
}

static void take_write_lock_killable(struct mm_struct *mm)
{
	if (!mmap_write_lock_killable(mm))
		mmap_write_unlock(mm);
}

static void take_read_lock(struct mm_struct *mm)
{
	mmap_read_lock(mm);
	mmap_read_unlock(mm);
}

static void take_read_lock_killable(struct mm_struct *mm)
{
	if (!mmap_read_lock_killable(mm))
		mmap_read_unlock(mm);
}

static void try_read_lock(struct mm_struct *mm)
{
	if (mmap_read_trylock(mm))
		mmap_read_unlock(mm);
}

#ifdef CONFIG_PER_VMA_LOCK
static void take_vma_lock(struct mm_struct *mm)
{
	struct vm_area_struct *vma = lock_vma_under_rcu(mm, 0);

	if (vma)
		vma_end_read(vma);
}
#endif

static void get_user_page(struct mm_struct *mm)
{
	struct page *page;

	/* Without the lock, which asks as well. */
	if (get_user_pages_fast_only(0, 1, 0, &page) == 1)
		put_page(page);
}

static void each_lock_asks_whose_it_is(struct kunit *test)
{
	static void (*const locks[])(struct mm_struct *mm) = {
		take_write_lock, take_write_lock_nested, take_write_lock_killable,
		take_read_lock, take_read_lock_killable, try_read_lock, get_user_page,
#ifdef CONFIG_PER_VMA_LOCK
		take_vma_lock,
#endif
	};
	struct mm_struct *own, *other, *after;
	unsigned int i;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "the kernel would take the locks of a forged address space");
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	own = current->mm;
	other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, other);

	kpkeys_expect_violation(true);
	for (i = 0; i < ARRAY_SIZE(locks); i++) {
		current->mm = other;
		locks[i](other);
		after = current->mm;
		current->mm = own;
		/* Reported once, or twice if the scheduler comes in between. */
		KUNIT_EXPECT_PTR_EQ_MSG(test, after, own, "%ps", locks[i]);
	}
	kpkeys_expect_violation(false);
	mmput(other);
}

struct child {
	struct mm_struct *mm;
	struct completion told;
};

static int tell_address_space(void *data)
{
	struct child *child = data;

	child->mm = current->mm;
	complete(&child->told);
	do_exit(0);
}

static void forged_address_space_is_not_shared(struct kunit *test)
{
	struct mm_struct *own, *other;
	struct child child = { };
	pid_t pid;

	if (!kpkeys_hardened_cred_enabled())
		kunit_skip(test, "the new task would run with a forged address space");
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	own = current->mm;
	other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, other);
	init_completion(&child.told);

	kpkeys_expect_violation(true);
	current->mm = other;
	pid = kernel_thread(tell_address_space, &child, "kpkeys_child", SIGCHLD);
	current->mm = own;
	kpkeys_expect_violation(false);
	KUNIT_ASSERT_GT(test, pid, 0);
	wait_for_completion(&child.told);
	KUNIT_EXPECT_PTR_EQ(test, child.mm, own);
	mmput(other);
}

/* === Registers ========================================================== */

#ifdef CONFIG_KPKEYS_HARDENED_REGS
static unsigned long *registers_of(const struct sleeper *sleeper)
{
	return arch_kpkeys_user_regs(sleeper->task,
				     (unsigned long)task_stack_page(sleeper->task));
}

static void registers_are_as_they_were(struct kunit *test)
{
	bool hardened = kpkeys_hardened_regs_enabled();
	unsigned long before, value, *regs;
	struct sleeper sleeper;
	unsigned int i;

	start_sleeper(test, &sleeper);
	regs = registers_of(&sleeper);
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	for (i = 0; i < KPKEYS_NR_REGS; i++) {
		value = regs[i];
		regs[i] ^= BIT(i);
		kpkeys_regs_check(sleeper.task);
		KUNIT_EXPECT_EQ(test, regs[i], hardened ? value : value ^ BIT(i));
		regs[i] = value;
	}
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + hardened * KPKEYS_NR_REGS);

	/* The scheduler does the same. */
	value = regs[2];
	regs[2] = ~value;
	wake_sleeper(&sleeper);
	KUNIT_EXPECT_EQ(test, regs[2], hardened ? value : ~value);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + hardened * (KPKEYS_NR_REGS + 1));
	end_sleeper(&sleeper);
	EXPECT_LEVEL_DEFAULT(test);
}

/* The kernel changes them in any task, on arm64. */
static void mitigations_are_not_compared(struct kunit *test)
{
	unsigned long before, others = 0, altered[KPKEYS_NR_REGS], *regs;
	struct sleeper sleeper;
	unsigned int i;

	for (i = 0; i < KPKEYS_NR_REGS; i++)
		others |= ~arch_kpkeys_reg_mask(i);
	if (!others)
		kunit_skip(test, "all bits are compared");

	start_sleeper(test, &sleeper);
	regs = registers_of(&sleeper);
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	for (i = 0; i < KPKEYS_NR_REGS; i++)
		regs[i] ^= ~arch_kpkeys_reg_mask(i);
	memcpy(altered, regs, sizeof(altered));
	kpkeys_regs_check(sleeper.task);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);

	/* They are kept even if another bit is put back. */
	regs[0] ^= 1;
	kpkeys_regs_check(sleeper.task);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + kpkeys_hardened_regs_enabled());
	regs[0] = altered[0];
	KUNIT_EXPECT_MEMEQ(test, regs, altered, sizeof(altered));
	wake_sleeper(&sleeper);
	end_sleeper(&sleeper);
}

/* As ptrace changes them. */
static void registers_are_changed_by_the_kernel(struct kunit *test)
{
	struct sleeper sleeper;
	unsigned long before, *regs;

	start_sleeper(test, &sleeper);
	regs = registers_of(&sleeper);
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	kpkeys_regs_check(sleeper.task);
	regs[3] = 0x1234;
	kpkeys_regs_save(sleeper.task);
	wake_sleeper(&sleeper);
	KUNIT_EXPECT_EQ(test, regs[3], 0x1234);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);
	end_sleeper(&sleeper);
	EXPECT_LEVEL_DEFAULT(test);
}

static void saved_registers_are_protected(struct kunit *test)
{
	struct sleeper sleeper;
	const struct kpkeys_task *id;

	if (!kpkeys_hardened_regs_enabled())
		kunit_skip(test, "saved registers are not hardened in this boot");

	start_sleeper(test, &sleeper);
	id = kpkeys_task_of(sleeper.task);
	KUNIT_EXPECT_EQ(test, id->stack, (unsigned long)task_stack_page(sleeper.task));
	KUNIT_EXPECT_EQ(test, probe_write((void *)&id->regs[0]), -EFAULT);
	KUNIT_EXPECT_EQ(test, probe_write((void *)&id->regs[KPKEYS_NR_REGS - 1]), -EFAULT);
	wake_sleeper(&sleeper);
	end_sleeper(&sleeper);
}
#endif

static struct kunit_case task_cases[] = {
	KUNIT_CASE(stack_says_who_is_current),
	KUNIT_CASE(a_switch_of_stacks_is_no_forgery),
	KUNIT_CASE(dead_have_no_stack),
	KUNIT_CASE(address_space_is_noted),
	KUNIT_CASE(pointer_to_address_space_is_no_matter),
	KUNIT_CASE(address_space_is_not_switched_to),
	KUNIT_CASE(others_are_not_claimed),
	KUNIT_CASE(each_lock_asks_whose_it_is),
	KUNIT_CASE(forged_address_space_is_not_shared),
#ifdef CONFIG_KPKEYS_HARDENED_REGS
	KUNIT_CASE(registers_are_as_they_were),
	KUNIT_CASE(mitigations_are_not_compared),
	KUNIT_CASE(registers_are_changed_by_the_kernel),
	KUNIT_CASE(saved_registers_are_protected),
#endif
	{}
};

static struct kunit_suite task_suite = {
	.name = "kpkeys_task",
	.test_cases = task_cases,
};

kunit_test_suite(task_suite);
