// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objects: an allocator for what tells who a task is.
 *
 * SLUB keeps its free lists in the objects, and where a page belongs in struct
 * page: an attacker chooses with them what the next object overlaps. Here each
 * page begins with a bitmap of its objects, and all of it has the key.
 *
 * Pages come in blocks from the pool of page tables, which keeps them out of
 * other mappings, and stay for good.
 */
#include <linux/align.h>
#include <linux/bitmap.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/kmemleak.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_cred.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "cred.h"
#include "kpkeys.h"
#include "objects.h"
#include "pool.h"

/* Sizes are multiples of this. */
#define KPKEYS_OBJECT_ALIGN	64
#define MOST_OBJECTS		(PAGE_SIZE / KPKEYS_OBJECT_ALIGN)

/**
 * struct kpkeys_object_page - the beginning of each page of objects. Protected.
 * @list: entry in the list of pages with free objects, or of empty pages.
 * @all: entry in the list of all pages of the type.
 * @type: type of the objects.
 * @nr_used: how many are in use.
 * @used: a bit for each; the first object would be this header.
 */
struct kpkeys_object_page {
	struct list_head list, all;
	unsigned short type, nr_used;
	DECLARE_BITMAP(used, MOST_OBJECTS);
};

/**
 * struct kpkeys_objects - the state of the allocator. Protected.
 * @partial: for each type, pages with free objects.
 * @all: for each type, all its pages.
 * @empty: pages of no type.
 * @next: start of memory that no page was taken of.
 * @end: its end.
 */
struct kpkeys_objects {
	struct list_head partial[KPKEYS_NR_OBJECT_TYPES];
	struct list_head all[KPKEYS_NR_OBJECT_TYPES];
	struct list_head empty;
	void *next, *end;
};

static struct kpkeys_objects *objects __ro_after_init;
unsigned long kpkeys_first_objects __ro_after_init;
EXPORT_SYMBOL(kpkeys_first_objects);

static DEFINE_RAW_SPINLOCK(objects_lock);
static DEFINE_MUTEX(grow_mutex);

static __always_inline unsigned int kpkeys_object_size(enum kpkeys_object_type type)
{
	return ALIGN(type == KPKEYS_OBJECT_CRED ? sizeof(struct kpkeys_cred) :
						  sizeof(struct kpkeys_task),
		     KPKEYS_OBJECT_ALIGN);
}

static_assert(sizeof(struct kpkeys_object_page) <=
	      ALIGN(sizeof(struct kpkeys_task), KPKEYS_OBJECT_ALIGN));
static_assert(sizeof(struct kpkeys_object_page) <=
	      ALIGN(sizeof(struct kpkeys_cred), KPKEYS_OBJECT_ALIGN));

/* === From a pointer to its object ======================================= */

/**
 * kpkeys_is_object_memory() - Does memory belong to objects?
 * @addr: any address.
 *
 * Context: any.
 * Return: true if it has their key, and nothing in it from before it had.
 */
bool kpkeys_is_object_memory(const void *addr)
{
	struct kpkeys_region *region;
	unsigned int i;

	if ((unsigned long)addr - kpkeys_first_objects < KPKEYS_FIRST_OBJECTS_SIZE)
		return true;
	if (!virt_addr_valid(addr))
		return false;
	region = kpkeys_region_find(&kpkeys_pgtables_pool, PHYS_PFN(__pa(addr)), &i);
	return region && test_bit(i, region->objects);
}

static __always_inline bool __kpkeys_object_is(enum kpkeys_object_type type,
					       const void *object)
{
	const struct kpkeys_object_page *page = PTR_ALIGN_DOWN(object, PAGE_SIZE);
	unsigned int size = kpkeys_object_size(type);
	unsigned int offset = offset_in_page(object);

	return kpkeys_is_object_memory(page) && READ_ONCE(page->type) == type &&
	       offset % size == 0 && test_bit(offset / size, page->used);
}

/**
 * kpkeys_object_is() - Is this an object in use?
 * @type: the type that it must have.
 * @object: any pointer, from ordinary memory.
 *
 * Context: any.
 * Return: false unless @object is the start of one.
 */
