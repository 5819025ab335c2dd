// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of state that is written rarely: who writes it, and who does not. */
#include <linux/binfmts.h>
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/kpkeys_state.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/vmalloc.h>

#include "test.h"

static unsigned long word __kpkeys_state = 1;
static char text[32] __kpkeys_state = "before";

static unsigned long ordinary = 1;

#define skip_unless_state_is_protected(test)				\
	do {								\
		if (!kpkeys_hardened_state_enabled())			\
			kunit_skip(test, "state is not hardened in this boot"); \
	} while (0)

static void state_is_protected(struct kunit *test)
{
	int err = kpkeys_hardened_state_enabled() ? -EFAULT : 0;
	char *page, c;

	for (page = __kpkeys_state_start; page < __kpkeys_state_end; page += PAGE_SIZE) {
		KUNIT_EXPECT_EQ(test, probe_write(page), err);
		/* Once booted, arm64 maps its data once. */
		if (!get_kernel_nofault(c, (char *)lm_alias(page)))
			KUNIT_EXPECT_EQ(test, probe_write(lm_alias(page)), err);
	}
	KUNIT_EXPECT_EQ(test, probe_write(&ordinary), 0);
	EXPECT_LEVEL_DEFAULT(test);
}

static void state_is_written(struct kunit *test)
{
	kpkeys_state_write(&word, 0x1122334455667788);
	KUNIT_EXPECT_EQ(test, word, 0x1122334455667788);
	kpkeys_state_write((u32 *)&word, 0xa1a2a3a4);
	KUNIT_EXPECT_EQ(test, word, 0x11223344a1a2a3a4);
	kpkeys_state_write((u16 *)&word, 0xb1b2);
	KUNIT_EXPECT_EQ(test, word, 0x11223344a1a2b1b2);
	kpkeys_state_write((u8 *)&word, 0xc1);
	KUNIT_EXPECT_EQ(test, word, 0x11223344a1a2b1c1);
	kpkeys_state_copy(text + 1, "hind me", 8);
	KUNIT_EXPECT_STREQ(test, text, "bhind me");
	EXPECT_LEVEL_DEFAULT(test);

	kpkeys_state_write(&ordinary, 2);
	KUNIT_EXPECT_EQ(test, ordinary, 2);
}

/* A forged pointer gets the writer to write nothing but state. */
static void nothing_else_is_written(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	unsigned long value = 3;

	KUNIT_EXPECT_TRUE(test, kpkeys_is_state(&word, sizeof(word)));
	KUNIT_EXPECT_FALSE(test, kpkeys_is_state(__kpkeys_state_start - 1, 1));
	KUNIT_EXPECT_FALSE(test, kpkeys_is_state(__kpkeys_state_end, 1));
	KUNIT_EXPECT_FALSE(test, kpkeys_is_state(__kpkeys_state_end - 4, 8));
	KUNIT_EXPECT_FALSE(test, kpkeys_is_state(&word, SIZE_MAX));

	kpkeys_expect_violation(true);
	kpkeys_state_copy(&ordinary, &value, sizeof(value));
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_NE(test, ordinary, value);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + 1);
	EXPECT_LEVEL_DEFAULT(test);
}

static void levels_write_only_what_is_theirs(struct kunit *test)
{
	struct page *table;

	skip_unless_state_is_protected(test);

	table = kpkeys_pgtable_alloc(GFP_KERNEL, 0, KPKEYS_ANY_LEVEL);
	KUNIT_ASSERT_NOT_NULL(test, table);

	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_PGTABLES, page_address(table)), 0);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_STATE, &word), 0);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_PGTABLES, &word), -EFAULT);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_STATE, page_address(table)), -EFAULT);
	kpkeys_expect_violation(false);
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_pgtable_free(table);
}

struct irq_sample {
	struct hrtimer timer;
	u64 on_entry;
	bool done;
};

