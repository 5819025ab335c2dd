/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the pool of free pages under KeyIDs, for tests. */
#ifndef __MM_MKTME_POOL_H
#define __MM_MKTME_POOL_H

/* Pages that a CPU keeps before they spill to its node. */
#define POOL_CPU_PAGES	64
/* Pages that a CPU takes from its node at once. */
#define POOL_BATCH	32
/* Pages that are flushed and returned without a break: one huge page. */
#define POOL_GIVE_BACK	(PMD_SIZE / PAGE_SIZE)
/* Pages of a node that reclaim sees at a time. */
#define POOL_RECLAIM	(16 * POOL_GIVE_BACK)

extern unsigned int mktme_pool_percent;

unsigned long mktme_pool_node_limit(int nid);

#endif /* __MM_MKTME_POOL_H */