bool kpkeys_object_is(enum kpkeys_object_type type, const void *object)
{
	/* Divide by constants. */
	return type == KPKEYS_OBJECT_CRED ?
		__kpkeys_object_is(KPKEYS_OBJECT_CRED, object) :
		__kpkeys_object_is(KPKEYS_OBJECT_TASK, object);
}

/**
 * kpkeys_object_search() - Find an object by one of its words.
 * @type: its type.
 * @offset: offset of the word in bytes.
 * @value: the value of the word.
 *
 * Visits all objects: for when a pointer to it turned out to be forged.
 *
 * Context: any but NMIs.
 * Return: the object or NULL.
 */
void *kpkeys_object_search(enum kpkeys_object_type type, size_t offset,
			   unsigned long value)
{
	unsigned int i, size = kpkeys_object_size(type);
	const struct kpkeys_object_page *page;

	guard(raw_spinlock_irqsave)(&objects_lock);
	list_for_each_entry(page, &objects->all[type], all) {
		for_each_set_bit(i, page->used, PAGE_SIZE / size) {
			void *object = (void *)page + i * size;

			if (READ_ONCE(*(unsigned long *)(object + offset)) == value)
				return object;
		}
	}
	return NULL;
}

/* === Allocation: the lock is held, the level is raised ================== */

static struct kpkeys_object_page *kpkeys_objects_take_page(enum kpkeys_object_type type)
{
	struct kpkeys_object_page *page;

	page = list_first_entry_or_null(&objects->empty, typeof(*page), list);
	if (page) {
		list_del(&page->list);
	} else if (objects->next < objects->end) {
		page = objects->next;
		objects->next += PAGE_SIZE;
	} else {
		return NULL;
	}
	page->type = type;
	list_add(&page->list, &objects->partial[type]);
	list_add(&page->all, &objects->all[type]);
	return page;
}

static void *kpkeys_object_take(enum kpkeys_object_type type)
{
	unsigned int size = kpkeys_object_size(type);
	unsigned int i, nr = PAGE_SIZE / size;
	struct kpkeys_object_page *page;

	page = list_first_entry_or_null(&objects->partial[type], typeof(*page), list);
	if (!page)
		page = kpkeys_objects_take_page(type);
	if (!page)
		return NULL;

	i = find_next_zero_bit(page->used, nr, 1);
	/* The lock is in ordinary memory: somebody else may be here. */
	if (i >= nr || page->type != type || test_and_set_bit(i, page->used))
		return NULL;
	if (++page->nr_used == nr - 1)
		list_del_init(&page->list);
	return (void *)page + i * size;
}

static void kpkeys_object_put(enum kpkeys_object_type type, void *object)
{
	struct kpkeys_object_page *page = PTR_ALIGN_DOWN(object, PAGE_SIZE);
	unsigned int size = kpkeys_object_size(type);
	unsigned int nr = PAGE_SIZE / size;

	memset(object, 0, size);
	if (!test_and_clear_bit(offset_in_page(object) / size, page->used))
		return;
	if (page->nr_used-- == nr - 1)
		list_add(&page->list, &objects->partial[type]);
	if (!page->nr_used) {
		page->type = KPKEYS_OBJECT_NONE;
		list_del(&page->all);
		list_move(&page->list, &objects->empty);
	}
}

/* === Growing ============================================================ */

/* Objects of a block are used up before there is another. */
static bool kpkeys_objects_have_page(void)
{
	guard(raw_spinlock_irqsave)(&objects_lock);
	return !list_empty(&objects->empty) || objects->next < objects->end;
}

static void kpkeys_objects_set_memory(void *start, size_t size)
{
	guard(raw_spinlock_irqsave)(&objects_lock);
	kpkeys_raise(KPKEYS_LVL_CRED);
	objects->next = start;
	objects->end = start + size;
	kpkeys_lower();
}

/* Before it had the key, an attacker may have written to the memory. */
static void kpkeys_objects_clear(void *start, size_t size)
{
	void *addr;

	for (addr = start; addr < start + size; addr += PAGE_SIZE) {
		guard(irqsave)();
		kpkeys_raise(KPKEYS_LVL_CRED);
		clear_page(addr);
		kpkeys_lower();
	}
}

