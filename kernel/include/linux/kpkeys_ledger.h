/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Record of interrupted code that resumes at a raised level.
 *
 * A handler starts at the default level, and the code that it interrupted
 * resumes at its own. A level saved on the stack could be forged while the
 * handler runs or sleeps. So each CPU has a page, with a key of its own that
 * every raised level may write, with a stack of the frames to raise again and
 * their levels. Entry from raised code pushes its frame before it lowers the
 * level; exit raises only if the stack pointer matches the topmost frame.
 *
 * Entries belong to a CPU, so raised code must not be preempted. A context
 * switch drops all entries: their code resumes at the default level, and its
 * next write to protected memory is refused.
 */
#ifndef _LINUX_KPKEYS_LEDGER_H
#define _LINUX_KPKEYS_LEDGER_H

#include <linux/compiler.h>
#include <linux/percpu-defs.h>
#include <linux/types.h>

#include <asm/page.h>
#include <asm/percpu.h>
#include <asm/smp.h>

/* Task, softirq, interrupt, an exception in each of them, and NMIs. */
#define KPKEYS_LEDGER_DEPTH	16

/**
 * struct kpkeys_ledger - frames of this CPU that will be raised again.
 * @top: the innermost such frame, or 0. First member, for assembler code.
 * @level: the level of this CPU, for architectures where memory is faster to
 *	test than the register. Raised only while the register is.
 * @top_level: value of @level when @top was interrupted.
 * @top_raised: level that the register had then.
 * @depth: number of entries of @below in use.
 * @below: saved @top, @top_level and @top_raised of the outer frames.
 */
struct kpkeys_ledger {
	unsigned long top;
	unsigned long level;
	unsigned long top_level;
	unsigned long top_raised;
	unsigned long depth;
	struct {
		unsigned long frame;
		unsigned long level;
		unsigned long raised;
	} below[KPKEYS_LEDGER_DEPTH];
} __aligned(PAGE_SIZE);

DECLARE_PER_CPU_PAGE_ALIGNED(struct kpkeys_ledger, kpkeys_ledger);

/**
 * kpkeys_ledger_push() - Record a frame to be raised again.
 * @frame: an address within the frame, unique among live frames.
 * @raised: the level it had.
 *
 * An NMI may arrive between any two writes: it pushes and pops its own entry
 * and leaves everything below unchanged.
 *
 * Context: raised level, not preemptible.
 * Return: false if the ledger is full; the frame then resumes at the default.
 */
static __always_inline bool kpkeys_ledger_push(unsigned long frame,
					       unsigned long raised)
{
	unsigned long depth = raw_cpu_read(kpkeys_ledger.depth);

	if (unlikely(depth >= KPKEYS_LEDGER_DEPTH))
		return false;

	raw_cpu_write(kpkeys_ledger.depth, depth + 1);
	barrier();
	raw_cpu_write(kpkeys_ledger.below[depth].frame,
		      raw_cpu_read(kpkeys_ledger.top));
	raw_cpu_write(kpkeys_ledger.below[depth].level,
		      raw_cpu_read(kpkeys_ledger.top_level));
	raw_cpu_write(kpkeys_ledger.below[depth].raised,
		      raw_cpu_read(kpkeys_ledger.top_raised));
	barrier();
	raw_cpu_write(kpkeys_ledger.top_level, raw_cpu_read(kpkeys_ledger.level));
	raw_cpu_write(kpkeys_ledger.top_raised, raised);
	barrier();
	raw_cpu_write(kpkeys_ledger.top, frame);
	return true;
}

/**
 * kpkeys_ledger_is_top() - Is a frame the next one to be raised again?
 * @frame: as passed to kpkeys_ledger_push().
 *
 * Context: not preemptible.
 * Return: true if it is.
 */
static __always_inline bool kpkeys_ledger_is_top(unsigned long frame)
{
	return raw_cpu_read(kpkeys_ledger.top) == frame;
}

/**
 * kpkeys_ledger_top_level() - Get the level to return the topmost frame to.
 *
 * Context: not preemptible. The ledger is not empty.
 * Return: one of KPKEYS_LVL_*.
 */
static __always_inline unsigned long kpkeys_ledger_top_level(void)
{
	return raw_cpu_read(kpkeys_ledger.top_raised);
}

/**
 * kpkeys_ledger_pop() - Drop the topmost frame after it was raised again.
 *
 * Context: raised level, not preemptible. The ledger is not empty.
 */
static __always_inline void kpkeys_ledger_pop(void)
{
	unsigned long depth = raw_cpu_read(kpkeys_ledger.depth) - 1;

	raw_cpu_write(kpkeys_ledger.top_level,
		      raw_cpu_read(kpkeys_ledger.below[depth].level));
	raw_cpu_write(kpkeys_ledger.top_raised,
		      raw_cpu_read(kpkeys_ledger.below[depth].raised));
	barrier();
	raw_cpu_write(kpkeys_ledger.top,
		      raw_cpu_read(kpkeys_ledger.below[depth].frame));
	barrier();
	raw_cpu_write(kpkeys_ledger.depth, depth);
}

/**
 * kpkeys_ledger_clear() - Drop all frames of this CPU.
 *
 * Context: raised level, not preemptible.
 */
static __always_inline void kpkeys_ledger_clear(void)
{
	raw_cpu_write(kpkeys_ledger.top, 0);
	barrier();
	raw_cpu_write(kpkeys_ledger.depth, 0);
}

#endif /* _LINUX_KPKEYS_LEDGER_H */
