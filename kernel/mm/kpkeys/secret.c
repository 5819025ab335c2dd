// SPDX-License-Identifier: GPL-2.0-only
/*
 * Secrets: an allocator of memory that no code reads but this.
 *
 * Each block begins with a page that everybody reads: it says which parts of
 * the others are in use. A read of a string may go beyond its end, and of its
 * page; so none that begins in ordinary memory gets as far as a secret.
 *
 * Blocks are tracked by the pool of page tables, which keeps them out of other
 * mappings, and stay for good.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_secret.h>
#include <linux/kpkeys_task.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/numa.h>
#include <linux/pfn.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "kpkeys.h"
#include "pool.h"
#include "secret.h"

/* Room for the longest secret and some others; small if memory is in pieces. */
#define MOST_PAGES		BIT(KPKEYS_SECRETS_ORDER)

/* Secrets are multiples of this. */
#define UNIT			64
#define MOST_UNITS		((MOST_PAGES - 1) * (PAGE_SIZE / UNIT))

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_secret_key);
EXPORT_SYMBOL(kpkeys_hardened_secret_key);

kpkeys_boot_switch(enable, "kpkeys_hardened_secret");

static_assert(sizeof(struct kpkeys_secret) + KPKEYS_SECRET_MAX <=
	      (MOST_PAGES - 1) * PAGE_SIZE);

/**
 * struct kpkeys_secrets - the first page of a block. Written at raised levels.
 * @next: the next block, or NULL.
 * @nr: how many units the block has.
 * @used: a bit for each unit that is in use.
 * @first: a bit for each unit in which a secret begins.
 */
struct kpkeys_secrets {
	struct kpkeys_secrets *next;
	unsigned long nr;
	DECLARE_BITMAP(used, MOST_UNITS);
	DECLARE_BITMAP(first, MOST_UNITS);
};

static_assert(sizeof(struct kpkeys_secrets) <= PAGE_SIZE);

static struct kpkeys_secrets *first_block __ro_after_init;

static DEFINE_RAW_SPINLOCK(secrets_lock);
static DEFINE_MUTEX(grow_mutex);

static __always_inline void *kpkeys_secrets_start(const struct kpkeys_secrets *block)
{
	return (void *)block + PAGE_SIZE;
}

static __always_inline unsigned int kpkeys_secret_units(size_t size)
{
	return DIV_ROUND_UP(sizeof(struct kpkeys_secret) + size, UNIT);
}

/* === From a pointer to its secret ======================================= */

static __always_inline bool kpkeys_secrets_overlap(const struct kpkeys_secrets *block,
						   const void *start, size_t size)
{
	const void *secrets = kpkeys_secrets_start(block);

	return start < secrets + block->nr * UNIT &&
	       (start >= secrets || size > secrets - start);
}

/**
 * __kpkeys_is_secret() - As kpkeys_is_secret(), with secrets protected.
 * @start: its start.
 * @size: its size in bytes.
 *
 * Context: any, secrets are protected.
 * Return: true if a read of it would be refused.
 */
bool __kpkeys_is_secret(const void *start, size_t size)
{
	const struct kpkeys_secrets *block;

	for (block = first_block; block; block = READ_ONCE(block->next))
		if (kpkeys_secrets_overlap(block, start, size))
			return true;
	return kpkeys_has_secret_pages(start, size);
}
EXPORT_SYMBOL_GPL(__kpkeys_is_secret);

/* The block of a secret, and where it begins there, or NULL. */
static struct kpkeys_secrets *kpkeys_secret_find(const struct kpkeys_secret *secret,
						 unsigned int *unit)
{
	struct kpkeys_secrets *block;
	unsigned long offset;

	for (block = first_block; block; block = READ_ONCE(block->next)) {
		offset = (const void *)secret - kpkeys_secrets_start(block);
		if (offset >= block->nr * UNIT)
			continue;
		*unit = offset / UNIT;
		return offset % UNIT == 0 && test_bit(*unit, block->first) ? block : NULL;
	}
	return NULL;
}

/* === Growing ============================================================ */

/**
 * kpkeys_secrets_clear() - Clear pages with the key.
 * @start: the first page.
 * @nr: number of pages.
 *
 * Context: may sleep.
 */
