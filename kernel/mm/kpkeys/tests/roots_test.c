// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of roots: mm->pgd of an address space that no process uses is
 * forged. Without protection, the forged value is what is taken.
 */
#include <linux/irqflags.h>
#include <linux/kpkeys_roots.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include <asm/pgalloc.h>

#include "test.h"

/* An attacker may have mm->pgd point to each of these. */
struct tables {
	struct mm_struct *mm, *other;
	pgd_t *root;
	void *lower;
	void *ordinary;
	void *mapped;
};

static unsigned int order_of_roots(void)
{
	return arch_kpkeys_pgd_order(&init_mm);
}

static int roots_test_init(struct kunit *test)
{
	struct tables *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct ptdesc *lower;

	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	t->mm = mm_alloc();
	t->other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, t->mm);
	KUNIT_ASSERT_NOT_NULL(test, t->other);
	t->root = t->mm->pgd;

	lower = pagetable_alloc(GFP_PGTABLE_KERNEL, order_of_roots());
	KUNIT_ASSERT_NOT_NULL(test, lower);
	t->lower = ptdesc_address(lower);
	t->ordinary = (void *)__get_free_pages(GFP_KERNEL, order_of_roots());
	KUNIT_ASSERT_NOT_NULL(test, t->ordinary);
	t->mapped = vmalloc(PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, t->mapped);
	return 0;
}

static void roots_test_exit(struct kunit *test)
{
	struct tables *t = test->priv;

	if (!t)
		return;
	vfree(t->mapped);
	free_pages((unsigned long)t->ordinary, order_of_roots());
	if (t->lower)
		pagetable_free(virt_to_ptdesc(t->lower));
	if (t->other)
		mmput(t->other);
	if (t->mm)
		mmput(t->mm);
}

static pgd_t *root_of(struct mm_struct *mm)
{
	pgd_t *root;

	kpkeys_expect_violation(true);
	root = kpkeys_root(mm);
	kpkeys_expect_violation(false);
	return root;
}

/* === Forged roots ======================================================= */

struct forgery {
	const char *name;
	void *(*root)(const struct tables *t);
};

static void *forged_to_other(const struct tables *t)
{
	return t->other->pgd;
}

static void *forged_to_lower(const struct tables *t)
{
	return t->lower;
}

static void *forged_to_ordinary(const struct tables *t)
{
	return t->ordinary;
}

static void *forged_to_mapped(const struct tables *t)
{
	return t->mapped;
}

static void *forged_to_next_entry(const struct tables *t)
{
	return t->root + 1;
}

static void *forged_to_next_page(const struct tables *t)
{
	return (void *)t->root + PAGE_SIZE;
}

static void *forged_to_kernel(const struct tables *t)
{
	return swapper_pg_dir;
}

static void *forged_to_null(const struct tables *t)
{
	return NULL;
}

static void *forged_to_last(const struct tables *t)
{
	return (void *)PAGE_MASK;
}

static const struct forgery forgeries[] = {
	{ "the root of another process", forged_to_other },
	{ "a table of a lower level", forged_to_lower },
	{ "ordinary memory", forged_to_ordinary },
	{ "memory outside of the linear map", forged_to_mapped },
	{ "the next entry of the root", forged_to_next_entry },
	{ "the page behind the root", forged_to_next_page },
	{ "the root of the kernel", forged_to_kernel },
	{ "address 0", forged_to_null },
	{ "the last page of the address space", forged_to_last },
};

KUNIT_ARRAY_PARAM_DESC(forgery, forgeries, name);

static void forged_root_is_refused(struct kunit *test)
{
	const struct forgery *forgery = test->param_value;
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct tables *t = test->priv;
	pgd_t *forged = forgery->root(t), *taken;

	WRITE_ONCE(t->mm->pgd, forged);
	taken = root_of(t->mm);
	KUNIT_EXPECT_PTR_EQ(test, taken, protected_boot() ? t->root : forged);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + protected_boot());

	/* A forged pointer is mended, and not reported again. */
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(t->mm->pgd), taken);
	KUNIT_EXPECT_PTR_EQ(test, root_of(t->mm), taken);
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS),
			before + protected_boot());
	WRITE_ONCE(t->mm->pgd, t->root);
}

