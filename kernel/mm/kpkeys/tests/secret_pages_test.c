// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of secret pages of user space, as the kernel sees them. */
#include <asm/word-at-a-time.h>
#include <kunit/static_stub.h>
#include <linux/err.h>
#include <linux/kpkeys_secret.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "test.h"
#include "../secret.h"

static void free_pages_of_test(void *data)
{
	kpkeys_secret_pages_free(data);
}

/* A file without pages, which ends with the test. */
static struct kpkeys_secret_pages *new_file(struct kunit *test)
{
	struct kpkeys_secret_pages *file;

	if (!kpkeys_hardened_secret_enabled())
		kunit_skip(test, "secrets are not hardened in this boot");
	file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, file);
	kpkeys_secret_pages_init(file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_pages_of_test, file), 0);
	return file;
}

/* The file has a page more; to be put. */
static struct folio *new_folio(struct kunit *test, struct kpkeys_secret_pages *file)
{
	struct folio *folio = kpkeys_secret_folio_alloc(file, GFP_USER, 1024);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, folio);
	return folio;
}

static bool is_readable(const void *addr)
{
	unsigned long value;

	return !kpkeys_test_read(&value, addr);
}

static void the_kernel_does_not_read_them(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folio = new_folio(test, file);
	void *addr = folio_address(folio);
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);

	KUNIT_EXPECT_FALSE(test, is_readable(addr));
	KUNIT_EXPECT_FALSE(test, is_readable(addr + PAGE_SIZE - sizeof(long)));
	KUNIT_EXPECT_EQ(test, kpkeys_test_write(addr, &before, sizeof(before)), -EFAULT);
	was_refused(test, before, 3);
	folio_put(folio);
}

/* Nothing of a file is left when its memory is another's. */
static void they_end_as_ordinary_memory(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folios[5];
	int i;

	for (i = 0; i < ARRAY_SIZE(folios); i++) {
		folios[i] = new_folio(test, file);
		guard(irqsave)();
		kpkeys_raise(KPKEYS_LVL_SECRET);
		memset(folio_address(folios[i]), 0x5a, PAGE_SIZE);
		kpkeys_lower();
	}
	kunit_release_action(test, free_pages_of_test, file);
	for (i = 0; i < ARRAY_SIZE(folios); i++) {
		KUNIT_EXPECT_TRUE(test, is_readable(folio_address(folios[i])));
		EXPECT_WRITABLE(test, folio_address(folios[i]));
		KUNIT_EXPECT_NULL(test, memchr_inv(folio_address(folios[i]), 0, PAGE_SIZE));
		KUNIT_EXPECT_EQ(test, folio_ref_count(folios[i]), 1);
		folio_put(folios[i]);
	}
	EXPECT_LEVEL_DEFAULT(test);
}

/* The file wants as many as it can have, and does without large runs if need be. */
static void use_all(struct kunit *test, struct kpkeys_secret_pages *file, unsigned int most)
{
	unsigned int i;

	for (i = 1; i <= most; i++) {
		struct folio *folio = kpkeys_secret_folio_alloc(file, GFP_USER, most);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, folio);
		/* An eighth more than it uses, or one. */
		KUNIT_EXPECT_LE(test, file->nr, i + i / 8);
		folio_put(folio);
	}
	KUNIT_EXPECT_EQ(test, file->nr, most);
}

static unsigned int longest_run(const struct kpkeys_secret_pages *file)
{
	const struct kpkeys_secret_run *run;
	unsigned int order = 0;

	list_for_each_entry(run, &file->runs, list)
		order = max(order, run->order);
	return order;
}

static void a_large_file_has_long_runs(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);

	use_all(test, file, 40);
	KUNIT_EXPECT_GT(test, longest_run(file), 0);
	KUNIT_EXPECT_LE(test, longest_run(file), 2);

	/* More than was announced, as when the file has been extended since. */
	folio_put(kpkeys_secret_folio_alloc(file, GFP_USER, 9));
	KUNIT_EXPECT_EQ(test, file->nr, 41);
}

static void a_page_that_was_not_used_comes_again(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folio = new_folio(test, file);

	kpkeys_secret_folio_undo(file, folio);
	KUNIT_EXPECT_PTR_EQ(test, new_folio(test, file), folio);
	KUNIT_EXPECT_EQ(test, file->nr, 1);
	folio_put(folio);
}

/* === Failures =========================================================== */

static int no_secrets(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT ? 0 : -ENOMEM;
}

static int no_splits(unsigned long addr, int numpages, int pkey)
{
	return numpages > 1 ? -ENOMEM : arch_set_memory_pkey(addr, numpages, pkey);
}

static int no_changes(unsigned long addr, int numpages, int pkey)
{
	return -ENOMEM;
}

static void without_the_key_there_is_no_page(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);

	kunit_activate_static_stub(test, set_memory_pkey, no_secrets);
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_folio_alloc(file, GFP_USER, 1)), -ENOMEM);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_EQ(test, file->nr, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->runs));
	folio_put(new_folio(test, file));
}

/* Pages that may have the key stay with the file, which does without them. */
static void single_pages_do_if_runs_cannot_be_had(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);

	kunit_activate_static_stub(test, set_memory_pkey, no_splits);
	use_all(test, file, 20);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_EQ(test, longest_run(file), 1);
}

