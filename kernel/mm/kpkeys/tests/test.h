/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the KUnit suites. They run with page tables hardened, and with the
 * feature off or unavailable. In the second kind of boot a test of a protection
 * expects the opposite: otherwise it could pass on a kernel that protects
 * nothing.
 */
#ifndef __MM_KPKEYS_TESTS_TEST_H
#define __MM_KPKEYS_TESTS_TEST_H

#include <kunit/test.h>
#include <linux/kpkeys.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "../kpkeys.h"

static inline bool protected_boot(void)
{
	return kpkeys_hardened_pgtables_enabled();
}

#define skip_unless_protected(test)					\
	do {								\
		if (!protected_boot())					\
			kunit_skip(test, "page tables are not hardened in this boot"); \
	} while (0)

static inline u64 level_reg_default(void)
{
	return arch_kpkeys_level_reg(KPKEYS_LVL_DEFAULT);
}

static inline u64 level_reg_pgtables(void)
{
	return arch_kpkeys_level_reg(KPKEYS_LVL_PGTABLES);
}

#define EXPECT_LEVEL_DEFAULT(test)					\
	do {								\
		if (arch_kpkeys_enabled())				\
			KUNIT_EXPECT_EQ(test, arch_kpkeys_read_reg(),	\
					level_reg_default());		\
	} while (0)

/**
 * probe_write() - Store to memory outside of any guard.
 * @addr: the address; its value does not change.
 *
 * Return: 0 if the store succeeded, -EFAULT if it faulted.
 */
static inline int probe_write(void *addr)
{
	unsigned long value = READ_ONCE(*(unsigned long *)addr);

	return kpkeys_test_write(addr, &value, sizeof(value));
}

/**
 * write_at() - Store to memory at a level.
 * @level: the level.
 * @addr: the address; its value does not change.
 *
 * Return: 0 if the store succeeded, -EFAULT if it faulted.
 */
static __always_inline int write_at(const int level, void *addr)
{
	unsigned long value = READ_ONCE(*(unsigned long *)addr);
	int err;

	guard(preempt)();
	kpkeys_raise(level);
	err = copy_to_kernel_nofault(addr, &value, sizeof(value));
	kpkeys_lower();
	return err;
}

/**
 * expect_refusal() - Announce that the kernel refuses the next calls.
 *
 * Return: the number of violations so far, for was_refused().
 */
static inline unsigned long expect_refusal(void)
{
	kpkeys_expect_violation(true);
	return kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
}

/* Since expect_refusal() there were so many violations, and now there are no more. */
static inline void was_refused(struct kunit *test, unsigned long before, unsigned long nr)
{
	kpkeys_expect_violation(false);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before + nr);
	EXPECT_LEVEL_DEFAULT(test);
}

/* A store to a protected page must fault and be counted. */
static inline void expect_protected(struct kunit *test, void *addr,
				    const char *what)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	bool refused = protected_boot();

	KUNIT_EXPECT_EQ_MSG(test, probe_write(addr), refused ? -EFAULT : 0,
			    "write to %s", what);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + refused);
	EXPECT_LEVEL_DEFAULT(test);
}

#define EXPECT_PROTECTED(test, addr)	expect_protected(test, addr, #addr)

#define EXPECT_WRITABLE(test, addr)					\
	KUNIT_EXPECT_EQ(test, probe_write(addr), 0)

static inline int leave_entry(pte_t *ptep, unsigned long addr, void *unused)
{
	return 0;
}

/**
 * map_nothing() - Have page tables in vmalloc space that map nothing.
 * @test: the test.
 * @area: receives the area; to be freed with free_vm_area().
 *
 * Return: an address in the area, with a table of the lowest level of its own.
 */
static inline unsigned long map_nothing(struct kunit *test, struct vm_struct **area)
{
	unsigned long addr;

	*area = get_vm_area(2 * PMD_SIZE, VM_MAP);
	KUNIT_ASSERT_NOT_NULL(test, *area);
	addr = ALIGN((unsigned long)(*area)->addr, PMD_SIZE);
	KUNIT_ASSERT_EQ(test, apply_to_page_range(&init_mm, addr, PAGE_SIZE, leave_entry, NULL),
			0);
	return addr;
}

#endif /* __MM_KPKEYS_TESTS_TEST_H */
