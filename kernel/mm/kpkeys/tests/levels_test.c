// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of levels, guards and tagged memory.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#ifdef CONFIG_UML
#include <kern_util.h>
#else
#include <linux/irq-entry-common.h>
#endif

#include "test.h"

/* === Guards ============================================================= */

static void guard_raises_and_restores(struct kunit *test)
{
	u64 inside;

	skip_unless_protected(test);

	EXPECT_LEVEL_DEFAULT(test);
	scoped_guard(kpkeys_hardened_pgtables) {
		inside = arch_kpkeys_read_reg();
	}
	EXPECT_LEVEL_DEFAULT(test);
	KUNIT_EXPECT_EQ(test, inside, level_reg_pgtables());
}

static void guard_is_counted(struct kunit *test)
{
	unsigned long before, after;

	before = kpkeys_stat_read(KPKEYS_STAT_SWITCHES);
	scoped_guard(kpkeys_hardened_pgtables) {
		barrier();
	}
	after = kpkeys_stat_read(KPKEYS_STAT_SWITCHES);

	/* Other tasks may add switches, but only in a protected boot. */
	if (protected_boot())
		KUNIT_EXPECT_GT(test, after, before);
	else
		KUNIT_EXPECT_EQ(test, after, 0);
}

static void nested_guard_does_nothing(struct kunit *test)
{
	u64 inner, inside, behind;

	skip_unless_protected(test);

	scoped_guard(kpkeys_hardened_pgtables) {
		inner = kpkeys_set_level(KPKEYS_LVL_PGTABLES);
		inside = arch_kpkeys_read_reg();
		kpkeys_restore_pkey_reg(inner);
		behind = arch_kpkeys_read_reg();
	}
	EXPECT_LEVEL_DEFAULT(test);
	KUNIT_EXPECT_EQ(test, inner, KPKEYS_PKEY_REG_INVAL);
	KUNIT_EXPECT_EQ(test, inside, level_reg_pgtables());
	KUNIT_EXPECT_EQ(test, behind, level_reg_pgtables());
}

/* An interrupt may have woken another task, which has to wait for the end. */
static void nested_guard_is_no_preemption_point(struct kunit *test)
{
	u64 inner, behind;

	skip_unless_protected(test);

	scoped_guard(kpkeys_hardened_pgtables) {
		set_tsk_need_resched(current);
		set_preempt_need_resched();
		inner = kpkeys_set_level(KPKEYS_LVL_PGTABLES);
		kpkeys_restore_pkey_reg(inner);
		behind = arch_kpkeys_read_reg();
	}
	KUNIT_EXPECT_EQ(test, inner, KPKEYS_PKEY_REG_INVAL);
	KUNIT_EXPECT_EQ(test, behind, level_reg_pgtables());
}

static noinline int leave_early(int how)
{
	int i;

	for (i = 0; i < 2; i++) {
		guard(kpkeys_hardened_pgtables)();

		if (how == 0)
			return 1;
		if (how == 1)
			break;
		if (how == 2)
			goto out;
	}
	return 2;
out:
	return 3;
}

static void guard_ends_on_early_exit(struct kunit *test)
{
	int how;

	for (how = 0; how < 4; how++) {
		KUNIT_EXPECT_GT(test, leave_early(how), 0);
		EXPECT_LEVEL_DEFAULT(test);
	}
}

/*
 * The saved value is on the stack, where an attacker may write. Restoring must
 * lower the level whatever the value is.
 */
static void restore_ignores_the_value(struct kunit *test)
{
	skip_unless_protected(test);

	kpkeys_set_level(KPKEYS_LVL_PGTABLES);
	kpkeys_restore_pkey_reg(level_reg_pgtables());
	EXPECT_LEVEL_DEFAULT(test);
}