/* The scheduler cannot kill the task: the next walk does. */
static void forged_root_is_not_loaded(struct kunit *test)
{
	struct tables *t = test->priv;
	pgd_t *forged = t->other->pgd, *taken;

	WRITE_ONCE(t->mm->pgd, forged);
	scoped_guard(irq)
		taken = root_of(t->mm);
	KUNIT_EXPECT_PTR_EQ(test, taken, protected_boot() ? t->root : forged);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(t->mm->pgd), forged);

	taken = root_of(t->mm);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(t->mm->pgd), taken);
	WRITE_ONCE(t->mm->pgd, t->root);
}

static void walk_starts_at_claimed_root(struct kunit *test)
{
	struct tables *t = test->priv;
	pgd_t *found;

	WRITE_ONCE(t->mm->pgd, t->ordinary);
	kpkeys_expect_violation(true);
	found = pgd_offset(t->mm, PAGE_SIZE);
	kpkeys_expect_violation(false);
	WRITE_ONCE(t->mm->pgd, t->root);

	KUNIT_EXPECT_PTR_EQ(test, found, pgd_offset_pgd(protected_boot() ?
							t->root : t->ordinary,
							PAGE_SIZE));
}

/* === Claims ============================================================= */

static void root_is_claimed_and_released(struct kunit *test)
{
	struct tables *t = test->priv;

	skip_unless_protected(test);

	KUNIT_ASSERT_EQ(test, kpkeys_root_claim(t->mm, t->lower), 0);
	WRITE_ONCE(t->mm->pgd, t->lower);
	KUNIT_EXPECT_PTR_EQ(test, root_of(t->mm), (pgd_t *)t->lower);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(t->mm->pgd), (pgd_t *)t->lower);

	kpkeys_root_release(t->lower);
	KUNIT_ASSERT_EQ(test, kpkeys_root_claim(t->mm, t->root), 0);
	KUNIT_EXPECT_PTR_EQ(test, root_of(t->mm), t->root);
	WRITE_ONCE(t->mm->pgd, t->root);
}

/* Another table of a process is a copy for one CPU, and not taken for its root. */
static void copy_is_not_the_root(struct kunit *test)
{
	struct tables *t = test->priv;

	skip_unless_protected(test);

	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->lower, t->root));
	KUNIT_ASSERT_EQ(test, kpkeys_root_claim_copy(t->root, t->lower), 0);
	KUNIT_EXPECT_TRUE(test, kpkeys_root_is_copy(t->lower, t->root));
	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->root, t->lower));
	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->root, t->root));
	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->lower, t->other->pgd));
	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->ordinary, t->root));

	WRITE_ONCE(t->mm->pgd, t->lower);
	KUNIT_EXPECT_PTR_EQ(test, root_of(t->mm), t->root);
	kpkeys_root_release(t->lower);
	KUNIT_EXPECT_FALSE(test, kpkeys_root_is_copy(t->lower, t->root));
}

static void unprotected_root_is_not_claimed(struct kunit *test)
{
	struct tables *t = test->priv;

	skip_unless_protected(test);
	KUNIT_EXPECT_EQ(test, kpkeys_root_claim(t->mm, t->ordinary), -EINVAL);
}

static struct kunit_case roots_cases[] = {
	KUNIT_CASE_PARAM(forged_root_is_refused, forgery_gen_params),
	KUNIT_CASE(forged_root_is_not_loaded),
	KUNIT_CASE(walk_starts_at_claimed_root),
	KUNIT_CASE(root_is_claimed_and_released),
	KUNIT_CASE(copy_is_not_the_root),
	KUNIT_CASE(unprotected_root_is_not_claimed),
	{}
};

static struct kunit_suite roots_suite = {
	.name = "kpkeys_roots",
	.init = roots_test_init,
	.exit = roots_test_exit,
	.test_cases = roots_cases,
};

kunit_test_suite(roots_suite);
