// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: clear sensitive memory after it was freed.
 *
 * A process that cleared what it frees would leave the restricted address
 * space. Each CPU queues it instead. A worker clears it soon, and only then
 * gives it to the page allocator: no free memory holds data of others.
 *
 * Queued memory is not free, so there may only be little of it. Tasks that wait
 * for memory clear what is queued themselves.
 */
#include <linux/asi.h>
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/llist.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/swap.h>
#include <linux/workqueue.h>

#include "../page_alloc.h"
#include "asi.h"

/* How long memory may be queued, at least: each run of the worker is an exit. */
#define DELAY_MS	100

/* Most that may be queued: this part of all memory, and so many bytes. */
#define PART		32
#define MOST		SZ_64M

struct asi_dirty {
	struct llist_head pages;
	atomic_long_t nr;
	/* Held until all that was taken is free, for those who wait for it. */
	struct mutex lock;
	struct delayed_work work;
};

static DEFINE_PER_CPU(struct asi_dirty, asi_dirty);

/* Pages for each CPU; 0 until the queues exist. */
static unsigned long asi_dirty_max __ro_after_init;

/**
 * __asi_may_defer() - Is there room for more memory that is cleared later?
 * @order: the order of the pages.
 *
 * Context: any.
 * Return: true if so.
 */
bool __asi_may_defer(unsigned int order)
{
	/* Migration changes nothing but which queue becomes a little too long. */
	struct asi_dirty *dirty = raw_cpu_ptr(&asi_dirty);

	return atomic_long_read(&dirty->nr) + (1L << order) <= asi_dirty_max;
}

/**
 * asi_defer() - Have pages cleared and given to the page allocator.
 * @page: the first one, which nobody uses any more.
 * @order: their order.
 *
 * Context: any but NMI.
 */
void asi_defer(struct page *page, unsigned int order)
{
	struct asi_dirty *dirty = raw_cpu_ptr(&asi_dirty);

	set_page_private(page, order);
	atomic_long_add(1L << order, &dirty->nr);
	llist_add(&page->pcp_llist, &dirty->pages);
	/* Not at once: the caller may hold any lock. */
	if (!delayed_work_pending(&dirty->work))
		queue_delayed_work(system_dfl_wq, &dirty->work,
				   msecs_to_jiffies(DELAY_MS));
}

static long asi_clean(struct asi_dirty *dirty)
{
	struct llist_node *queued;
	struct page *page, *next;
	long cleaned = 0;

	guard(mutex)(&dirty->lock);
	queued = llist_del_all(&dirty->pages);
	llist_for_each_entry_safe(page, next, queued, pcp_llist) {
		unsigned int order = page_private(page);

		set_page_private(page, 0);
		asi_clear_pages(page, 1 << order);
		asi_free_clean(page, order);
		cleaned += 1L << order;
		cond_resched();
	}
	atomic_long_sub(cleaned, &dirty->nr);
	return cleaned;
}

/**
 * __asi_clean_all() - Clear all that is queued, and give it to the page
 * allocator.
 *
 * Context: may sleep.
 * Return: number of pages.
 */
long __asi_clean_all(void)
{
	long cleaned = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct asi_dirty *dirty = per_cpu_ptr(&asi_dirty, cpu);

		/* Also counted is what somebody is clearing: wait for that. */
		if (atomic_long_read(&dirty->nr))
			cleaned += asi_clean(dirty);
	}
	return cleaned;
}

static void asi_dirty_work(struct work_struct *work)
{
	asi_clean(container_of(to_delayed_work(work), struct asi_dirty, work));
}

/**
 * asi_dirty_init() - Start to clear memory later.
 *
 * Context: boot, before allocations rely on that free memory is clean.
 */
void __init asi_dirty_init(void)
{
	unsigned long most = min(totalram_pages() / PART, MOST / PAGE_SIZE);
	int cpu;

	for_each_possible_cpu(cpu) {
		struct asi_dirty *dirty = per_cpu_ptr(&asi_dirty, cpu);

		mutex_init(&dirty->lock);
		INIT_DELAYED_WORK(&dirty->work, asi_dirty_work);
	}
	asi_dirty_max = most / num_possible_cpus();
}
