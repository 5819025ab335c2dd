// SPDX-License-Identifier: GPL-2.0-only
/* The overhead of measuring, and the cost of a level switch. */
#include <linux/compiler.h>
#include <linux/errno.h>

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES
#include <linux/kpkeys.h>
#endif

#include "bench.h"

/**
 * kbench_nothing() - Time an empty region.
 * @run: the sample; the size is ignored.
 *
 * Each operation is a timed region of its own, so that the result is the
 * overhead of one region.
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
 * All operations are one timed region; each raises and lowers the level. With
 * protection off, the result is the cost of the loop and the static branch.
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