static void raising_from_another_level_warns(struct kunit *test)
{
	skip_unless_protected(test);
	if (!IS_ENABLED(CONFIG_KPKEYS_DEBUG))
		kunit_skip(test, "needs KPKEYS_DEBUG");

	kunit_warning_suppress(test) {
		kpkeys_assert_default(level_reg_pgtables());
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
		kpkeys_assert_default(level_reg_default());
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
}

/* === Events inside a guard ============================================== */

struct irq_sample {
	struct hrtimer timer;
	u64 on_entry, in_guard, behind_guard;
	bool done;
};

static enum hrtimer_restart sample_in_irq(struct hrtimer *timer)
{
	struct irq_sample *sample = container_of(timer, typeof(*sample), timer);

	sample->on_entry = arch_kpkeys_read_reg();
	scoped_guard(kpkeys_hardened_pgtables) {
		sample->in_guard = arch_kpkeys_read_reg();
	}
	sample->behind_guard = arch_kpkeys_read_reg();
	WRITE_ONCE(sample->done, true);
	return HRTIMER_NORESTART;
}

static void interrupt_inside_guard(struct kunit *test)
{
	struct irq_sample sample = { };
	unsigned long long spins = 0;
	u64 after;

	skip_unless_protected(test);

	hrtimer_setup_on_stack(&sample.timer, sample_in_irq, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_HARD);
	/* Stay on this CPU: the timer interrupts it. */
	preempt_disable();
	hrtimer_start(&sample.timer, ms_to_ktime(5), HRTIMER_MODE_REL_HARD);
	scoped_guard(kpkeys_hardened_pgtables) {
		while (!READ_ONCE(sample.done) && spins < 1ULL << 34)
			spins++;
		after = arch_kpkeys_read_reg();
	}
	preempt_enable();
	hrtimer_cancel(&sample.timer);
	destroy_hrtimer_on_stack(&sample.timer);

	KUNIT_ASSERT_TRUE(test, sample.done);
	KUNIT_EXPECT_EQ(test, sample.on_entry, level_reg_default());
	KUNIT_EXPECT_EQ(test, sample.in_guard, level_reg_pgtables());
	KUNIT_EXPECT_EQ(test, sample.behind_guard, level_reg_default());
	KUNIT_EXPECT_EQ(test, after, level_reg_pgtables());
	EXPECT_LEVEL_DEFAULT(test);
}

/* Sleeping in a guard is a bug: it must warn, and fail closed. */
static void sleep_inside_guard(struct kunit *test)
{
	u64 after;

	skip_unless_protected(test);

	kunit_warning_suppress(test) {
		scoped_guard(kpkeys_hardened_pgtables) {
			msleep(20);
			after = arch_kpkeys_read_reg();
		}
		if (IS_ENABLED(CONFIG_KPKEYS_DEBUG))
			KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, after, level_reg_default());
	EXPECT_LEVEL_DEFAULT(test);
}

KUNIT_DEFINE_ACTION_WRAPPER(free_vmalloc, vfree, const void *);

/* A kernel address without a mapping. */
static void *unmapped_address(struct kunit *test)
{
	void *p;

	/* UML treats every fault in vmalloc space as spurious. */
	if (IS_ENABLED(CONFIG_UML))
		return (void *)8;

	p = vmalloc(PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_vmalloc, p),
			0);
	return p + PAGE_SIZE;	/* the guard page */
}

static void fault_inside_guard(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	unsigned long value;
	void *nowhere;
	u64 after;
	long ret;

	skip_unless_protected(test);

	nowhere = unmapped_address(test);
	scoped_guard(kpkeys_hardened_pgtables) {
		ret = copy_from_kernel_nofault(&value, nowhere, sizeof(value));
		after = arch_kpkeys_read_reg();
	}
	KUNIT_EXPECT_EQ(test, ret, -EFAULT);
	/* An ordinary fault is not a violation. */
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);
	KUNIT_EXPECT_EQ(test, after, level_reg_pgtables());
	EXPECT_LEVEL_DEFAULT(test);
}

/* On most architectures WARN() is an exception. */
static void warning_inside_guard(struct kunit *test)
{
	u64 after;

	skip_unless_protected(test);

	kunit_warning_suppress(test) {
		scoped_guard(kpkeys_hardened_pgtables) {
			WARN_ON(true);
			after = arch_kpkeys_read_reg();
		}
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
		KUNIT_EXPECT_EQ(test, after, level_reg_pgtables());
	}
	EXPECT_LEVEL_DEFAULT(test);
}

/* === Places that require the default level ============================== */

struct sample {
	u64 reg;
	struct completion done;
};

