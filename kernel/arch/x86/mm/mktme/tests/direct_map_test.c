// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the direct maps of KeyIDs, on a machine that has KeyIDs. */
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/set_memory.h>

#include <kunit/test.h>

#include "../mktme.h"

static int needs_keyids(struct kunit *test)
{
	if (!mktme_nr_keyids())
		kunit_skip(test, "no KeyIDs");
	return 0;
}

/* Get the entry for an address, or an empty one, and its level. */
static pte_t entry_at(const void *addr, unsigned int *level)
{
	pte_t *pte = lookup_address((unsigned long)addr, level);

	return pte ? *pte : __pte(0);
}

/* The entry of a KeyID must match that of KeyID 0 except for the KeyID. */
static void expect_alias(struct kunit *test, phys_addr_t phys, unsigned int keyid)
{
	unsigned int level, alias_level;
	pte_t pte = entry_at(__va(phys), &level);
	pte_t alias = entry_at(mktme_va(phys, keyid), &alias_level);
	pteval_t ignored = mktme_keyid_mask | _PAGE_NX | _PAGE_ACCESSED |
			   _PAGE_DIRTY;

	KUNIT_EXPECT_EQ(test, level, alias_level);
	KUNIT_EXPECT_EQ(test, pte_val(pte) & ~ignored, pte_val(alias) & ~ignored);
	if (pte_none(pte))
		return;
	KUNIT_EXPECT_EQ(test, keyid, mktme_pgprot_keyid(pte_pgprot(alias)));
	KUNIT_EXPECT_EQ(test, 0, mktme_pgprot_keyid(pte_pgprot(pte)));
	KUNIT_EXPECT_TRUE(test, pte_val(alias) & _PAGE_NX);
}

static void all_memory_is_mapped_under_each(struct kunit *test)
{
	unsigned long pfn, nr = 0;
	unsigned int keyid;

	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		for (pfn = 0; pfn < max_pfn; pfn++) {
			if (!pfn_valid(pfn) || !page_is_ram(pfn))
				continue;
			expect_alias(test, PFN_PHYS(pfn), keyid);
			nr++;
		}
	}
	KUNIT_EXPECT_GE(test, nr, totalram_pages() * mktme_nr_keyids());
}

static void pa_takes_the_keyid_out(struct kunit *test)
{
	void *addr = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);
	unsigned int keyid;

	KUNIT_ASSERT_NOT_NULL(test, addr);
	for (keyid = 0; keyid <= mktme_nr_keyids(); keyid++) {
		void *alias = mktme_va(__pa(addr), keyid);

		KUNIT_EXPECT_EQ(test, __pa(addr), __pa(alias));
		KUNIT_EXPECT_PTR_EQ(test, virt_to_page(addr), virt_to_page(alias));
		KUNIT_EXPECT_TRUE(test, virt_addr_valid(alias));
	}
	KUNIT_EXPECT_FALSE(test, virt_addr_valid(mktme_va(__pa(addr), keyid)));
}

/* Each KeyID must have separate memory; otherwise the machine shows nothing. */
static void keyids_do_not_see_each_other(struct kunit *test)
{
	unsigned long *plain = (unsigned long *)get_zeroed_page(GFP_KERNEL);
	unsigned int keyid;

	KUNIT_ASSERT_NOT_NULL(test, plain);
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++)
		WRITE_ONCE(*(unsigned long *)mktme_va(__pa(plain), keyid), keyid);
	KUNIT_EXPECT_EQ(test, 0UL, READ_ONCE(*plain));
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		unsigned long *alias = mktme_va(__pa(plain), keyid);

		KUNIT_EXPECT_EQ(test, keyid, READ_ONCE(*alias));
		WRITE_ONCE(*alias, 0);
	}
	free_page((unsigned long)plain);
}

static void attributes_follow(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);
	unsigned long addr;
	unsigned int keyid;

	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = (unsigned long)page_address(page);
	KUNIT_EXPECT_EQ(test, 0, set_memory_ro(addr, 1));
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		unsigned int level;

		expect_alias(test, __pa(addr), keyid);
		KUNIT_EXPECT_FALSE(test,
				   pte_write(entry_at(mktme_va(__pa(addr), keyid),
						      &level)));
	}
	KUNIT_EXPECT_EQ(test, 0, set_memory_rw(addr, 1));
	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++)
		expect_alias(test, __pa(addr), keyid);
	__free_page(page);
}

static void entries_keep_their_keyid(struct kunit *test)
{
	unsigned int last = mktme_nr_keyids();
	pgprot_t prot = mktme_pgprot(PAGE_READONLY, last);
	pte_t pte = pfn_pte(1, prot);

	KUNIT_EXPECT_EQ(test, 1UL, pte_pfn(pte));
	KUNIT_EXPECT_EQ(test, last, mktme_pgprot_keyid(pte_pgprot(pte)));
	pte = pte_modify(pte, PAGE_NONE);
	KUNIT_EXPECT_EQ(test, 1UL, pte_pfn(pte));
	pte = pte_modify(pte, PAGE_READONLY);
	KUNIT_EXPECT_EQ(test, 1UL, pte_pfn(pte));
	KUNIT_EXPECT_EQ(test, last, mktme_pgprot_keyid(pte_pgprot(pte)));
	KUNIT_EXPECT_EQ(test, last,
			mktme_pgprot_keyid(pgprot_modify(prot, PAGE_NONE)));
	KUNIT_EXPECT_EQ(test, 0, mktme_pgprot_keyid(mktme_pgprot(prot, 0)));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(all_memory_is_mapped_under_each),
	KUNIT_CASE(pa_takes_the_keyid_out),
	KUNIT_CASE(keyids_do_not_see_each_other),
	KUNIT_CASE(attributes_follow),
	KUNIT_CASE(entries_keep_their_keyid),
	{}
};

static struct kunit_suite suite = {
	.name = "mktme_direct_map",
	.init = needs_keyids,
	.test_cases = cases,
};

kunit_test_suite(suite);
