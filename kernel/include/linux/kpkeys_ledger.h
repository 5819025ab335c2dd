/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which interrupted code goes on at a raised level.
 *
 * A handler starts at the default level, and the code that it interrupted goes
 * on at its own. Anything on a stack that says so can be forged while the
 * handler runs or sleeps. So each CPU has a page that only a raised level can
 * write, a stack of the frames to raise again: entry pushes the frame of raised
 * code before it lowers, and exit raises if the topmost entry is the very frame
 * that it returns through, as the stack pointer has it.
 *
 * Entries belong to a CPU, so raised code must not be preempted. A context
 * switch drops all of them: the code they belong to then goes on at the default
 * level, at which its next write is refused.
 */
#ifndef _LINUX_KPKEYS_LEDGER_H
#define _LINUX_KPKEYS_LEDGER_H

#include <linux/compiler.h>
#include <linux/percpu-defs.h>
#include <linux/types.h>

#include <asm/page.h>
#include <asm/percpu.h>
#include <asm/smp.h>

/* A task, softirqs, interrupts, exceptions in each of them, and NMIs. */
#define KPKEYS_LEDGER_DEPTH	16

/**
 * struct kpkeys_ledger - frames of this CPU that are to be raised again.
 * @top: the innermost such frame, or 0. First, as assembler compares it.
 * @level: the level of this CPU, where the architecture wants to ask memory
 *	instead of its register. Raised only while the register is.
 * @top_level: what @level was when @top was interrupted.
 * @depth: how many of @below are in use.
 * @below: what @top and @top_level were for the frames around @top.
 */
struct kpkeys_ledger {
	unsigned long top;
	unsigned long level;
	unsigned long top_level;
	unsigned long depth;
	struct {
		unsigned long frame;
		unsigned long level;
	} below[KPKEYS_LEDGER_DEPTH];
} __aligned(PAGE_SIZE);

DECLARE_PER_CPU_PAGE_ALIGNED(struct kpkeys_ledger, kpkeys_ledger);

/**
 * kpkeys_ledger_push() - Remember that a frame is to be raised again.
 * @frame: an address within the frame, which no other frame in use has.
 *
 * An NMI may come between any two of the writes: it pushes and pops for itself,
 * and leaves everything below as it was.
 *
 * Context: at the raised level, cannot be preempted.
 * Return: false if there is no room; the frame then goes on at the default.
 */
static __always_inline bool kpkeys_ledger_push(unsigned long frame)
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
	barrier();
	raw_cpu_write(kpkeys_ledger.top_level, raw_cpu_read(kpkeys_ledger.level));
	barrier();
	raw_cpu_write(kpkeys_ledger.top, frame);
	return true;
}

/**
 * kpkeys_ledger_is_top() - Is a frame the one to be raised again next?
 * @frame: as given to kpkeys_ledger_push().
 *
 * Context: cannot be preempted.
 * Return: true if it is.
 */
static __always_inline bool kpkeys_ledger_is_top(unsigned long frame)
{
	return raw_cpu_read(kpkeys_ledger.top) == frame;
}

/**
 * kpkeys_ledger_pop() - Forget the topmost frame, which was raised again.
 *
 * Context: at the raised level, cannot be preempted. There is such a frame.
 */
static __always_inline void kpkeys_ledger_pop(void)
{
	unsigned long depth = raw_cpu_read(kpkeys_ledger.depth) - 1;

	raw_cpu_write(kpkeys_ledger.top_level,
		      raw_cpu_read(kpkeys_ledger.below[depth].level));
	barrier();
	raw_cpu_write(kpkeys_ledger.top,
		      raw_cpu_read(kpkeys_ledger.below[depth].frame));
	barrier();
	raw_cpu_write(kpkeys_ledger.depth, depth);
}

/**
 * kpkeys_ledger_clear() - Let no frame of this CPU be raised again.
 *
 * Context: at the raised level, cannot be preempted.
 */
static __always_inline void kpkeys_ledger_clear(void)
{
	raw_cpu_write(kpkeys_ledger.top, 0);
	barrier();
	raw_cpu_write(kpkeys_ledger.depth, 0);
}

#endif /* _LINUX_KPKEYS_LEDGER_H */