void kpkeys_secrets_clear(void *start, unsigned int nr)
{
	void *page;

	for (page = start; page < start + nr * PAGE_SIZE; page += PAGE_SIZE) {
		guard(irqsave)();
		kpkeys_raise(KPKEYS_LVL_SECRET);
		clear_page(page);
		kpkeys_lower();
	}
}

static struct kpkeys_secrets *kpkeys_secrets_tag(struct page *page, unsigned int order)
{
	struct kpkeys_secrets *block = page_address(page);
	unsigned int nr = 1 << order;
	int err;

	scoped_guard(mutex, &kpkeys_pgtables_pool.sync->grow)
		err = kpkeys_block_add_other(&kpkeys_pgtables_pool, page, order,
					     KPKEYS_PKEY_LEDGER, KPKEYS_PKEY_SECRET);
	if (err)
		return ERR_PTR(err);
	/* Before it had the key, an attacker may have written to the memory. */
	kpkeys_secrets_clear(block, nr);

	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_SECRET);
	block->nr = (nr - 1) * (PAGE_SIZE / UNIT);
	kpkeys_lower();
	return block;
}

/* Behind the first block, as nobody looks for the end. */
static void kpkeys_secrets_add(struct kpkeys_secrets *block)
{
	guard(raw_spinlock_irqsave)(&secrets_lock);
	kpkeys_raise(KPKEYS_LVL_SECRET);
	block->next = first_block->next;
	/* Publish the initialised block to lockless readers. */
	smp_store_release(&first_block->next, block);
	kpkeys_lower();
}

static int kpkeys_secrets_grow(size_t size)
{
	unsigned int least = get_order(PAGE_SIZE + kpkeys_secret_units(size) * UNIT);
	int order, err = -ENOMEM;

	guard(mutex)(&grow_mutex);
	for (order = KPKEYS_SECRETS_ORDER; err && order >= (int)least; order--) {
		gfp_t more = order > (int)least ? __GFP_NORETRY | __GFP_NOWARN : 0;
		struct page *page = kpkeys_pool_get_pages(numa_mem_id(),
							  GFP_KERNEL | more, order);
		struct kpkeys_secrets *block;

		if (!page)
			continue;
		block = kpkeys_secrets_tag(page, order);
		err = PTR_ERR_OR_ZERO(block);
		if (!err)
			kpkeys_secrets_add(block);
	}
	return err;
}

/* === Interface ========================================================== */

static bool kpkeys_is_pool_memory(const void *start, size_t size)
{
	/* Most is in the linear map, which takes less to find out. */
	return size && ((start >= (void *)PAGE_OFFSET && start < high_memory) ||
			virt_addr_valid(start)) &&
	       kpkeys_pool_protects(&kpkeys_pgtables_pool, PHYS_PFN(__pa(start)),
				    PFN_UP(offset_in_page(start) + size));
}

/**
 * kpkeys_secret_may_copy() - Is what a secret is copied from, or to, ordinary?
 * @other: its start.
 * @size: its size in bytes.
 *
 * Copies at the level must not be from one secret to another. What says that pages
 * are secret is ordinary memory, but the pool knows all that has a key.
 *
 * Context: any.
 * Return: false if not, which is a violation.
 */
bool kpkeys_secret_may_copy(const void *other, size_t size)
{
	if (!kpkeys_has_secret_pages(other, size) && !kpkeys_is_pool_memory(other, size))
		return true;
	kpkeys_violation_refused("copy between a secret and another at 0x%lx",
				 (unsigned long)other);
	kpkeys_violation_kill();
	return false;
}

static struct kpkeys_secrets *kpkeys_secrets_with_room(unsigned int nr, unsigned long *unit)
{
	struct kpkeys_secrets *block;

	for (block = first_block; block; block = READ_ONCE(block->next)) {
		*unit = bitmap_find_next_zero_area(block->used, block->nr, 0, nr, 0);
		if (*unit < block->nr)
			break;
	}
	return block;
}

static struct kpkeys_secret *kpkeys_secret_try_alloc(const void *data, size_t size)
{
	unsigned int nr = kpkeys_secret_units(size);
	struct kpkeys_secret *secret;
	struct kpkeys_secrets *block;
	unsigned long unit;

	guard(raw_spinlock_irqsave)(&secrets_lock);
	block = kpkeys_secrets_with_room(nr, &unit);
	if (!block)
		return NULL;
	secret = kpkeys_secrets_start(block) + unit * UNIT;

