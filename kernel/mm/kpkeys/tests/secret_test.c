// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of secrets: who reads them, and who does not. */
#include <kunit/static_stub.h>
#include <linux/err.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_secret.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "test.h"
#include "../pool.h"
#include "../secret.h"

#define skip_unless_secrets_are_protected(test)				\
	do {								\
		if (!kpkeys_hardened_secret_enabled())			\
			kunit_skip(test, "secrets are not hardened in this boot"); \
	} while (0)

static const char text[] = "nobody reads this";

/* Addresses that tell owners apart, and nothing else. */
static char me, somebody_else;

static struct kpkeys_secret *secret_of(struct kunit *test, const void *owner,
				       const void *data, size_t size)
{
	struct kpkeys_secret *secret = kpkeys_secret_alloc(data, size);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, secret);
	KUNIT_ASSERT_EQ(test, kpkeys_secret_give(secret, owner), 0);
	return secret;
}

/* Read a word at a level. */
static __always_inline int read_at(const int level, const void *addr)
{
	unsigned long value;
	int err;

	guard(preempt)();
	kpkeys_raise(level);
	err = kpkeys_test_read(&value, addr);
	kpkeys_lower();
	return err;
}

static void a_secret_is_neither_read_nor_written(struct kunit *test)
{
	unsigned long value = 0, before;
	struct kpkeys_secret *secret;

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, secret), -EFAULT);
	KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, (void *)secret + 16), -EFAULT);
	KUNIT_EXPECT_EQ(test, value, 0);
	KUNIT_EXPECT_EQ(test, kpkeys_test_write(secret, &value, sizeof(value)), -EFAULT);
	was_refused(test, before, 3);
	kpkeys_secret_free(secret);
}

static void only_its_level_reads(struct kunit *test)
{
	struct kpkeys_secret *secret;

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	KUNIT_EXPECT_EQ(test, read_at(KPKEYS_LVL_SECRET, secret), 0);
	KUNIT_EXPECT_EQ(test, read_at(KPKEYS_LVL_PGTABLES, secret), -EFAULT);
	KUNIT_EXPECT_EQ(test, read_at(KPKEYS_LVL_STATE, secret), -EFAULT);
	KUNIT_EXPECT_EQ(test, read_at(KPKEYS_LVL_CRED, secret), -EFAULT);
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_secret_free(secret);
}

static void its_level_writes_nothing_of_others(struct kunit *test)
{
	struct page *table;

	skip_unless_secrets_are_protected(test);

	table = kpkeys_pgtable_alloc(GFP_KERNEL, 0, KPKEYS_ANY_LEVEL);
	KUNIT_ASSERT_NOT_NULL(test, table);
	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_SECRET, page_address(table)), -EFAULT);
	if (kpkeys_hardened_cred_enabled())
		KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_SECRET, (void *)current_cred()),
				-EFAULT);
	kpkeys_expect_violation(false);
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_pgtable_free(table);
}

static void the_owner_gets_it(struct kunit *test)
{
	struct kpkeys_secret *secret;
	char copy[sizeof(text)] = "";

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &me, copy, sizeof(copy)), 0);
	KUNIT_EXPECT_STREQ(test, copy, text);
	memset(copy, 0, sizeof(copy));
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &me, copy, 6), 0);
	KUNIT_EXPECT_STREQ(test, copy, "nobody");
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_secret_free(secret);
}

static void nobody_else_gets_it(struct kunit *test)
{
	struct kpkeys_secret *secret, *unowned;
	char copy[sizeof(text) + 1] = "";
	unsigned long before;

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	unowned = kpkeys_secret_alloc(text, sizeof(text));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, unowned);

	before = expect_refusal();
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &somebody_else, copy, 1), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, NULL, copy, 1), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(unowned, &me, copy, 1), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &me, copy, sizeof(copy)), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_give(secret, &somebody_else), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_clear(secret, &somebody_else), -EACCES);
	was_refused(test, before, 6);
	KUNIT_EXPECT_STREQ(test, copy, "");
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &me, copy, sizeof(text)), 0);
	KUNIT_EXPECT_STREQ(test, copy, text);
	kpkeys_secret_free(unowned);
	kpkeys_secret_free(secret);
}

/* A pointer into a secret, to a free one, or to other memory, is none. */
static void forged_pointers_are_refused(struct kunit *test)
{
	/* Two units: the second begins with what looks like a secret of mine. */
	const void *fake[16] = { [6] = &me, [7] = (void *)8 };
	struct kpkeys_secret *secret;
	unsigned long before, nr = 0;
	char copy[8] = "";
	const void *ends[4];
	int i;

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, fake, sizeof(fake));
	ends[0] = (void *)secret + 64;
	ends[1] = (void *)secret + 8;
	ends[2] = fake;
	ends[3] = NULL;
	before = expect_refusal();
	for (i = 0; i < ARRAY_SIZE(ends); i++, nr += 3) {
		KUNIT_EXPECT_EQ(test, kpkeys_secret_read(ends[i], &me, copy, 8), -EACCES);
		KUNIT_EXPECT_EQ(test, kpkeys_secret_give((void *)ends[i], &me), -EACCES);
		kpkeys_secret_free((void *)ends[i]);
	}
	was_refused(test, before, nr);

	kpkeys_secret_free(secret);
	before = expect_refusal();
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, &me, copy, 8), -EACCES);
	kpkeys_secret_free(secret);
	was_refused(test, before, 2);
	KUNIT_EXPECT_STREQ(test, copy, "");
}