/* Give pages the key, clear them, and only then say that they have objects. */
static int kpkeys_objects_tag(struct page *page, unsigned int order)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	int err;

	guard(mutex)(&pool->sync->grow);
	err = kpkeys_block_add_other(pool, page, order, KPKEYS_PKEY_CRED, KPKEYS_PKEY_CRED);
	if (err)
		return err;
	kpkeys_objects_clear(page_address(page), PAGE_SIZE << order);
	kpkeys_block_set_objects(pool, page, order);
	/* Only objects point to what credentials consist of. */
	kmemleak_alloc(page_address(page), PAGE_SIZE << order, 0, GFP_KERNEL);
	return 0;
}

static int kpkeys_objects_grow(void)
{
	static const unsigned int orders[] = { KPKEYS_BLOCK_ORDER, KPKEYS_SMALL_ORDER, 0 };
	struct page *page;
	unsigned int i;
	int err;

	guard(mutex)(&grow_mutex);
	if (kpkeys_objects_have_page())
		return 0;
	for (i = 0, err = -ENOMEM; err && i < ARRAY_SIZE(orders); i++) {
		page = kpkeys_pool_get_pages(numa_mem_id(),
					     GFP_KERNEL | (orders[i] ? __GFP_NORETRY |
							   __GFP_NOWARN : 0),
					     orders[i]);
		if (page)
			err = kpkeys_objects_tag(page, orders[i]);
	}
	if (!err)
		kpkeys_objects_set_memory(page_address(page), PAGE_SIZE << orders[i - 1]);
	return err;
}

/* === Interface ========================================================== */

/**
 * kpkeys_object_alloc() - Allocate an object.
 * @type: its type.
 *
 * Context: may sleep.
 * Return: the object, all zeroes, or NULL.
 */
void *kpkeys_object_alloc(enum kpkeys_object_type type)
{
	void *object;

	do {
		scoped_guard(raw_spinlock_irqsave, &objects_lock) {
			kpkeys_raise(KPKEYS_LVL_CRED);
			object = kpkeys_object_take(type);
			kpkeys_lower();
		}
	} while (!object && !kpkeys_objects_grow());
	return object;
}

/**
 * kpkeys_object_free() - Free an object.
 * @type: its type.
 * @object: the object.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_object_free(enum kpkeys_object_type type, void *object)
{
	guard(raw_spinlock_irqsave)(&objects_lock);
	if (!kpkeys_object_is(type, object)) {
		kpkeys_violation_refused("object at 0x%lx freed, but not in use",
					 (unsigned long)object);
		return;
	}
	kpkeys_raise(KPKEYS_LVL_CRED);
	kpkeys_object_put(type, object);
	kpkeys_lower();
}

/**
 * kpkeys_objects_init() - Get the first block.
 *
 * Context: boot, one CPU. Page tables are protected.
 * Return: 0 or an error.
 */
int __init kpkeys_objects_init(void)
{
	struct page *page;
	int i, err;

	/* As on no machine so far. */
	if (KPKEYS_BLOCK_PAGES * PAGE_SIZE != KPKEYS_FIRST_OBJECTS_SIZE)
		return -EOPNOTSUPP;
	page = alloc_pages(GFP_KERNEL, KPKEYS_BLOCK_ORDER);
	if (!page)
		return -ENOMEM;
	err = kpkeys_objects_tag(page, KPKEYS_BLOCK_ORDER);
	if (err)
		return err;

	objects = page_address(page);
	kpkeys_first_objects = (unsigned long)objects;
	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_CRED);
		for (i = 0; i < KPKEYS_NR_OBJECT_TYPES; i++) {
			INIT_LIST_HEAD(&objects->partial[i]);
			INIT_LIST_HEAD(&objects->all[i]);
		}
		INIT_LIST_HEAD(&objects->empty);
		objects->next = (void *)objects + PAGE_SIZE;
		objects->end = (void *)objects + KPKEYS_FIRST_OBJECTS_SIZE;
		kpkeys_lower();
	}
	return 0;
}
