// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection keys for kernel memory: tagging and violations.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/kpkeys_ledger.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/stdarg.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <kunit/static_stub.h>

#include "kpkeys.h"

/* Carries the key of page tables once there is a key. */
DEFINE_PER_CPU_PAGE_ALIGNED(struct kpkeys_ledger, kpkeys_ledger);
/* Page table helpers are inlined into modules. */
EXPORT_PER_CPU_SYMBOL(kpkeys_ledger);

/* === Tagging ============================================================ */

/**
 * set_memory_pkey() - Set the protection key of a range of the linear map.
 * @addr: start, an address in the linear map, page-aligned.
 * @numpages: length in pages.
 * @pkey: the key, at most arch_max_pkey(); KPKEYS_PKEY_DEFAULT makes the range
 *	ordinary memory again.
 *
 * Stale TLB entries of vmalloc mappings of the range are flushed.
 *
 * Context: may sleep; may need memory for page tables where the linear map has
 * to be split.
 * Return: 0; -EINVAL if an argument is bad or the range not in the linear map;
 * -EBUSY if keys cannot be set in this phase of boot; -ENOMEM, and part of the
 * range may then have the new key.
 */
int set_memory_pkey(unsigned long addr, int numpages, int pkey)
{
	KUNIT_STATIC_STUB_REDIRECT(set_memory_pkey, addr, numpages, pkey);

	if (pkey < 0 || pkey > arch_max_pkey())
		return -EINVAL;
	if (!PAGE_ALIGNED(addr) || numpages <= 0)
		return -EINVAL;
	if (!arch_kpkeys_enabled())
		return 0;

	/*
	 * TLBs may hold stale vmalloc mappings of the range, without the key.
	 */
	if (pkey != KPKEYS_PKEY_DEFAULT)
		vm_unmap_aliases();
	return arch_set_memory_pkey(addr, numpages, pkey);
}

/* === Violations ========================================================= */

static bool violation_panics __ro_after_init;

static int __init kpkeys_early_violation(char *arg)
{
	if (arg && !strcmp(arg, "panic"))
		violation_panics = true;
	else if (arg && !strcmp(arg, "oops"))
		violation_panics = false;
	else
		pr_warn("kpkeys.violation=%s: expected oops or panic\n", arg);
	return 0;
}
early_param("kpkeys.violation", kpkeys_early_violation);

static const char *kpkeys_level_name(u64 pkey_reg)
{
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_DEFAULT))
		return "default";
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_PGTABLES))
		return "pgtables";
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_STATE))
		return "state";
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_CRED))
		return "cred";
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_SECRET))
		return "secret";
	return "unknown";
}

#if IS_ENABLED(CONFIG_KPKEYS_KUNIT_TEST)
/* The task whose next violation is expected by a test. */
static struct task_struct *violation_expected_of;

/**
 * kpkeys_expect_violation() - Announce what a test does to be refused.
 * @expected: whether the next violation of this task is one of the test.
 *
 * Context: process context, one test at a time.
 */
void kpkeys_expect_violation(bool expected)
{
	WRITE_ONCE(violation_expected_of, expected ? current : NULL);
}

/**
 * kpkeys_test_write() - Try a write that may be refused, for tests.
 * @dst: destination.
 * @src: source.
 * @size: number of bytes.
 *
 * Context: process context, one test at a time.
 * Return: 0, or -EFAULT if the write was refused. A refusal by a protection key
 * neither kills the task nor panics.
 */
int kpkeys_test_write(void *dst, const void *src, size_t size)
{
	int err;

	kpkeys_expect_violation(true);
	err = copy_to_kernel_nofault(dst, src, size);
	kpkeys_expect_violation(false);
	return err;
}

/**
 * kpkeys_test_read() - Try a read that may be refused, for tests.
 * @dst: where to put what was read.
 * @src: the word to read.
 *
 * copy_from_kernel_nofault() would not even try.
 *
 * Context: process context, one test at a time.
 * Return: 0, or -EFAULT if the read was refused, as by kpkeys_test_write().
 */
int kpkeys_test_read(unsigned long *dst, const void *src)
{
	int err = -EFAULT;
	unsigned long value;

	kpkeys_expect_violation(true);
	pagefault_disable();
	/* A read that faults may leave anything there, as GCC 14 has it. */
	__get_kernel_nofault(&value, src, unsigned long, out);
	*dst = value;
	err = 0;
out:
	pagefault_enable();
	kpkeys_expect_violation(false);
	return err;
}

/**
 * kpkeys_violation_is_expected() - Does a test cause the current violation?
 *
 * Return: true if the fault handler may use the fixup of the access.
 */
bool kpkeys_violation_is_expected(void)
{
	return READ_ONCE(violation_expected_of) == current;
}
#endif

