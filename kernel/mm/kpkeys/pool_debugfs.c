// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a pool, in debugfs as kpkeys/pool.
 */
#include <linux/debugfs.h>
#include <linux/nodemask.h>
#include <linux/seq_file.h>

#include "kpkeys.h"
#include "pool.h"

static const char * const event_names[KPKEYS_POOL_NR_EVENTS] = {
	[KPKEYS_POOL_BLOCKS_ADDED]	= "blocks_added",
	[KPKEYS_POOL_BLOCKS_RETURNED]	= "blocks_returned",
	[KPKEYS_POOL_SMALL_ADDED]	= "small_added",
	[KPKEYS_POOL_SMALL_RETURNED]	= "small_returned",
	[KPKEYS_POOL_SPLITS]		= "splits",
	[KPKEYS_POOL_FAILED_ALLOCS]	= "failed_allocs",
	[KPKEYS_POOL_FAILED_TAGS]	= "failed_tags",
	[KPKEYS_POOL_FAILED_UNTAGS]	= "failed_untags",
	[KPKEYS_POOL_BAD_TAKES]		= "bad_takes",
	[KPKEYS_POOL_BAD_FREES]		= "bad_frees",
	[KPKEYS_POOL_REFUSED]		= "refused",
};

static int kpkeys_pool_show(struct seq_file *m, void *unused)
{
	const struct kpkeys_pool *pool = m->private;
	int nid, i;

	for_each_node_state(nid, N_MEMORY) {
		const struct kpkeys_pool_node *node = kpkeys_pool_node(pool, nid);

		seq_printf(m, "node %d blocks %lu empty %lu small_pages %lu free %lu clean %lu\n",
			   nid, node->nr_blocks, node->nr_empty, node->nr_small,
			   node->nr_avail, node->nr_clean);
	}
	seq_printf(m, "cached %lu\n", kpkeys_pool_cached(pool));
	seq_printf(m, "reserve %u\n", pool->state->nr_reserve);
	seq_printf(m, "spare %u\n", pool->state->nr_spare);
	seq_printf(m, "own %u\n", pool->state->nr_own);
	seq_printf(m, "other %u\n", pool->state->nr_other);
	seq_printf(m, "stuck %ld\n", atomic_long_read(&pool->sync->nr_stuck));
	for (i = 0; i < KPKEYS_POOL_NR_EVENTS; i++)
		seq_printf(m, "%s %ld\n", event_names[i],
			   atomic_long_read(&pool->sync->events[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kpkeys_pool);

/**
 * kpkeys_pool_debugfs() - Show a pool in debugfs.
 * @pool: the pool.
 *
 * Context: may sleep.
 */
void __init kpkeys_pool_debugfs(const struct kpkeys_pool *pool)
{
	debugfs_create_file("pool", 0400, kpkeys_debugfs_dir(), (void *)pool,
			    &kpkeys_pool_fops);
}