static int sample_thread(void *data)
{
	struct sample *sample = data;

	sample->reg = arch_kpkeys_read_reg();
	complete(&sample->done);
	return 0;
}

/* A FIFO thread for this CPU, on which the caller stays until migrate_enable(). */
static struct task_struct *urgent_thread(struct kunit *test, struct sample *sample)
{
	struct task_struct *task;

	init_completion(&sample->done);
	task = kthread_create(sample_thread, sample, "kpkeys_urgent");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	migrate_disable();
	kthread_bind(task, smp_processor_id());
	sched_set_fifo(task);
	return task;
}

#ifdef CONFIG_PREEMPTION
/* A FIFO thread preempts a task in a guard. */
static noinline u64 level_after_preemption(struct kunit *test)
{
	struct sample sample = { };
	struct task_struct *task = urgent_thread(test, &sample);
	bool preempted;
	u64 after;

	kunit_warning_suppress(test) {
		scoped_guard(kpkeys_hardened_pgtables) {
			preempt_disable();
			wake_up_process(task);
			preempt_enable();
			preempted = completion_done(&sample.done);
			after = arch_kpkeys_read_reg();
		}
	}
	migrate_enable();
	wait_for_completion(&sample.done);

	KUNIT_EXPECT_TRUE(test, preempted);
	KUNIT_EXPECT_EQ(test, sample.reg, level_reg_default());
	return after;
}

static void preemption_inside_guard(struct kunit *test)
{
	skip_unless_protected(test);

	KUNIT_EXPECT_EQ(test, level_after_preemption(test), level_reg_default());
	EXPECT_LEVEL_DEFAULT(test);
}

struct wake_sample {
	struct hrtimer timer;
	struct task_struct *task;
	bool inside, done;
};

static enum hrtimer_restart wake_in_irq(struct hrtimer *timer)
{
	struct wake_sample *sample = container_of(timer, typeof(*sample), timer);

	/* On a slow machine the guard may not have begun. */
	if (!READ_ONCE(sample->inside)) {
		hrtimer_forward_now(timer, ms_to_ktime(5));
		return HRTIMER_RESTART;
	}
	wake_up_process(sample->task);
	WRITE_ONCE(sample->done, true);
	return HRTIMER_NORESTART;
}

/*
 * An interrupt must not preempt a task in a guard, not even for a FIFO thread:
 * the task's frame is in the ledger of this CPU.
 */
static void interrupt_does_not_preempt_a_guard(struct kunit *test)
{
	struct wake_sample wake = { };
	struct sample sample = { };
	unsigned long long spins = 0;
	bool preempted;
	u64 after;

	skip_unless_protected(test);

	wake.task = urgent_thread(test, &sample);
	hrtimer_setup_on_stack(&wake.timer, wake_in_irq, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&wake.timer, ms_to_ktime(5), HRTIMER_MODE_REL_PINNED_HARD);

	scoped_guard(kpkeys_hardened_pgtables) {
		WRITE_ONCE(wake.inside, true);
		while (!READ_ONCE(wake.done) && spins < 1ULL << 34)
			spins++;
		after = arch_kpkeys_read_reg();
		preempted = completion_done(&sample.done);
	}
	hrtimer_cancel(&wake.timer);
	destroy_hrtimer_on_stack(&wake.timer);
	migrate_enable();
	wait_for_completion(&sample.done);

	KUNIT_ASSERT_TRUE(test, wake.done);
	KUNIT_EXPECT_FALSE(test, preempted);
	KUNIT_EXPECT_EQ(test, after, level_reg_pgtables());
	EXPECT_LEVEL_DEFAULT(test);
}
#else
static void interrupt_does_not_preempt_a_guard(struct kunit *test)
{
	kunit_skip(test, "the kernel is not preemptible");
}

static void preemption_inside_guard(struct kunit *test)
{
	kunit_skip(test, "the kernel is not preemptible");
}
#endif