/**
 * kpkeys_violation_panics() - Does a violation stop the machine?
 *
 * Return: true with kpkeys.violation=panic, unless a test causes it.
 */
bool kpkeys_violation_panics(void)
{
	return violation_panics && !kpkeys_violation_is_expected();
}

/**
 * kpkeys_report_violation() - Count and print a refused access.
 * @violation: the access.
 *
 * The fault handler calls it before kpkeys_violation_die().
 */
void kpkeys_report_violation(const struct kpkeys_violation *violation)
{
	kpkeys_stat_add(KPKEYS_STAT_VIOLATIONS, 1);
	pr_alert("violation: %s 0x%lx (pkey %d) at level %s, ip %pS, %s[%d]\n",
		 violation->is_read ? "read of" : "write to", violation->addr,
		 violation->pkey,
		 kpkeys_level_name(violation->pkey_reg), (void *)violation->ip,
		 current->comm, task_pid_nr(current));
}

/**
 * kpkeys_violation_refused() - Count and print something else that was refused.
 * @fmt: what it was.
 *
 * Context: any. Printing is deferred, as the scheduler may hold its locks.
 */
void kpkeys_violation_refused(const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	kpkeys_stat_add(KPKEYS_STAT_VIOLATIONS, 1);
	va_start(args, fmt);
	vaf.va = &args;
	scoped_guard(irqsave) {
		printk_deferred_enter();
		pr_alert("violation: %pV, %s[%d]\n", &vaf, current->comm,
			 task_pid_nr(current));
		printk_deferred_exit();
	}
	va_end(args);
	if (kpkeys_violation_panics())
		panic("kpkeys: violation");
}

static void kpkeys_kill_now(struct callback_head *work)
{
	kfree(work);
	force_fatal_sig(SIGKILL);
}

/**
 * kpkeys_violation_kill() - Kill the current process before it goes on.
 *
 * Not at once: the caller may hold the lock of its signals.
 *
 * Context: any. Does nothing to threads of the kernel, and where a test expects
 * the violation.
 */
void kpkeys_violation_kill(void)
{
	struct callback_head *work;

	if (!in_task() || current->flags & PF_KTHREAD || kpkeys_violation_is_expected())
		return;
	work = kzalloc_obj(*work, GFP_ATOMIC);
	if (!work)
		panic("kpkeys: no memory to kill a process with\n");
	init_task_work(work, kpkeys_kill_now);
	if (task_work_add(current, work, TWA_RESUME))
		kfree(work);
}

/**
 * kpkeys_violation_die() - Apply kpkeys.violation= to the current task.
 * @regs: registers at the violation, or NULL if they have been printed.
 * @code: error code or syndrome of the fault.
 *
 * There is no "warn and go on": levels are compile-time constants, so a refused
 * access is an attack or a missed page table writer, and an attacker only has to
 * try twice if the second one passes. An instruction with a fixup is no
 * exception: the attacker would get an error and retry.
 *
 * Context: the stack of the task that did it, at the default level.
 */
void __noreturn kpkeys_violation_die(struct pt_regs *regs, unsigned long code)
{
	if (violation_panics) {
		if (regs)
			show_regs(regs);
		panic("kpkeys: violation");
	}
	arch_kpkeys_die(regs, code);
	/* A debugger may have asked to go on. */
	make_task_dead(SIGSEGV);
}

/**
 * kpkeys_level_leaked() - Warn that a level was not lowered in time.
 *
 * The caller has lowered it. Only a bug leaves the level raised, and the level
 * must not outlive the system call that raised it.
 *
 * Context: return to user space, interrupts off.
 */
void kpkeys_level_leaked(void)
{
	WARN(1, "kpkeys: the level was still raised\n");
}

/* === Debugging ========================================================== */

#ifdef CONFIG_KPKEYS_DEBUG
/**
 * kpkeys_assert_default() - Warn unless a register value is the default.
 * @pkey_reg: a value of the pkey register.
 */
void kpkeys_assert_default(u64 pkey_reg)
{
	WARN(pkey_reg != arch_kpkeys_level_reg(KPKEYS_LVL_DEFAULT),
	     "kpkeys: level %s (0x%llx) where the default is required\n",
	     kpkeys_level_name(pkey_reg), pkey_reg);
}

/**
 * kpkeys_assert_current_default() - Warn unless this CPU is at the default.
 *
 * Called on allocation, context switch, kernel entry and exit.
 */
void kpkeys_assert_current_default(void)
{
	if (arch_kpkeys_enabled())
		kpkeys_assert_default(arch_kpkeys_read_reg());
}
EXPORT_SYMBOL(kpkeys_assert_current_default);
#endif