static void secrets_are_not_copied_to_each_other(struct kunit *test)
{
	struct kpkeys_secret *mine, *other;
	unsigned long before;

	skip_unless_secrets_are_protected(test);

	mine = secret_of(test, &me, text, sizeof(text));
	other = secret_of(test, &somebody_else, text, sizeof(text));
	before = expect_refusal();
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc((void *)other + 16, 8)), -EACCES);
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc((void *)other - 8, 16)), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(mine, &me, (void *)other + 16, 8), -EACCES);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(mine, &me, (void *)other - 8, 16), -EACCES);
	was_refused(test, before, 4);
	kpkeys_secret_free(other);
	kpkeys_secret_free(mine);
}

/* Sizes around those of units, pages and what fits; and absurd ones. */
static void secrets_of_all_sizes(struct kunit *test)
{
	static const size_t sizes[] = { 0, 1, 47, 48, 49, 112, 113, 4079, 4080, 4081,
					KPKEYS_SECRET_MAX };
	struct kpkeys_secret *secrets[ARRAY_SIZE(sizes)];
	u8 *data = kunit_kmalloc(test, KPKEYS_SECRET_MAX, GFP_KERNEL);
	u8 *copy = kunit_kmalloc(test, KPKEYS_SECRET_MAX, GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, data);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	skip_unless_secrets_are_protected(test);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(data, i + 1, sizes[i]);
		secrets[i] = secret_of(test, &me, data, sizes[i]);
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(data, i + 1, sizes[i]);
		memset(copy, 0, sizes[i]);
		KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secrets[i], &me, copy, sizes[i]), 0);
		KUNIT_EXPECT_EQ_MSG(test, memcmp(data, copy, sizes[i]), 0, "%zu bytes", sizes[i]);
		kpkeys_secret_free(secrets[i]);
	}
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc(data, KPKEYS_SECRET_MAX + 1)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc(data, SIZE_MAX)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc(data, SIZE_MAX - 15)), -EINVAL);
}

/* Blocks are added while there is memory; and what is free is used first. */
static unsigned int count_blocks(void)
{
	const void *block = NULL;
	unsigned int pages, nr = 0;

	while ((block = kpkeys_secrets_next(block, &pages)))
		nr++;
	return nr;
}

static struct page *no_pages(int nid, gfp_t gfp, unsigned int order)
{
	return NULL;
}

#define MANY	8

static void secrets_get_more_memory(struct kunit *test)
{
	static const u8 data[KPKEYS_SECRET_MAX];
	struct kpkeys_secret *secrets[MANY];
	unsigned int before, i;

	skip_unless_secrets_are_protected(test);

	for (i = 0; i < MANY; i++)
		secrets[i] = secret_of(test, &me, data, sizeof(data));
	before = count_blocks();
	KUNIT_EXPECT_GT(test, before, 1);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_pages);
	for (i = 0; i < MANY; i++) {
		kpkeys_secret_free(secrets[i]);
		secrets[i] = secret_of(test, &me, data, sizeof(data));
	}
	KUNIT_EXPECT_EQ(test, count_blocks(), before);

	for (i = 0; i < MANY; i++)
		kpkeys_secret_free(secrets[i]);
	EXPECT_LEVEL_DEFAULT(test);
}

static void without_memory_there_is_no_secret(struct kunit *test)
{
	static const u8 data[KPKEYS_SECRET_MAX];
	struct kpkeys_secret **secrets;
	unsigned int i, nr = 0, most;

	skip_unless_secrets_are_protected(test);

	/* At most four fit in a block of 64 KB, and more in larger pages. */
	most = count_blocks() * (PAGE_SIZE / SZ_1K) + 1;
	secrets = kunit_kcalloc(test, most, sizeof(*secrets), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, secrets);
	kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_pages);
	for (nr = 0; nr < most; nr++) {
		secrets[nr] = kpkeys_secret_alloc(data, sizeof(data));
		if (IS_ERR(secrets[nr]))
			break;
	}
	KUNIT_ASSERT_LT(test, nr, most);
	KUNIT_EXPECT_EQ(test, PTR_ERR(secrets[nr]), -ENOMEM);
	for (i = 0; i < nr; i++)
		kpkeys_secret_free(secrets[i]);
	EXPECT_LEVEL_DEFAULT(test);
}

