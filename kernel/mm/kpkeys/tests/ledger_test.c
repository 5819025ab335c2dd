// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the ledger: which frames are raised again, and by whom. */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/kpkeys_batch.h>
#include <linux/kpkeys_ledger.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include "test.h"

/* A forged ledger entry would raise an arbitrary frame. */
static void ledgers_are_protected(struct kunit *test)
{
	int cpu;

	for_each_possible_cpu(cpu)
		EXPECT_PROTECTED(test, per_cpu_ptr(&kpkeys_ledger, cpu));
}

static void frames_nest(struct kunit *test)
{
	bool outer, inner, outer_again, empty;
	unsigned long flags;

	skip_unless_protected(test);

	local_irq_save(flags);
	scoped_guard(kpkeys_hardened_pgtables) {
		kpkeys_ledger_push(8, KPKEYS_LVL_PGTABLES);
		outer = kpkeys_ledger_is_top(8);
		kpkeys_ledger_push(16, KPKEYS_LVL_STATE);
		inner = kpkeys_ledger_is_top(16);
		kpkeys_ledger_pop();
		outer_again = kpkeys_ledger_is_top(8);
		kpkeys_ledger_pop();
		empty = kpkeys_ledger_is_top(0);
	}
	local_irq_restore(flags);

	KUNIT_EXPECT_TRUE(test, outer);
	KUNIT_EXPECT_TRUE(test, inner);
	KUNIT_EXPECT_TRUE(test, outer_again);
	KUNIT_EXPECT_TRUE(test, empty);
}

/* With the ledger full, a frame continues at the default level. */
static void ledger_has_an_end(struct kunit *test)
{
	unsigned long flags, i, pushed = 0;
	bool empty;

	skip_unless_protected(test);

	/* On um, a signal while the ledger is full ends the level in earnest. */
	local_irq_save(flags);
	for (i = 0; i < 2 * KPKEYS_LEDGER_DEPTH; i++)
		scoped_guard(kpkeys_hardened_pgtables) {
			pushed += kpkeys_ledger_push(8 * (i + 1),
						     KPKEYS_LVL_PGTABLES);
		}
	scoped_guard(kpkeys_hardened_pgtables) {
		kpkeys_ledger_clear();
		empty = kpkeys_ledger_is_top(0);
	}
	local_irq_restore(flags);

	KUNIT_EXPECT_EQ(test, pushed, KPKEYS_LEDGER_DEPTH);
	KUNIT_EXPECT_TRUE(test, empty);
}

static noinline void pause_and_forget(void)
{
	kpkeys_batch_pause();
}

/* May get the same frame address as pause_and_forget(). */
static noinline u64 resume_for_another(void)
{
	kpkeys_batch_resume();
	return arch_kpkeys_read_reg();
}

static void context_switch_forgets_frames(struct kunit *test)
{
	bool forgotten, kept;

	skip_unless_protected(test);
	if (!kpkeys_batch_enabled())
		kunit_skip(test, "there are no sections in this boot");

	kpkeys_batch_begin();
	pause_and_forget();
	kept = !kpkeys_ledger_is_top(0);
	kpkeys_batch_end();

	msleep(20);
	preempt_disable();
	forgotten = kpkeys_ledger_is_top(0);
	preempt_enable();

	KUNIT_EXPECT_TRUE(test, kept);
	KUNIT_EXPECT_TRUE(test, forgotten);
	KUNIT_EXPECT_EQ(test, resume_for_another(), level_reg_default());
	EXPECT_LEVEL_DEFAULT(test);
}

static struct kunit_case ledger_cases[] = {
	KUNIT_CASE(ledgers_are_protected),
	KUNIT_CASE(frames_nest),
	KUNIT_CASE(ledger_has_an_end),
	KUNIT_CASE(context_switch_forgets_frames),
	{}
};

static struct kunit_suite ledger_suite = {
	.name = "kpkeys_ledger",
	.test_cases = ledger_cases,
};

kunit_test_suite(ledger_suite);