	kpkeys_raise(KPKEYS_LVL_SECRET);
	/*
	 * The lock is in ordinary memory: somebody else may be here, and have
	 * found the same room, which then is at the same place.
	 */
	if (test_and_set_bit(unit, block->first)) {
		secret = ERR_PTR(-EBUSY);
	} else {
		bitmap_set(block->used, unit, nr);
		secret->owner = NULL;
		secret->size = size;
		memcpy(secret->data, data, size);
	}
	kpkeys_lower();
	return secret;
}

/**
 * kpkeys_secret_alloc() - Make a secret of ordinary data.
 * @data: the data, of which the caller should keep no copy.
 * @size: its size in bytes, at most KPKEYS_SECRET_MAX.
 *
 * Context: may sleep; secrets are protected.
 * Return: the secret, which is nobody's yet, or an ERR_PTR(): -EINVAL, -ENOMEM,
 * -EACCES if @data is another secret, or -EBUSY if the lock was forged.
 */
struct kpkeys_secret *kpkeys_secret_alloc(const void *data, size_t size)
{
	struct kpkeys_secret *secret;

	if (size > KPKEYS_SECRET_MAX)
		return ERR_PTR(-EINVAL);
	if (!kpkeys_secret_may_copy(data, size))
		return ERR_PTR(-EACCES);
	while (!(secret = kpkeys_secret_try_alloc(data, size))) {
		int err = kpkeys_secrets_grow(size);

		if (err)
			return ERR_PTR(err);
	}
	return secret;
}
EXPORT_SYMBOL_GPL(kpkeys_secret_alloc);

/* The level is raised. */
static __always_inline bool kpkeys_secret_is_of(const struct kpkeys_secret *secret,
						const void *owner, size_t size)
{
	return secret->owner == owner && size <= secret->size;
}

/*
 * Raise the level if this is a secret of the owner, which the pointer alone does
 * not prove. The lock is held, lest the secret be freed and be another's.
 */
static __always_inline bool kpkeys_secret_raise(const struct kpkeys_secret *secret,
						const void *owner, size_t size)
{
	unsigned int unit;

	if (!kpkeys_secret_find(secret, &unit))
		return false;
	kpkeys_raise(KPKEYS_LVL_SECRET);
	if (kpkeys_secret_is_of(secret, owner, size))
		return true;
	kpkeys_lower();
	return false;
}

static int kpkeys_secret_refuse(const char *what, const struct kpkeys_secret *secret)
{
	kpkeys_violation_refused("secret at 0x%lx %s", (unsigned long)secret, what);
	kpkeys_violation_kill();
	return -EACCES;
}

/**
 * kpkeys_secret_give() - Say whose a secret is, for good.
 * @secret: a secret that is nobody's yet.
 * @owner: an address that tells its owner from all others.
 *
 * Context: any but NMIs.
 * Return: 0, or -EACCES: a violation, as somebody has it already.
 */
int kpkeys_secret_give(struct kpkeys_secret *secret, const void *owner)
{
	scoped_guard(raw_spinlock_irqsave, &secrets_lock) {
		if (kpkeys_secret_raise(secret, NULL, 0)) {
			secret->owner = owner;
			kpkeys_lower();
			return 0;
		}
	}
	return kpkeys_secret_refuse("given away, but is another's", secret);
}
EXPORT_SYMBOL_GPL(kpkeys_secret_give);

/**
 * kpkeys_secret_read() - Copy a secret, or its beginning, to ordinary memory.
 * @secret: the secret.
 * @owner: whose it must be.
 * @dst: where to, of which the caller clears what it no longer needs.
 * @size: number of bytes.
 *
 * Context: any but NMIs.
 * Return: 0, or -EACCES: a violation, as the pointer must have been forged.
 */
int kpkeys_secret_read(const struct kpkeys_secret *secret, const void *owner,
		       void *dst, size_t size)
{
	if (!kpkeys_secret_may_copy(dst, size))
		return -EACCES;
	scoped_guard(raw_spinlock_irqsave, &secrets_lock) {
		if (kpkeys_secret_raise(secret, owner, size)) {
			memcpy(dst, secret->data, size);
			kpkeys_lower();
			return 0;
		}
	}
	return kpkeys_secret_refuse("read, but is another's, or shorter", secret);
}
EXPORT_SYMBOL_GPL(kpkeys_secret_read);

