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

extern unsigned int mktme_pool_percent;
extern unsigned long mktme_pool_whole;

unsigned long mktme_pool_node_limit(int nid);

#endif /* __MM_MKTME_POOL_H */
