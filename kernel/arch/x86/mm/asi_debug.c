// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: debugfs files for tests.
 *
 * Root writes "PID ADDRESS stay" or "PID ADDRESS leave" to asi/probe, and the
 * kernel reads a byte of that process through the direct map, as if an attacker
 * had made it do so. The read may leave the restricted address space, or must
 * not. Reading the file shows the result.
 *
 * A number written to asi/nmis sends each CPU so many NMIs, which access memory
 * that is not in the restricted address space.
 */
#include <linux/asi.h>
#include <linux/cpu.h>
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/apic.h>
#include <asm/asi.h>
#include <asm/nmi.h>

/* === asi/probe ============================================================ */

static struct probe {
	long error;
	unsigned long exits;
	u8 value;
} last;

static DEFINE_MUTEX(last_lock);

static unsigned long asi_count_faults(void)
{
	return this_cpu_read(asi_switches[ASI_EXIT_FAULT]);
}

/* With interrupts off, so that no handler leaves. */
static void asi_probe_read(const u8 *addr, bool stay, struct probe *probe)
{
	unsigned long before;

	guard(irqsave)();
	asi_enter();
	before = asi_count_faults();
	this_cpu_write(asi_stay, stay);
	probe->error = copy_from_kernel_nofault(&probe->value, addr, 1);
	this_cpu_write(asi_stay, false);
	probe->exits = asi_count_faults() - before;
}

static long asi_probe_process(pid_t pid, unsigned long addr, bool stay,
			      struct probe *probe)
{
	struct task_struct *task;
	struct mm_struct *mm;
	struct page *page;
	int locked = 1;
	long nr;

	task = find_get_task_by_vpid(pid);
	if (!task)
		return -ESRCH;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return -ESRCH;

	mmap_read_lock(mm);
	nr = get_user_pages_remote(mm, addr, 1, 0, &page, &locked);
	if (locked)
		mmap_read_unlock(mm);
	mmput(mm);
	if (nr != 1)
		return nr < 0 ? nr : -EFAULT;

	asi_probe_read((u8 *)page_address(page) + offset_in_page(addr), stay,
		       probe);
	put_page(page);
	return 0;
}

static ssize_t asi_probe_write(struct file *file, const char __user *from,
			       size_t size, loff_t *pos)
{
	struct probe probe = {};
	unsigned long addr;
	char words[64], how[8];
	pid_t pid;
	long err;

	/* Only a process has a restricted address space. */
	if (!current->mm)
		return -EINVAL;
	if (size >= sizeof(words))
		return -EINVAL;
	if (copy_from_user(words, from, size))
		return -EFAULT;
	words[size] = 0;
	if (sscanf(words, "%d %lx %7s", &pid, &addr, how) != 3)
		return -EINVAL;
	if (strcmp(how, "stay") && strcmp(how, "leave"))
		return -EINVAL;

	err = asi_probe_process(pid, untagged_addr(addr), !strcmp(how, "stay"),
				&probe);
	if (err)
		return err;
	scoped_guard(mutex, &last_lock)
		last = probe;
	return size;
}

static int asi_probe_show(struct seq_file *m, void *unused)
{
	guard(mutex)(&last_lock);
	seq_printf(m, "error %ld\nexits %lu\nvalue 0x%02x\n", last.error,
		   last.exits, last.value);
	return 0;
}

static int asi_probe_open(struct inode *inode, struct file *file)
{
	return single_open(file, asi_probe_show, NULL);
}

static const struct file_operations asi_probe_fops = {
	.owner		= THIS_MODULE,
	.open		= asi_probe_open,
	.read		= seq_read,
	.write		= asi_probe_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/* === asi/nmis ============================================================= */

/* Time for an NMI to arrive and be handled. */
#define NMI_US		20

static DEFINE_MUTEX(nmis_lock);
static DEFINE_PER_CPU(bool, nmi_sent);
static const u8 *nmi_reads;

static int asi_nmi_read(unsigned int type, struct pt_regs *regs)
{
	if (!this_cpu_read(nmi_sent))
		return NMI_DONE;
	this_cpu_write(nmi_sent, false);
	(void)READ_ONCE(*nmi_reads);
	return NMI_HANDLED;
}

static int asi_send_nmis(u64 nr)
{
	int cpu;

	/* CPUs that went offline may have lost theirs. */
	for_each_possible_cpu(cpu)
		per_cpu(nmi_sent, cpu) = false;

	while (nr--) {
		if (fatal_signal_pending(current))
			return -EINTR;
		guard(cpus_read_lock)();
		for_each_online_cpu(cpu) {
			/* The CPU would merge two pending NMIs. */
			if (per_cpu(nmi_sent, cpu))
				continue;
			per_cpu(nmi_sent, cpu) = true;
			__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
		}
		udelay(NMI_US);
		cond_resched();
	}
	return 0;
}

static int asi_nmis_set(void *unused, u64 nr)
{
	struct page *page = alloc_page(GFP_HIGHUSER);
	int err;

	if (!page)
		return -ENOMEM;
	guard(mutex)(&nmis_lock);
	nmi_reads = page_address(page);
	err = register_nmi_handler(NMI_LOCAL, asi_nmi_read, 0, "asi_nmis");
	if (!err) {
		err = asi_send_nmis(nr);
		/* Wait for the last ones. */
		msleep(20);
		unregister_nmi_handler(NMI_LOCAL, "asi_nmis");
	}
	__free_page(page);
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(asi_nmis_fops, NULL, asi_nmis_set, "%llu\n");

static int __init asi_debug_init(void)
{
	struct dentry *dir;

	if (!asi_enabled())
		return 0;

	dir = debugfs_lookup("asi", NULL);
	debugfs_create_file("probe", 0600, dir, NULL, &asi_probe_fops);
	debugfs_create_file_unsafe("nmis", 0200, dir, NULL, &asi_nmis_fops);
	dput(dir);
	return 0;
}
late_initcall_sync(asi_debug_init);