#ifdef CONFIG_UML
static void user_mode_is_entered_at_default(struct kunit *test)
{
	u64 after;

	skip_unless_protected(test);

	kunit_warning_suppress(test) {
		/* A context switch would warn as well: let others run now. */
		cond_resched();
		scoped_guard(irqsave) {
			kpkeys_raise(KPKEYS_LVL_PGTABLES);
			interrupt_end();
			after = arch_kpkeys_read_reg();
			kpkeys_lower();
		}
		if (IS_ENABLED(CONFIG_KPKEYS_DEBUG))
			KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, after, level_reg_default());
}
#else
static void user_mode_is_entered_at_default(struct kunit *test)
{
	u64 after;

	skip_unless_protected(test);

	kunit_warning_suppress(test) {
		local_irq_disable();
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		arch_exit_to_user_mode_prepare(NULL, 0);
		after = arch_kpkeys_read_reg();
		kpkeys_lower();
		local_irq_enable();
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, after, level_reg_default());
}
#endif

static void new_thread_is_at_default(struct kunit *test)
{
	struct sample sample = { };
	struct task_struct *task;

	skip_unless_protected(test);

	init_completion(&sample.done);
	task = kthread_run(sample_thread, &sample, "kpkeys_sample");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wait_for_completion(&sample.done);
	KUNIT_EXPECT_EQ(test, sample.reg, level_reg_default());
}

static void sample_ipi(void *data)
{
	*(u64 *)data = arch_kpkeys_read_reg();
}

static long sample_work(void *data)
{
	*(u64 *)data = arch_kpkeys_read_reg();
	return 0;
}

static void every_cpu_is_at_default(struct kunit *test)
{
	u64 reg;
	int cpu;

	skip_unless_protected(test);

	for_each_online_cpu(cpu) {
		reg = 0;
		smp_call_function_single(cpu, sample_ipi, &reg, 1);
		KUNIT_EXPECT_EQ_MSG(test, reg, level_reg_default(),
				    "IPI on CPU %d", cpu);
		reg = 0;
		work_on_cpu(cpu, sample_work, &reg);
		KUNIT_EXPECT_EQ_MSG(test, reg, level_reg_default(),
				    "thread on CPU %d", cpu);
	}
}

/* === Tagged memory ====================================================== */

#define NR_PAGES	4

static void give_back(void *pages)
{
	set_memory_pkey((unsigned long)pages, NR_PAGES, KPKEYS_PKEY_DEFAULT);
	free_pages_exact(pages, NR_PAGES * PAGE_SIZE);
}

static char *get_pages(struct kunit *test)
{
	char *pages = alloc_pages_exact(NR_PAGES * PAGE_SIZE,
					GFP_KERNEL | __GFP_ZERO);

	KUNIT_ASSERT_NOT_NULL(test, pages);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, give_back, pages),
			0);
	return pages;
}

static void tagged_memory_is_read_only(struct kunit *test)
{
	char *pages = get_pages(test);
	char *first = pages + PAGE_SIZE, *second = first + PAGE_SIZE;
	u64 reg;

	first[0] = 42;
	if (arch_max_pkey() >= KPKEYS_PKEY_PGTABLES)
		KUNIT_ASSERT_EQ(test,
				set_memory_pkey((unsigned long)first, 2,
						KPKEYS_PKEY_PGTABLES), 0);

	/* Exactly these two pages, up to the last byte, and only for writes. */
	EXPECT_WRITABLE(test, pages + PAGE_SIZE - sizeof(long));
	EXPECT_PROTECTED(test, first);
	EXPECT_PROTECTED(test, second + PAGE_SIZE - sizeof(long));
	EXPECT_WRITABLE(test, second + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, first[0], 42);

	if (protected_boot()) {
		reg = kpkeys_set_level(KPKEYS_LVL_PGTABLES);
		WRITE_ONCE(first[0], 43);
		kpkeys_restore_pkey_reg(reg);
		KUNIT_EXPECT_EQ(test, first[0], 43);
		EXPECT_PROTECTED(test, first);
	}

	KUNIT_EXPECT_EQ(test, set_memory_pkey((unsigned long)first, 2,
					      KPKEYS_PKEY_DEFAULT), 0);
	EXPECT_WRITABLE(test, first);
	EXPECT_WRITABLE(test, second);
}

/*
 * A refused write is handled on the stack of the task, or it is not preempted: a
 * signal's stack has other users. A FIFO thread waits for the first chance.
 */
