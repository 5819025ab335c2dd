// SPDX-License-Identifier: GPL-2.0-only
/* The price of single operations that protection and isolation add. */
#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/mm.h>

#ifdef CONFIG_X86
#include <asm/cpufeature.h>
#include <asm/nospec-branch.h>
#include <asm/processor-flags.h>
#include <asm/special_insns.h>
#include <asm/tlb.h>
#else
#include <asm/barrier.h>
#include <asm/sysreg.h>
#include <asm/tlbflush.h>
#endif

#include "bench.h"

/* An address of user space, which a kernel thread does not have. */
#define UNMAPPED	0x40000000UL

/*
 * Time @op with @value. All operations are one region, without interrupts: the
 * handler of one may load another root than that which is loaded again here.
 */
#define time_each(run, value, op) do {					\
	struct kbench_run *__run = (run);				\
	unsigned long __flags, __value;					\
	unsigned int __i;						\
									\
	kbench_begin(__run);						\
	local_irq_save(__flags);					\
	__value = (value);						\
	for (__i = 0; __i < __run->ops; __i++)				\
		op(__value);						\
	local_irq_restore(__flags);					\
	kbench_end(__run);						\
} while (0)

#ifdef CONFIG_X86
#define flush_page(addr)	invlpg(addr)
#define root()			__read_cr3()
#define load_root(value)	write_cr3(value)
#else
#define flush_page(addr)	__flush_tlb_kernel_pgtable(addr)
#define root()			read_sysreg(ttbr0_el1)
#define load_root(value) do {						\
	write_sysreg(value, ttbr0_el1);					\
	isb();								\
} while (0)
#endif

/**
 * kbench_flush_page() - Time the invalidation of a TLB entry.
 * @run: the sample; the size is ignored.
 *
 * INVLPG, or TLBI with the barriers that it needs; the address has no entry.
 * Context: the thread of a sample.
 * Return: 0.
 */
int kbench_flush_page(struct kbench_run *run)
{
	time_each(run, UNMAPPED, flush_page);
	return 0;
}

/**
 * kbench_keep_root() - Time loading the root of page tables; the TLB is kept.
 * @run: the sample; the size is ignored.
 *
 * Context: the thread of a sample.
 * Return: 0, or -EOPNOTSUPP if an x86 CPU does not tag the entries of its TLB.
 */
int kbench_keep_root(struct kbench_run *run)
{
#ifdef CONFIG_X86
	if (!cpu_feature_enabled(X86_FEATURE_PCID))
		return -EOPNOTSUPP;
	time_each(run, root() | CR3_NOFLUSH, load_root);
#else
	time_each(run, root(), load_root);
#endif
	return 0;
}

#ifdef CONFIG_X86
static __always_inline void forget_branches(unsigned long unused)
{
	indirect_branch_prediction_barrier();
}

/**
 * kbench_load_root() - Time a write of CR3 that flushes the TLB.
 * @run: the sample; the size is ignored.
 *
 * The cost of refilling it later is not included.
 * Context: the thread of a sample.
 * Return: 0.
 */
int kbench_load_root(struct kbench_run *run)
{
	time_each(run, root(), load_root);
	return 0;
}

/**
 * kbench_ibpb() - Time a barrier for indirect branch predictors.
 * @run: the sample; the size is ignored.
 *
 * Context: the thread of a sample.
 * Return: 0, or -EOPNOTSUPP if the CPU has none.
 */
int kbench_ibpb(struct kbench_run *run)
{
	if (!boot_cpu_has(X86_FEATURE_IBPB))
		return -EOPNOTSUPP;
	time_each(run, UNMAPPED, forget_branches);
	return 0;
}
#endif
