// SPDX-License-Identifier: GPL-2.0-only
/* Set up a pool: its data, its first block and its shrinker. */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kpkeys_mappings.h>
#include <linux/mm.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>

#include "kpkeys.h"
#include "pool.h"

/*
 * Pages for the pool's own data come from the first block; each would otherwise
 * pin another block. Enough for four times the page tables that map all memory
 * with small pages, but at most a quarter of the block.
 */
static unsigned int __init kpkeys_pool_initial_spare(void)
{
	unsigned long blocks = 4 * (totalram_pages() / PTRS_PER_PTE >>
				    KPKEYS_BLOCK_ORDER);
	unsigned long descriptors = blocks * sizeof(struct kpkeys_region) /
				    PAGE_SIZE;
	unsigned long leaves = totalram_pages() >> KPKEYS_BLOCK_ORDER >>
			       (PAGE_SHIFT - 3);

	return min(KPKEYS_MIN_SPARE + 8 + descriptors + leaves,
		   KPKEYS_BLOCK_PAGES / 4);
}

static void *__init kpkeys_pool_align_take(void **next, size_t size)
{
	void *addr = *next;

	*next += ALIGN(size, SMP_CACHE_BYTES);
	return addr;
}

static void __init kpkeys_pool_init_node(struct kpkeys_pool_node *node)
{
	INIT_LIST_HEAD(&node->partial);
	INIT_LIST_HEAD(&node->full);
	INIT_LIST_HEAD(&node->empty);
	node->trim_at = (KPKEYS_IDLE_BLOCKS + 1) * KPKEYS_BLOCK_PAGES;
}

static void __init kpkeys_pool_init_magazines(struct kpkeys_pool *pool)
{
	unsigned int cpu;
	enum kpkeys_kind kind;

	for (cpu = 0; cpu < pool->nr_cpus; cpu++)
		for (kind = 0; kind < KPKEYS_NR_KINDS; kind++)
			kpkeys_pool_magazine(pool, cpu, kind)->size =
				kind == KPKEYS_KIND_TABLE ? KPKEYS_MAGAZINE_SIZE :
							    KPKEYS_SMALL_MAGAZINE;
}

/* Locks share no cache lines. Without SMP they may have no size. */
static int __init kpkeys_pool_init_sync(struct kpkeys_pool *pool)
{
	size_t locks = (pool->nr_nodes + pool->nr_cpus) *
		       sizeof(*pool->sync->node_lock);
	size_t retry_at = pool->nr_nodes * sizeof(*pool->sync->retry_at);
	size_t size = locks + retry_at + pool->nr_nodes * sizeof(*pool->sync->idle);
	unsigned int i;
	void *mem;

	mem = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO,
				       get_order(size));
	if (!mem)
		return -ENOMEM;
	pool->sync->node_lock = mem;
	pool->sync->cpu_lock = pool->sync->node_lock + pool->nr_nodes;
	pool->sync->retry_at = mem + locks;
	pool->sync->idle = mem + locks + retry_at;

	for (i = 0; i < pool->nr_nodes; i++) {
		spin_lock_init(&pool->sync->node_lock[i].lock);
		pool->sync->retry_at[i] = jiffies;
	}
	for (i = 0; i < pool->nr_cpus; i++)
		spin_lock_init(&pool->sync->cpu_lock[i].lock);
	return 0;
}

static int __init kpkeys_pool_init_state(struct kpkeys_pool *pool)
{
	size_t nodes = pool->nr_nodes * sizeof(*pool->state->nodes);
	size_t mags = pool->nr_cpus * KPKEYS_NR_KINDS *
		      sizeof(*pool->state->magazines);
	size_t directory = kpkeys_directory_size(pool);
	size_t protected = kpkeys_directory_end(pool) / KPKEYS_BLOCK_PAGES / BITS_PER_BYTE;
	size_t size = sizeof(*pool->state) + nodes + mags + directory +
		      2 * protected + 6 * SMP_CACHE_BYTES;
	unsigned int order = get_order(size);
	struct kpkeys_pool_state *state;
	unsigned int nid;
	void *next;
	int err;

	next = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, order);
	if (!next)
		return -ENOMEM;
	pool->state_size = PAGE_SIZE << order;
	state = kpkeys_pool_align_take(&next, sizeof(*state));
	pool->state = state;
	state->nodes = kpkeys_pool_align_take(&next, nodes);
	state->magazines = kpkeys_pool_align_take(&next, mags);
	pool->directory = kpkeys_pool_align_take(&next, directory);
	state->offered = kpkeys_pool_align_take(&next, protected);
	state->protected = kpkeys_pool_align_take(&next, protected);
	INIT_LIST_HEAD(&state->free_regions);
	for (nid = 0; nid < pool->nr_nodes; nid++)
		kpkeys_pool_init_node(&state->nodes[nid]);
	kpkeys_pool_init_magazines(pool);

	err = set_memory_pkey((unsigned long)state, 1 << order, pool->pkey);
	kpkeys_stat_add(KPKEYS_STAT_TAG_CALLS, 1);
	kpkeys_stat_add(KPKEYS_STAT_PTPS_TAGGED, 1 << order);
	return err;
}

/**
 * kpkeys_pool_init() - Initialise a pool and give it its first block.
 * @pool: the pool.
 *
 * Context: boot, one CPU, as soon as the page allocator works.
 * Return: 0 or a negative error, after which the pool is unusable. Memory that
 * may be tagged is leaked then.
 */
int __init kpkeys_pool_init(struct kpkeys_pool *pool)
{
	struct page *page;
	unsigned int i;
	int err;

	pool->nr_nodes = nr_node_ids;
	pool->nr_cpus = nr_cpu_ids;
	err = kpkeys_pool_init_sync(pool);
	if (!err)
		err = kpkeys_pool_init_state(pool);
	if (err)
		return err;

	page = alloc_pages(GFP_KERNEL, KPKEYS_BLOCK_ORDER);
	if (!page)
		return -ENOMEM;

	scoped_guard(mutex, &pool->sync->grow) {
		err = kpkeys_block_add(pool, page, KPKEYS_BLOCK_ORDER,
				       kpkeys_pool_initial_spare());
	}
	if (err)
		return err;

	page = virt_to_page(pool->state);
	for (i = 0; i < pool->state_size >> PAGE_SHIFT; i++)
		kpkeys_region_set_early(pool, page + i, true);
	kpkeys_mappings_start(pool);
	return 0;
}

/**
 * kpkeys_pool_late_init() - Register the shrinker and debugfs file of a pool.
 * @pool: the pool.
 *
 * Context: initcall.
 * Return: 0 or -ENOMEM.
 */
int __init kpkeys_pool_late_init(const struct kpkeys_pool *pool)
{
	struct shrinker *shrinker = shrinker_alloc(0, "kpkeys-%s", pool->name);

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = pool->count_objects;
	shrinker->scan_objects = pool->scan_objects;
	shrinker_register(shrinker);

	kpkeys_pool_debugfs(pool);
	return 0;
}
