/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One level switch for a run of page table entries.
 *
 * The beginning and end of a batch are explicit in the code: batches do not
 * nest, and no counter in memory decides whether to raise or lower. A batch
 * spans entries of one table, and must neither allocate nor sleep. Guards
 * inside find the level raised and do nothing.
 */
#ifndef _LINUX_KPKEYS_BATCH_H
#define _LINUX_KPKEYS_BATCH_H

#include <linux/kpkeys.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_mappings.h>
#include <linux/preempt.h>

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES
/*
 * For functions with a batch that are large when inlined: their loop over
 * entries then lacks registers.
 */
#define __kpkeys_batch noinline

/**
 * kpkeys_batch_begin() - Make page tables writable for a run of entries.
 *
 * Not while processes are searched for mappings: each entry is written as if
 * there were no batch then, and is asked about.
 *
 * Context: task context at the default level. Not preemptible until
 * kpkeys_batch_end().
 */
static __always_inline void kpkeys_batch_begin(void)
{
	if (kpkeys_hardened_pgtables_enabled() && kpkeys_batch_enabled()) {
		preempt_disable();
		if (likely(!kpkeys_mappings_hold_still()))
			kpkeys_raise(KPKEYS_LVL_PGTABLES);
	}
}

/**
 * kpkeys_batch_end() - End a batch.
 *
 * Context: as kpkeys_batch_begin(); the level may have been lowered meanwhile.
 */
static __always_inline void kpkeys_batch_end(void)
{
	if (kpkeys_hardened_pgtables_enabled() && kpkeys_batch_enabled()) {
		kpkeys_lower();
		preempt_enable();
	}
}

/**
 * kpkeys_batch_pause() - Lower the level in the middle of a batch.
 *
 * For the one allocation that is made in batches. No-op outside of batches.
 *
 * Context: not preemptible if in a batch.
 */
static __always_inline void kpkeys_batch_pause(void)
{
	if (kpkeys_hardened_pgtables_enabled() &&
	    arch_kpkeys_level_in_force(KPKEYS_LVL_PGTABLES)) {
		kpkeys_ledger_push((unsigned long)__builtin_frame_address(0),
				   KPKEYS_LVL_PGTABLES);
		kpkeys_lower();
	}
}

/**
 * kpkeys_batch_resume() - Raise the level if kpkeys_batch_pause() lowered it.
 *
 * Context: the function that called kpkeys_batch_pause().
 */
static __always_inline void kpkeys_batch_resume(void)
{
	if (kpkeys_hardened_pgtables_enabled() &&
	    kpkeys_ledger_is_top((unsigned long)__builtin_frame_address(0))) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_ledger_pop();
	}
}
#else
#define __kpkeys_batch
static inline void kpkeys_batch_begin(void) { }
static inline void kpkeys_batch_end(void) { }
static inline void kpkeys_batch_pause(void) { }
static inline void kpkeys_batch_resume(void) { }
#endif

#endif /* _LINUX_KPKEYS_BATCH_H */
