// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: entering and leaving the restricted address space.
 *
 * User mode is entered restricted, and system calls start so. The first access
 * to memory that is not mapped leaves, until the next return to user mode.
 *
 * CR3 is read and written with interrupts off, and an NMI in between returns to
 * the address space that it interrupted.
 */
#define pr_fmt(fmt) "asi: " fmt

#include <linux/asi.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/kvm_types.h>
#include <linux/percpu.h>
#include <linux/string.h>

#include <asm/asi.h>
#include <asm/cpufeature.h>
#include <asm/invpcid.h>
#include <asm/msr.h>
#include <asm/nospec-branch.h>
#include <asm/tlbflush.h>

#include <trace/events/asi.h>

#include "../kernel/cpu/cpu.h"

DEFINE_PER_CPU(unsigned long [ASI_NR_SWITCHES], asi_switches);

/* The restricted address space of this CPU has not been used yet. */
DEFINE_PER_CPU(u16 [2], asi_stale) = { [true] = U16_MAX };

DEFINE_PER_CPU(bool, asi_left);

#ifdef CONFIG_ASI_DEBUG
DEFINE_PER_CPU(bool, asi_stay);
#endif

/* === CR3 ================================================================= */

static_assert(BITS_PER_TYPE(asi_stale[0]) > TLB_NR_DYN_ASIDS);

/*
 * Clear the stale bit after the flush: an interruption in between may load CR3
 * as well, and flushes once more.
 */
static __always_inline void asi_load_cr3(unsigned long cr3)
{
	bool restricted = cr3 & ASI_CR3_RESTRICTED;
	u16 pcid = BIT(cr3 & ASI_PCID_PROCESS);

	if (!cpu_feature_enabled(X86_FEATURE_PCID)) {
		native_write_cr3(cr3);
	} else if (likely(!(raw_cpu_read(asi_stale[restricted]) & pcid))) {
		native_write_cr3(cr3 | CR3_NOFLUSH);
	} else {
		native_write_cr3(cr3);
		raw_cpu_and(asi_stale[restricted], (u16)~pcid);
	}
}

/**
 * __asi_write_cr3() - Load the page tables of a process, with PCID.
 * @cr3: the value; CR3_NOFLUSH is ignored, and stale TLB entries are flushed.
 *
 * Context: interrupts off.
 */
void __asi_write_cr3(unsigned long cr3)
{
	asi_load_cr3(cr3 & ~CR3_NOFLUSH);
}

/**
 * __asi_flush_tlb_local() - flush_tlb_local() with PCID.
 *
 * Context: preemption off.
 */
void __asi_flush_tlb_local(void)
{
	unsigned long flags, cr3;

	/* The address space must not change between marking and flushing. */
	raw_local_irq_save(flags);
	cr3 = __native_read_cr3();
	asi_invalidate(cr3 & ASI_PCID_PROCESS);
	asi_load_cr3(cr3);
	raw_local_irq_restore(flags);
}

/**
 * __asi_flush_tlb_one_user() - flush_tlb_one_user() with PCID.
 * @pcid: the PCID of the process, as of kern_pcid().
 * @addr: the address to flush in both address spaces.
 *
 * Flushes neither global entries nor those of user page tables (PTI).
 *
 * Context: preemption off.
 */
void __asi_flush_tlb_one_user(u16 pcid, unsigned long addr)
{
	/* INVPCID faults on a CPU that has not yet set CR4.PCIDE. */
	if (!boot_cpu_has(X86_FEATURE_INVPCID) ||
	    !(this_cpu_read(cpu_tlbstate.cr4) & X86_CR4_PCIDE)) {
		asi_invalidate(pcid);
		return;
	}
	invpcid_flush_one(pcid, addr);
	invpcid_flush_one(pcid | ASI_PCID_RESTRICTED, addr);
}

/* === Counters and flushes ================================================ */

/* Predictors trained by user mode must not steer the unrestricted kernel. */
#define FLUSH_IBPB	BIT(0)
/*
 * Data that the unrestricted kernel left in the CPU must not reach user mode.
 */
#define FLUSH_VERW	BIT(1)
#define FLUSH_L1D	BIT(2)

static const char * const asi_flush_names[] = { "ibpb", "verw", "l1d" };