static void refused_write_of_a_task_to_preempt(struct kunit *test)
{
	char *page = get_pages(test);
	struct sample sample = { };
	struct task_struct *task;

	skip_unless_protected(test);
	if (!IS_ENABLED(CONFIG_PREEMPTION))
		kunit_skip(test, "the kernel is not preemptible");

	KUNIT_ASSERT_EQ(test, set_memory_pkey((unsigned long)page, 1,
					      KPKEYS_PKEY_PGTABLES), 0);
	task = urgent_thread(test, &sample);
	scoped_guard(irqsave)
		wake_up_process(task);
	EXPECT_PROTECTED(test, page);
	migrate_enable();
	wait_for_completion(&sample.done);

	KUNIT_EXPECT_EQ(test, sample.reg, level_reg_default());
	KUNIT_EXPECT_EQ(test, set_memory_pkey((unsigned long)page, 1,
					      KPKEYS_PKEY_DEFAULT), 0);
}

/* vunmap() flushes TLBs lazily. */
static void tag_outlives_no_other_mapping(struct kunit *test)
{
	char *pages = get_pages(test);
	struct page *page = virt_to_page(pages);
	unsigned long value = 42;
	unsigned long *other;

	skip_unless_protected(test);
	if (IS_ENABLED(CONFIG_UML))
		kunit_skip(test, "a fault in vmalloc space has no end there");

	other = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, other);
	WRITE_ONCE(*other, 1);
	vunmap(other);
	KUNIT_ASSERT_EQ(test, set_memory_pkey((unsigned long)pages, 1,
					      KPKEYS_PKEY_PGTABLES), 0);

	KUNIT_EXPECT_EQ(test, kpkeys_test_write(other, &value, sizeof(value)),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, *(unsigned long *)pages, 1);
}

static void set_memory_pkey_refuses_bad_input(struct kunit *test)
{
	unsigned long page = (unsigned long)get_pages(test);
	int pkey = arch_max_pkey();

	KUNIT_EXPECT_EQ(test, set_memory_pkey(page, 1, -1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(page, 1, pkey + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(page, 0, pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(page, -1, pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(page + 8, 1, pkey), -EINVAL);
	EXPECT_WRITABLE(test, (void *)page);
}

/* A separate case, because kunit_skip() hides earlier failures. */
static void set_memory_pkey_refuses_other_memory(struct kunit *test)
{
	int pkey = arch_max_pkey();

	skip_unless_protected(test);

	/* The first page, vmalloc space, and a range that wraps around. */
	KUNIT_EXPECT_EQ(test, set_memory_pkey(0, 1, pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(VMALLOC_START, 1, pkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_memory_pkey(-PAGE_SIZE, 1, pkey), -EINVAL);
}

static struct kunit_case levels_cases[] = {
	KUNIT_CASE(guard_raises_and_restores),
	KUNIT_CASE(guard_is_counted),
	KUNIT_CASE(nested_guard_does_nothing),
	KUNIT_CASE(nested_guard_is_no_preemption_point),
	KUNIT_CASE(guard_ends_on_early_exit),
	KUNIT_CASE(restore_ignores_the_value),
	KUNIT_CASE(raising_from_another_level_warns),
	KUNIT_CASE(interrupt_inside_guard),
	KUNIT_CASE(sleep_inside_guard),
	KUNIT_CASE(preemption_inside_guard),
	KUNIT_CASE(interrupt_does_not_preempt_a_guard),
	KUNIT_CASE(fault_inside_guard),
	KUNIT_CASE(warning_inside_guard),
	KUNIT_CASE(user_mode_is_entered_at_default),
	KUNIT_CASE(new_thread_is_at_default),
	KUNIT_CASE(every_cpu_is_at_default),
	KUNIT_CASE(tagged_memory_is_read_only),
	KUNIT_CASE(refused_write_of_a_task_to_preempt),
	KUNIT_CASE(tag_outlives_no_other_mapping),
	KUNIT_CASE(set_memory_pkey_refuses_bad_input),
	KUNIT_CASE(set_memory_pkey_refuses_other_memory),
	{}
};

static struct kunit_suite levels_suite = {
	.name = "kpkeys_levels",
	.test_cases = levels_cases,
};

kunit_test_suite(levels_suite);