static enum hrtimer_restart sample_and_write(struct hrtimer *timer)
{
	struct irq_sample *sample = container_of(timer, typeof(*sample), timer);

	sample->on_entry = arch_kpkeys_read_reg();
	/* Another level meanwhile must not be what is returned to. */
	scoped_guard(kpkeys_hardened_pgtables)
		barrier();
	WRITE_ONCE(sample->done, true);
	return HRTIMER_NORESTART;
}

static __always_inline void interrupt_at(struct kunit *test, const int level)
{
	struct irq_sample sample = { };
	unsigned long long spins = 0;
	u64 after;

	hrtimer_setup_on_stack(&sample.timer, sample_and_write, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_HARD);
	/* Stay on this CPU: the timer interrupts it. */
	preempt_disable();
	hrtimer_start(&sample.timer, ms_to_ktime(5), HRTIMER_MODE_REL_HARD);
	kpkeys_raise(level);
	while (!READ_ONCE(sample.done) && spins < 1ULL << 34)
		spins++;
	after = arch_kpkeys_read_reg();
	kpkeys_lower();
	preempt_enable();
	hrtimer_cancel(&sample.timer);
	destroy_hrtimer_on_stack(&sample.timer);

	KUNIT_ASSERT_TRUE(test, sample.done);
	KUNIT_EXPECT_EQ(test, sample.on_entry, level_reg_default());
	KUNIT_EXPECT_EQ(test, after, arch_kpkeys_level_reg(level));
	EXPECT_LEVEL_DEFAULT(test);
}

static void interrupted_code_is_at_its_level_again(struct kunit *test)
{
	skip_unless_state_is_protected(test);

	interrupt_at(test, KPKEYS_LVL_STATE);
	interrupt_at(test, KPKEYS_LVL_CRED);
	interrupt_at(test, KPKEYS_LVL_SECRET);
}

static void state_is_not_mapped_again(struct kunit *test)
{
	struct page *page = virt_to_page(lm_alias(&word));
	void *alias;

	kpkeys_expect_violation(true);
	alias = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	kpkeys_expect_violation(false);
	KUNIT_ASSERT_NOT_NULL(test, alias);
	KUNIT_EXPECT_EQ(test, vmalloc_to_page(alias) == page,
			!kpkeys_hardened_state_enabled());
	vunmap(alias);
}

/* Permissions may have been checked for something else. */
static void root_writes_for_others(struct kunit *test)
{
	unsigned long before = word;
	const struct cred *old;
	struct cred *user;

	user = prepare_creds();
	KUNIT_ASSERT_NOT_NULL(test, user);
	cred_set(user, euid, KUIDT_INIT(1000));

	kpkeys_expect_violation(true);
	old = override_creds(user);
	kpkeys_state_write_by_root(&word, before + 1);
	revert_creds(old);
	kpkeys_expect_violation(false);
	put_cred(user);
	KUNIT_EXPECT_EQ(test, word, before);

	kpkeys_state_write_by_root(&word, before + 1);
	KUNIT_EXPECT_EQ(test, word, before + 1);
}

static void known_targets_are_state(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, kpkeys_is_state(&suid_dumpable, sizeof(suid_dumpable)));
#ifdef CONFIG_MODULES
	extern char modprobe_path[];

	KUNIT_EXPECT_TRUE(test, kpkeys_is_state(modprobe_path, 256));
#endif
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE(state_is_protected),
	KUNIT_CASE(state_is_written),
	KUNIT_CASE(nothing_else_is_written),
	KUNIT_CASE(levels_write_only_what_is_theirs),
	KUNIT_CASE(interrupted_code_is_at_its_level_again),
	KUNIT_CASE(state_is_not_mapped_again),
	KUNIT_CASE(root_writes_for_others),
	KUNIT_CASE(known_targets_are_state),
	{}
};

static struct kunit_suite state_suite = {
	.name = "kpkeys_state",
	.test_cases = state_cases,
};

kunit_test_suite(state_suite);