static unsigned int asi_flushes __ro_after_init;

static __always_inline void asi_flush_predictors(void)
{
	if (!(asi_flushes & FLUSH_IBPB))
		return;
	raw_cpu_inc(asi_switches[ASI_IBPB]);
	/* Does nothing if the CPU lacks IBPB. */
	indirect_branch_prediction_barrier();
}

static __always_inline void asi_flush_data(void)
{
	if (asi_flushes & FLUSH_VERW) {
		raw_cpu_inc(asi_switches[ASI_VERW]);
		x86_clear_cpu_buffers();
	}
	if (asi_flushes & FLUSH_L1D) {
		raw_cpu_inc(asi_switches[ASI_L1D]);
		if (cpu_feature_enabled(X86_FEATURE_FLUSH_L1D))
			native_wrmsrq(MSR_IA32_FLUSH_CMD, L1D_FLUSH);
	}
}

/* All that an exit does, in one place, so that none misses a part. */
static __always_inline void asi_before_exit(enum asi_switch reason)
{
	raw_cpu_inc(asi_switches[reason]);
	this_cpu_write(asi_left, true);
	asi_flush_predictors();
}

static __always_inline void asi_enter_counted(enum asi_switch how,
					      unsigned long cr3)
{
	raw_cpu_inc(asi_switches[how]);
	asi_load_cr3(cr3);
	asi_flush_data();
}

/*
 * Flushes that bugs of this CPU need and the kernel does not do on system calls.
 * L1TF needs nothing: no entry of a process could be used for it.
 */
static unsigned int __init asi_needed_flushes(void)
{
	bool buffers_leak = boot_cpu_has_bug(X86_BUG_MDS) ||
			    boot_cpu_has_bug(X86_BUG_TAA) ||
			    boot_cpu_has_bug(X86_BUG_MMIO_STALE_DATA) ||
			    boot_cpu_has_bug(X86_BUG_RFDS) ||
			    boot_cpu_has_bug(X86_BUG_TSA);
	unsigned int needed = 0;

	if (boot_cpu_has_bug(X86_BUG_SPECTRE_V2) && boot_cpu_has(X86_FEATURE_IBPB))
		needed |= spectre_v2_enabled == SPECTRE_V2_NONE ? FLUSH_IBPB : 0;
	if (buffers_leak && !boot_cpu_has(X86_FEATURE_CLEAR_CPU_BUF))
		needed |= FLUSH_VERW;
	return needed;
}

static char *asi_flush_arg __initdata;

static int __init asi_flush_parse(char *arg)
{
	asi_flush_arg = arg;
	return arg ? 0 : -EINVAL;
}
early_param("asi_flush", asi_flush_parse);

void __init arch_asi_choose_flushes(void)
{
	char *arg = asi_flush_arg;
	const char *word;
	int i;

	if (!arg || !strcmp(arg, "auto")) {
		asi_flushes = asi_needed_flushes();
		return;
	}
	if (!strcmp(arg, "none"))
		return;
	while ((word = strsep(&arg, ","))) {
		i = match_string(asi_flush_names, ARRAY_SIZE(asi_flush_names),
				 word);
		if (i < 0)
			pr_warn("asi_flush: '%s' is none of ibpb, verw and l1d; auto and none stand alone\n",
				word);
		else
			asi_flushes |= BIT(i);
	}
}

const char * __init arch_asi_flushes(void)
{
	static char said[sizeof("ibpb,verw,l1d")] __initdata;
	int i;

	for (i = 0; i < ARRAY_SIZE(asi_flush_names); i++) {
		if (!(asi_flushes & BIT(i)))
			continue;
		if (said[0])
			strlcat(said, ",", sizeof(said));
		strlcat(said, asi_flush_names[i], sizeof(said));
	}
	return said[0] ? said : "nothing";
}

/* === Enter and exit ====================================================== */

/**
 * __asi_enter() - asi_enter() on a CPU that is not restricted.
 * @cr3: the loaded CR3.
 *
 * Context: interrupts off.
 */
noinstr void __asi_enter(unsigned long cr3)
{
	asi_enter_counted(ASI_ENTER, cr3 | asi_cr3_bits());
}
EXPORT_SYMBOL_FOR_KVM(__asi_enter);