/**
 * kpkeys_secret_clear() - Overwrite a secret with zeroes, and keep it.
 * @secret: the secret.
 * @owner: whose it must be.
 *
 * Context: any but NMIs.
 * Return: 0, or -EACCES: a violation, as the pointer must have been forged.
 */
int kpkeys_secret_clear(struct kpkeys_secret *secret, const void *owner)
{
	scoped_guard(raw_spinlock_irqsave, &secrets_lock) {
		if (kpkeys_secret_raise(secret, owner, 0)) {
			memset(secret->data, 0, secret->size);
			kpkeys_lower();
			return 0;
		}
	}
	return kpkeys_secret_refuse("cleared, but is another's", secret);
}
EXPORT_SYMBOL_GPL(kpkeys_secret_clear);

/* The level is raised. Only the task frees what its identity points to. */
static bool kpkeys_secret_may_free(const struct kpkeys_secret *secret, const void *owner)
{
	return owner ? secret->owner == owner :
		       !secret->owner || !kpkeys_is_object_memory(secret->owner);
}

/**
 * kpkeys_secret_free_of() - Clear and free a secret of somebody.
 * @secret: the secret.
 * @owner: whose it must be; NULL: anybody's but a task's.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_secret_free_of(struct kpkeys_secret *secret, const void *owner)
{
	struct kpkeys_secrets *block;
	bool may_free = false;
	unsigned int unit, nr;

	scoped_guard(raw_spinlock_irqsave, &secrets_lock) {
		block = kpkeys_secret_find(secret, &unit);
		if (!block)
			break;
		kpkeys_raise(KPKEYS_LVL_SECRET);
		may_free = kpkeys_secret_may_free(secret, owner);
		if (may_free) {
			nr = kpkeys_secret_units(secret->size);
			memset(secret, 0, nr * UNIT);
			bitmap_clear(block->used, unit, nr);
			clear_bit(unit, block->first);
		}
		kpkeys_lower();
	}
	if (!may_free)
		kpkeys_secret_refuse("freed, but is none, or another's", secret);
}

/**
 * kpkeys_secret_free() - Clear and free a secret of anybody but a task.
 * @secret: the secret.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_secret_free(struct kpkeys_secret *secret)
{
	kpkeys_secret_free_of(secret, NULL);
}
EXPORT_SYMBOL_GPL(kpkeys_secret_free);

#ifdef CONFIG_HIBERNATION
/**
 * kpkeys_secret_copy_page() - Copy a page of secrets for the image on the disk.
 * @dst: a page of the image.
 * @src: the page of secrets.
 *
 * Context: hibernation, interrupts off.
 */
void kpkeys_secret_copy_page(void *dst, const void *src)
{
	if (!kpkeys_secret_may_copy(dst, PAGE_SIZE))
		return;
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_SECRET);
	copy_page(dst, (void *)src);
	kpkeys_lower();
}
#endif

/**
 * kpkeys_secrets_next() - Visit all blocks of secrets.
 * @last: what the last call returned, or NULL.
 * @nr: receives the number of pages that follow the first, which are secret.
 *
 * Context: any.
 * Return: the first page of the next block, or NULL.
 */
const void *kpkeys_secrets_next(const void *last, unsigned int *nr)
{
	const struct kpkeys_secrets *block = last ? READ_ONCE(((typeof(block))last)->next) :
						    first_block;

	if (block)
		*nr = block->nr / (PAGE_SIZE / UNIT);
	return block;
}

/**
 * kpkeys_hardened_secret_init() - Get the first block.
 *
 * Context: boot, one CPU. Page tables are protected.
 */
void __init kpkeys_hardened_secret_init(void)
{
	struct kpkeys_secrets *block = ERR_PTR(-ENOMEM);
	struct page *page;

	if (!enable) {
		pr_info("secrets not hardened: disabled by kpkeys_hardened_secret=off\n");
		return;
	}
	page = alloc_pages(GFP_KERNEL, KPKEYS_SECRETS_ORDER);
	if (page)
		block = kpkeys_secrets_tag(page, KPKEYS_SECRETS_ORDER);
	if (IS_ERR(block)) {
		pr_err("secrets not hardened: no memory with their key: %pe\n", block);
		return;
	}
	first_block = block;
	static_branch_enable(&kpkeys_hardened_secret_key);
	pr_info("secrets hardened (pkey %d)\n", KPKEYS_PKEY_SECRET);
}
