/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests change of the pool of free pages under KeyIDs.
 */
#ifndef __MM_MKTME_POOL_H
#define __MM_MKTME_POOL_H

/* Pages that a CPU keeps, before all of them go to the pool of the node. */
#define POOL_CPU_PAGES	64
/* Pages that a CPU takes from there. */
#define POOL_BATCH	32
/* Pages that are given back, and flushed for that, without a break: a huge one. */
#define POOL_GIVE_BACK	(PMD_SIZE / PAGE_SIZE)
/* Pages of a node that whoever reclaims memory sees at a time. */
#define POOL_RECLAIM	(16 * POOL_GIVE_BACK)

extern unsigned int mktme_pool_percent;

unsigned long mktme_pool_node_limit(int nid);

#endif /* __MM_MKTME_POOL_H */
