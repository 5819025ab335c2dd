// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables of guests are pages of the pool, of a kind of their own.
 *
 * KVM finds a table and its entries through ordinary memory. A forged pointer
 * must not make it write to another table: an entry of a guest in the table of a
 * process stays there when the memory is the guest's no more.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/atomic.h>
#include <linux/kpkeys_guests.h>
#include <linux/kvm_types.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "kpkeys.h"
#include "pool.h"

/* Where the pool describes the page of an entry. */
struct guest_entry {
	const struct kpkeys_region *region;
	unsigned int i;
};

static struct guest_entry kpkeys_find_entry(const void *entry)
{
	struct guest_entry found = { };

	/* Not through another mapping, whose page is none of the pool. */
	if (virt_addr_valid(entry))
		found.region = kpkeys_region_find(&kpkeys_pgtables_pool,
						  page_to_pfn(virt_to_page(entry)),
						  &found.i);
	return found;
}

/*
 * The level is raised. Inlined, as an interrupted caller would find a return
 * address, and what tells whether to lower, on its stack.
 */
static __always_inline bool kpkeys_is_guest_entry(const struct guest_entry *found)
{
	return found->region && test_bit(found->i, found->region->owned) &&
	       (test_bit(found->i, found->region->in_use) ||
		test_bit(found->i, found->region->inner)) &&
	       test_bit(found->i, found->region->kinds[KPKEYS_KIND_GUEST]);
}

static void kpkeys_refuse_entry(const void *entry)
{
	kpkeys_violation_refused("entry at 0x%lx as one of a guest",
				 (unsigned long)entry);
	if (in_task() && current->mm && !kpkeys_violation_is_expected())
		force_fatal_sig(SIGKILL);
}

/* Do something to an entry at the raised level, or refuse that. */
#define KPKEYS_GUEST_ENTRY(_entry, _todo) do {				\
	const void *_at = (_entry);					\
	const struct guest_entry _found = kpkeys_find_entry(_at);	\
	bool _good;							\
									\
	scoped_guard(kpkeys_hardened_pgtables) {			\
		_good = kpkeys_is_guest_entry(&_found);			\
		if (_good)						\
			_todo;						\
	}								\
	if (unlikely(!_good))						\
		kpkeys_refuse_entry(_at);				\
} while (0)

/* See <linux/kpkeys_guests.h>, which is inlined into KVM, for all of these. */

void *__kpkeys_guest_table_alloc(gfp_t gfp, unsigned int order)
{
	struct page *page = kpkeys_pgtable_alloc(gfp, order, KPKEYS_GUEST_TABLE);

	return page ? page_address(page) : NULL;
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_table_alloc);

void __kpkeys_guest_table_free(void *table)
{
	if (table)
		kpkeys_pgtable_free(virt_to_page(table));
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_table_free);

void __kpkeys_guest_table_fill(u64 *table, u64 value)
{
	unsigned int i;

	/* No function is called with the level raised. */
	KPKEYS_GUEST_ENTRY(table, ({
		for (i = 0; i < PAGE_SIZE / sizeof(u64); i++)
			WRITE_ONCE(table[i], value);
	}));
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_table_fill);

void __kpkeys_guest_write(u64 *entry, u64 value)
{
	KPKEYS_GUEST_ENTRY(entry, WRITE_ONCE(*entry, value));
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_write);

void __kpkeys_guest_write_release(u64 *entry, u64 value)
{
	/* After what the table that it points to has. */
	KPKEYS_GUEST_ENTRY(entry, smp_store_release(entry, value));
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_write_release);

u64 __kpkeys_guest_xchg(u64 *entry, u64 value)
{
	u64 old = 0;

	KPKEYS_GUEST_ENTRY(entry, old = xchg(entry, value));
	return old;
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_xchg);

u64 __kpkeys_guest_clear_bits(u64 *entry, u64 bits)
{
	u64 old = 0;

	KPKEYS_GUEST_ENTRY(entry,
			   old = atomic64_fetch_and(~bits, (atomic64_t *)entry));
	return old;
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_clear_bits);

bool __kpkeys_guest_try_cmpxchg(u64 *entry, u64 *old, u64 value)
{
	u64 was = *old;
	bool done = false;

	/* The caller's memory is written at the default level. */
	KPKEYS_GUEST_ENTRY(entry, done = try_cmpxchg64(entry, &was, value));
	*old = was;
	return done;
}
EXPORT_SYMBOL_FOR_KVM(__kpkeys_guest_try_cmpxchg);
