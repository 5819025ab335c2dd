// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time operations on page tables, inside the kernel.
 *
 * Writing "WORKLOAD SIZE OPS" to kpkeys_bench/run in debugfs takes one sample,
 * and reading the file shows it. SIZE is in bytes, or in pages for workloads on
 * kernel page tables.
 *
 * A kernel thread with an mm of its own does the work and never returns to user
 * space: on UML that would take thousands of host system calls. Creating and
 * killing the host process of each mm stays outside the timed regions as well.
 */
#define pr_fmt(fmt) "kpkeys_bench: " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "bench.h"

static const struct kbench_workload workloads[] = {
	{ "nothing", kbench_nothing },
	{ "switch", kbench_switch },
	{ "interrupt", kbench_interrupt },
	{ "fork", kbench_fork },
	{ "exit", kbench_exit },
	{ "munmap", kbench_munmap },
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	{ "fork-large", kbench_fork_large },
	{ "munmap-large", kbench_munmap_large },
#endif
	{ "fault", kbench_faults },
	{ "mprotect", kbench_mprotect },
	{ "exec-exit", kbench_exec_exit },
	{ "vmalloc", kbench_vmalloc },
	{ "vmalloc-random", kbench_vmalloc_random },
	{ "vm_map_ram", kbench_vm_map_ram },
#if defined(CONFIG_X86) || defined(CONFIG_ARM64)
	{ "flush-page", kbench_flush_page },
	{ "keep-root", kbench_keep_root },
#endif
#ifdef CONFIG_X86
	{ "load-root", kbench_load_root },
	{ "ibpb", kbench_ibpb },
#endif
};

/* Protects the last sample, and serialises samples. */
static DEFINE_MUTEX(lock);
static struct kbench_run last;

/**
 * kbench_pause() - Reschedule between operations.
 *
 * Context: the thread of a sample, outside timed regions.
 * Return: 0, or -EINTR if the writer of the file was interrupted.
 */
int kbench_pause(void)
{
	cond_resched();
	return kthread_should_stop() ? -EINTR : 0;
}

static int thread(void *data)
{
	struct kbench_run *run = data;
	int err = run->workload->run(run);

	complete(&run->done);
	return err;
}

static int take_sample(struct kbench_run *run)
{
	struct task_struct *task;
	int err;

	init_completion(&run->done);
	task = kthread_create(thread, run, "kpkeys_bench");
	if (IS_ERR(task))
		return PTR_ERR(task);

	get_task_struct(task);
	wake_up_process(task);
	/* kthread_stop_put() returns the result of a finished thread. */
	err = wait_for_completion_interruptible(&run->done);
	return kthread_stop_put(task) ?: err;
}

static const struct kbench_workload *find_workload(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(workloads); i++)
		if (!strcmp(workloads[i].name, name))
			return &workloads[i];
	return NULL;
}

static ssize_t run_write(struct file *file, const char __user *ubuf,
			 size_t count, loff_t *ppos)
{
	struct kbench_run run = {};
	char buf[64], name[16], rest;
	int err;

	if (count >= sizeof(buf))
		return -EINVAL;
	if (copy_from_user(buf, ubuf, count))
		return -EFAULT;
	buf[count] = '\0';
	if (sscanf(buf, "%15s %lu %u %c", name, &run.size, &run.ops,
		   &rest) != 3)
		return -EINVAL;
	run.workload = find_workload(name);
	if (!run.workload || !run.ops)
		return -EINVAL;

	err = mutex_lock_interruptible(&lock);
	if (err)
		return err;
	err = take_sample(&run);
	/* A failed sample also discards the previous one. */
	last = err ? (struct kbench_run){} : run;
	mutex_unlock(&lock);
	return err ?: count;
}

static int run_show(struct seq_file *m, void *unused)
{
	guard(mutex)(&lock);
	if (!last.workload)
		return -ENODATA;
	kbench_show(m, &last);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_fops = {
	.open = run_open,
	.read = seq_read,
	.write = run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init kbench_init(void)
{
	debugfs_create_file("run", 0600,
			    debugfs_create_dir("kpkeys_bench", NULL), NULL,
			    &run_fops);
	return 0;
}
late_initcall(kbench_init);