static void what_keeps_the_key_is_freed_later(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folio = new_folio(test, file);

	kunit_activate_static_stub(test, set_memory_pkey, no_changes);
	kpkeys_secret_pages_free(file);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	KUNIT_EXPECT_FALSE(test, is_readable(folio_address(folio)));
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 2);

	/* The end of a file without pages does it. */
	kpkeys_secret_pages_init(file);
	kpkeys_secret_pages_free(file);
	KUNIT_EXPECT_TRUE(test, is_readable(folio_address(folio)));
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 1);
	folio_put(folio);
}

/* === Accesses by mistake ================================================ */

static void accessors_leave_them_alone(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folio = new_folio(test, file);
	char copy[16] = "";

	KUNIT_EXPECT_EQ(test, copy_from_kernel_nofault(copy, folio_address(folio), 16), -ERANGE);
	KUNIT_EXPECT_STREQ(test, copy, "");
	was_refused(test, before, 0);
	folio_put(folio);
}

#if defined(CONFIG_DCACHE_WORD_ACCESS) && !defined(CONFIG_UML)
/* The second of two pages that lie together. */
static int second_is_secret(unsigned long addr, int numpages, int pkey)
{
	return arch_set_memory_pkey(addr + (numpages - 1) * PAGE_SIZE, 1, pkey);
}

/* Strings are read by the word, beyond their end. */
static void a_string_may_end_in_front_of_one(struct kunit *test)
{
	unsigned long before = kpkeys_stat_read(KPKEYS_STAT_VIOLATIONS);
	struct kpkeys_secret_pages *file = new_file(test);
	const struct kpkeys_secret_run *run;
	u8 *end = NULL;

	kunit_activate_static_stub(test, set_memory_pkey, second_is_secret);
	use_all(test, file, 24);
	kunit_deactivate_static_stub(test, set_memory_pkey);
	list_for_each_entry(run, &file->runs, list)
		if (run->order)
			end = page_address(run->page + 1);
	if (!end)
		kunit_skip(test, "memory is in pieces");

	memset(end - 3, 0x5a, 3);
	/* Little-endian. */
	KUNIT_EXPECT_EQ(test, load_unaligned_zeropad(end - 3), 0x5a5a5a);
	was_refused(test, before, 0);
}
#endif

/* === Forgery ============================================================ */

/* Ordinary memory notes where the pages of a file are. */
static void forged_runs_are_refused(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct kpkeys_secret *secret;
	struct kpkeys_secret_run *run;
	unsigned long before;
	struct page *page;
	char copy[6] = "";

	folio_put(new_folio(test, file));
	secret = kpkeys_secret_alloc("secret", sizeof(copy));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, secret);
	KUNIT_EXPECT_EQ(test, kpkeys_secret_give(secret, file), 0);
	run = list_first_entry(&file->runs, struct kpkeys_secret_run, list);
	page = run->page;
	run->page = virt_to_page(secret);

	before = expect_refusal();
	kpkeys_secret_pages_free(file);
	was_refused(test, before, 1);
	KUNIT_EXPECT_FALSE(test, is_readable(secret));
	KUNIT_EXPECT_EQ(test, kpkeys_secret_read(secret, file, copy, sizeof(copy)), 0);
	KUNIT_EXPECT_MEMEQ(test, copy, "secret", sizeof(copy));

	kpkeys_secret_free(secret);

	/* The page of the file has the key still. */
	kpkeys_secret_pages_init(file);
	run = kzalloc_obj(*run);
	KUNIT_ASSERT_NOT_NULL(test, run);
	run->page = page;
	list_add(&run->list, &file->runs);
}

static void they_are_not_copied_to_secrets(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct folio *folio = new_folio(test, file);
	void *addr = folio_address(folio);
	unsigned long before;

	before = expect_refusal();
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc(addr + 8, 8)), -EACCES);
	KUNIT_EXPECT_EQ(test, PTR_ERR(kpkeys_secret_alloc(addr - 8, 16)), -EACCES);
	was_refused(test, before, 2);
	folio_put(folio);
}

static void the_checker_knows_them(struct kunit *test)
{
	struct kpkeys_secret_pages *file = new_file(test);
	struct kpkeys_check_result res;

	folio_put(new_folio(test, file));
	KUNIT_ASSERT_EQ(test, kpkeys_check(&res, NULL), 0);
	KUNIT_EXPECT_EQ(test, res.foreign, 0);
}

static struct kunit_case secret_pages_cases[] = {
	KUNIT_CASE(the_kernel_does_not_read_them),
	KUNIT_CASE(they_end_as_ordinary_memory),
	KUNIT_CASE(a_large_file_has_long_runs),
	KUNIT_CASE(a_page_that_was_not_used_comes_again),
	KUNIT_CASE(without_the_key_there_is_no_page),
	KUNIT_CASE(single_pages_do_if_runs_cannot_be_had),
	KUNIT_CASE(what_keeps_the_key_is_freed_later),
	KUNIT_CASE(accessors_leave_them_alone),
#if defined(CONFIG_DCACHE_WORD_ACCESS) && !defined(CONFIG_UML)
	KUNIT_CASE(a_string_may_end_in_front_of_one),
#endif
	KUNIT_CASE(forged_runs_are_refused),
	KUNIT_CASE(they_are_not_copied_to_secrets),
	KUNIT_CASE(the_checker_knows_them),
	{}
};

static struct kunit_suite secret_pages_suite = {
	.name = "kpkeys_secret_pages",
	.test_cases = secret_pages_cases,
};

kunit_test_suite(secret_pages_suite);
