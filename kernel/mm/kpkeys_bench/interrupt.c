// SPDX-License-Identifier: GPL-2.0-only
/* The way into an interrupt and out of it. */
#include <linux/errno.h>
#include <linux/irq_work.h>

#include "bench.h"

#ifdef CONFIG_IRQ_WORK
static void kbench_do_nothing(struct irq_work *work)
{
}
#endif

/**
 * kbench_interrupt() - Time an interrupt that this CPU sends to itself.
 * @run: the sample; the size is ignored.
 *
 * All operations are one timed region. The handler of irq_work finds a single
 * item that does nothing, so that entry and exit are most of an operation.
 * Context: the thread of a sample.
 * Return: 0, or -EOPNOTSUPP where irq_work has no interrupt of its own.
 */
int kbench_interrupt(struct kbench_run *run)
{
#ifdef CONFIG_IRQ_WORK
	struct irq_work work = IRQ_WORK_INIT(kbench_do_nothing);
	unsigned int i;

	if (!arch_irq_work_has_interrupt())
		return -EOPNOTSUPP;
	kbench_begin(run);
	for (i = 0; i < run->ops; i++) {
		irq_work_queue(&work);
		irq_work_sync(&work);
	}
	kbench_end(run);
	return 0;
#else
	return -EOPNOTSUPP;
#endif
}
