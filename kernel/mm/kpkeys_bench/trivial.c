// SPDX-License-Identifier: GPL-2.0-only
/*
 * What measuring costs, and what a switch of the level costs.
 */
#include <linux/compiler.h>
#include <linux/errno.h>

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES
#include <linux/kpkeys.h>
#endif

#include "bench.h"

/**
 * kbench_nothing() - Time nothing.
 * @run: the sample; the size is ignored.
 *
 * Each operation is a timed region of its own: the result is what measuring
 * adds to each region.
 *
 * Context: the thread of a sample.
 * Return: 0 or -EINTR.
 */
int kbench_nothing(struct kbench_run *run)
{
	unsigned int i;
	int err;

	for (i = 0; i < run->ops; i++) {
		err = kbench_pause();
		if (err)
			return err;
		kbench_begin(run);
		kbench_end(run);
	}
	return 0;
}

/**
 * kbench_switch() - Time the guard of hardened page tables.
 * @run: the sample; the size is ignored.
 *
 * All operations are one timed region; each raises and lowers the level. If
 * protection is off, the result is what the loop and the static branch take.
 *
 * Context: the thread of a sample.
 * Return: 0, or -EOPNOTSUPP in a kernel without hardened page tables.
 */
int kbench_switch(struct kbench_run *run)
{
#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES
	unsigned int i;

	kbench_begin(run);
	for (i = 0; i < run->ops; i++) {
		guard(kpkeys_hardened_pgtables)();
		barrier();
	}
	kbench_end(run);
	return 0;
#else
	return -EOPNOTSUPP;
#endif
}