/* Nothing of a secret is left when its memory is another's. */
static void memory_is_cleared(struct kunit *test)
{
	static const u8 zeroes[sizeof(text)];
	struct kpkeys_secret *secret, *next, *others[8];
	char copy[sizeof(text)];
	unsigned int nr;

	skip_unless_secrets_are_protected(test);

	/* A task that ends meanwhile frees secrets, too: theirs may come first. */
	for (nr = 0; ; nr++) {
		secret = secret_of(test, &me, text, sizeof(text));
		kpkeys_secret_free(secret);
		next = secret_of(test, &me, text, 0);
		if (next == secret || nr == ARRAY_SIZE(others))
			break;
		others[nr] = next;
	}
	KUNIT_EXPECT_PTR_EQ(test, next, secret);
	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_SECRET);
		memcpy(copy, (void *)next + 16, sizeof(copy));
		kpkeys_lower();
	}
	KUNIT_EXPECT_EQ(test, memcmp(copy, zeroes, sizeof(copy)), 0);
	kpkeys_secret_free(next);
	while (nr)
		kpkeys_secret_free(others[--nr]);
}

/* Code that tolerates faults gets an error, and is not reported. */
static void accessors_leave_secrets_alone(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct kpkeys_secret *secret;
	char copy[16] = "";

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	KUNIT_EXPECT_EQ(test, copy_from_kernel_nofault(copy, secret, 16), -ERANGE);
	KUNIT_EXPECT_EQ(test, copy_from_kernel_nofault(copy, (void *)secret - 8, 16), -ERANGE);
	KUNIT_EXPECT_EQ(test, strncpy_from_kernel_nofault(copy, (void *)secret, 16), -ERANGE);
	KUNIT_EXPECT_STREQ(test, copy, "");
	KUNIT_EXPECT_EQ(test, kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS), before);
	kpkeys_secret_free(secret);
}

/* A read of a string may go on into the next page, which is no secret. */
static void a_readable_page_is_before_secrets(struct kunit *test)
{
	const void *block = NULL;
	unsigned long value;
	unsigned int nr;

	skip_unless_secrets_are_protected(test);

	while ((block = kpkeys_secrets_next(block, &nr))) {
		KUNIT_EXPECT_FALSE(test, kpkeys_is_secret(block, PAGE_SIZE));
		KUNIT_EXPECT_TRUE(test, kpkeys_is_secret(block, PAGE_SIZE + 1));
		KUNIT_EXPECT_TRUE(test, kpkeys_is_secret(block + PAGE_SIZE * (nr + 1) - 1, 1));
		KUNIT_EXPECT_FALSE(test, kpkeys_is_secret(block + PAGE_SIZE * (nr + 1), 1));
		KUNIT_EXPECT_EQ(test, kpkeys_test_read(&value, block + PAGE_SIZE - 8), 0);
		KUNIT_EXPECT_EQ(test, probe_write((void *)block), -EFAULT);
	}
	EXPECT_LEVEL_DEFAULT(test);
}

static void the_checker_knows_secrets(struct kunit *test)
{
	struct kpkeys_check_result res;

	skip_unless_secrets_are_protected(test);

	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_EQ(test, res.untagged, 0);
	KUNIT_EXPECT_EQ(test, res.foreign, 0);
}

static void secrets_are_not_mapped_again(struct kunit *test)
{
	struct kpkeys_secret *secret;

	skip_unless_secrets_are_protected(test);

	secret = secret_of(test, &me, text, sizeof(text));
	KUNIT_EXPECT_TRUE(test, kpkeys_pool_protects(&kpkeys_pgtables_pool,
						     page_to_pfn(virt_to_page(secret)), 1));
	kpkeys_secret_free(secret);
}

static struct kunit_case secret_cases[] = {
	KUNIT_CASE(a_secret_is_neither_read_nor_written),
	KUNIT_CASE(only_its_level_reads),
	KUNIT_CASE(its_level_writes_nothing_of_others),
	KUNIT_CASE(the_owner_gets_it),
	KUNIT_CASE(nobody_else_gets_it),
	KUNIT_CASE(forged_pointers_are_refused),
	KUNIT_CASE(secrets_are_not_copied_to_each_other),
	KUNIT_CASE(secrets_of_all_sizes),
	KUNIT_CASE(secrets_get_more_memory),
	KUNIT_CASE(without_memory_there_is_no_secret),
	KUNIT_CASE(memory_is_cleared),
	KUNIT_CASE(accessors_leave_secrets_alone),
	KUNIT_CASE(a_readable_page_is_before_secrets),
	KUNIT_CASE(the_checker_knows_secrets),
	KUNIT_CASE(secrets_are_not_mapped_again),
	{}
};

static struct kunit_suite secret_suite = {
	.name = "kpkeys_secret",
	.test_cases = secret_cases,
};

kunit_test_suite(secret_suite);