/**
 * __asi_leave() - Leave the restricted address space.
 * @reason: one of ASI_EXIT_*.
 *
 * Context: interrupts off.
 * Return: false if this CPU was not restricted.
 */
noinstr bool __asi_leave(enum asi_switch reason)
{
	unsigned long cr3 = __native_read_cr3();

	if (!(cr3 & ASI_CR3_RESTRICTED))
		return false;
	asi_before_exit(reason);
	asi_load_cr3(cr3 & ~asi_cr3_bits());
	return true;
}

/**
 * __asi_exit() - asi_exit() with isolation enabled.
 * @reason: one of ASI_EXIT_*.
 *
 * Context: interrupts off.
 */
void __asi_exit(enum asi_switch reason)
{
	if (__asi_leave(reason))
		trace_asi_exit(reason, 0, _RET_IP_);
}

/**
 * __asi_switch_mm() - asi_switch_mm() with isolation enabled.
 * @prev: the mm of the loaded CR3.
 * @next: the mm of the new CR3.
 *
 * Context: interrupts off.
 * Return: bits to set in the new CR3.
 */
unsigned long __asi_switch_mm(struct mm_struct *prev, struct mm_struct *next)
{
	if (!asi_restricted())
		return 0;
	if (prev == next)
		return asi_cr3_bits();
	if (next == &init_mm) {
		asi_before_exit(ASI_EXIT_SWITCH_MM);
		trace_asi_exit(ASI_EXIT_SWITCH_MM, 0, _RET_IP_);
		return 0;
	}
	/* No data of @next was reachable, but @prev trained the predictors. */
	raw_cpu_inc(asi_switches[ASI_SWITCH_MM]);
	asi_flush_predictors();
	return asi_cr3_bits();
}

/**
 * __asi_switched_mm() - asi_switched_mm() after a restricted switch.
 *
 * Context: interrupts off.
 */
void __asi_switched_mm(void)
{
	asi_flush_data();
}

/**
 * asi_trace_fault() - Trace an exit by asi_fault().
 * @regs: registers at the fault.
 * @address: the faulting address.
 *
 * Context: any that allows tracepoints.
 */
void asi_trace_fault(struct pt_regs *regs, unsigned long address)
{
	trace_asi_exit(ASI_EXIT_FAULT, address, regs->ip);
}

/*
 * Which NMI interrupted the restricted address space. None of those that
 * interrupt it meanwhile: that one returns. Not in irqentry_state_t, as any
 * interrupt would then take more than a register for that.
 */
struct asi_interrupted {
	const struct pt_regs *regs;
	unsigned long cr3;
};

static DEFINE_PER_CPU(struct asi_interrupted, asi_interrupted);

/**
 * __asi_nmi_enter() - asi_nmi_enter() with isolation enabled.
 * @regs: the interrupted registers.
 *
 * Context: the beginning of an NMI or a similar exception.
 */
noinstr void __asi_nmi_enter(const struct pt_regs *regs)
{
	unsigned long cr3 = __native_read_cr3();

	if (!(cr3 & ASI_CR3_RESTRICTED) || raw_cpu_read(asi_interrupted.regs))
		return;
	/* Another one in between writes the same, and takes its registers away. */
	raw_cpu_write(asi_interrupted.cr3, cr3);
	raw_cpu_write(asi_interrupted.regs, regs);
}

/**
 * __asi_nmi_exit() - asi_nmi_exit() with isolation enabled.
 * @regs: the interrupted registers.
 *
 * The NMI may have interrupted the return to user mode. If it ends with other
 * page tables loaded, as after code patching by a debugger, it interrupted a
 * kernel thread, which need not be restricted.
 *
 * Context: the end of an NMI or a similar exception.
 */
noinstr void __asi_nmi_exit(const struct pt_regs *regs)
{
	unsigned long cr3 = raw_cpu_read(asi_interrupted.cr3);

	if (raw_cpu_read(asi_interrupted.regs) != regs)
		return;
	/* An NMI from here on returns by itself, if there is a need. */
	raw_cpu_write(asi_interrupted.regs, NULL);
	if ((__native_read_cr3() ^ cr3) == asi_cr3_bits())
		asi_enter_counted(ASI_REENTER, cr3);
}
