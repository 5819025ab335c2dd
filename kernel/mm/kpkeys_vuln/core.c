// SPDX-License-Identifier: GPL-2.0-only
/*
 * A deliberately vulnerable driver, for tests only.
 *
 * It gives an unprivileged program what a memory-safety bug would give: a write
 * of eight bytes anywhere in the kernel, and the addresses to aim at. Tests use
 * it to show that protected page tables withstand that write.
 */
#define pr_fmt(fmt) "kpkeys_vuln: " fmt

#include <linux/cache.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/moduleparam.h>
#include <linux/panic.h>
#include <linux/printk.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

static bool kpkeys_vuln_enabled __ro_after_init;
core_param(kpkeys_vuln, kpkeys_vuln_enabled, bool, 0);

/*
 * A plain store, as a bug in ordinary code would do it. A store with a fault
 * handler would turn "the attacker died" into "the attacker got an error".
 * Callers hold no lock, because the task may die here.
 */
noinline void kpkeys_vuln_store(u64 *where, u64 value)
{
	WRITE_ONCE(*where, value);
}

static int kpkeys_vuln_write(void __user *arg)
{
	struct kpkeys_vuln_write w;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;

	kpkeys_vuln_store((u64 *)(unsigned long)w.addr, w.value);
	return 0;
}

/*
 * The same store, as a bug in code that tolerates faults would do it. The list
 * is read one element at a time: it may be anywhere, and change meanwhile.
 */
static int kpkeys_vuln_writes(void __user *arg)
{
	struct kpkeys_vuln_write __user *list;
	struct kpkeys_vuln_writes l;
	struct kpkeys_vuln_write w;
	u64 i;

	if (copy_from_user(&l, arg, sizeof(l)))
		return -EFAULT;
	list = (void __user *)(unsigned long)l.list;

	for (i = 0; i < l.count && !fatal_signal_pending(current); i++) {
		if (copy_from_user(&w, &list[i], sizeof(w)))
			return -EFAULT;
		if (copy_to_kernel_nofault((void *)(unsigned long)w.addr,
					   &w.value, sizeof(w.value)))
			return -EACCES;
	}
	return 0;
}

static int kpkeys_vuln_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc_obj(struct kpkeys_vuln_objs);
	return file->private_data ? 0 : -ENOMEM;
}

static int kpkeys_vuln_release(struct inode *inode, struct file *file)
{
	kpkeys_vuln_obj_release(file->private_data);
	kfree(file->private_data);
	return 0;
}

static long kpkeys_vuln_ioctl(struct file *file, unsigned int cmd,
			      unsigned long param)
{
	void __user *arg = (void __user *)param;

	switch (cmd) {
	case KPKEYS_VULN_INFO:
		return kpkeys_vuln_leak_info(arg);
	case KPKEYS_VULN_WRITE:
		return kpkeys_vuln_write(arg);
	case KPKEYS_VULN_ENTRY:
		return kpkeys_vuln_leak_entry(arg);
	case KPKEYS_VULN_FILE:
		return kpkeys_vuln_leak_file(arg);
	case KPKEYS_VULN_CRED:
		return kpkeys_vuln_leak_cred(arg);
	case KPKEYS_VULN_TASK:
		return kpkeys_vuln_leak_task(arg);
	case KPKEYS_VULN_REG:
		return kpkeys_vuln_leak_reg(arg);
	case KPKEYS_VULN_OBJ_ALLOC:
	case KPKEYS_VULN_OBJ_FREE:
	case KPKEYS_VULN_OBJ_READ:
	case KPKEYS_VULN_OBJ_WRITE:
		return kpkeys_vuln_obj_ioctl(file->private_data, cmd, arg);
	case KPKEYS_VULN_SECRET_SET:
		return kpkeys_vuln_secret_set(arg);
	case KPKEYS_VULN_SECRET_GET:
		return kpkeys_vuln_secret_get(arg);
	case KPKEYS_VULN_FLUSH:
		return kpkeys_vuln_flush();
	case KPKEYS_VULN_ASI_MAP:
		return kpkeys_vuln_asi_map(arg);
	case KPKEYS_VULN_MM:
		return kpkeys_vuln_leak_mm(arg);
	case KPKEYS_VULN_READ:
		return kpkeys_vuln_leak_word(arg);
	case KPKEYS_VULN_FRAME:
		return kpkeys_vuln_leak_frame(arg);
	case KPKEYS_VULN_WRITES:
		return kpkeys_vuln_writes(arg);
	case KPKEYS_VULN_LAZY:
		return kpkeys_vuln_leak_lazy(arg);
	case KPKEYS_VULN_SYMBOL:
		return kpkeys_vuln_leak_symbol(arg);
	case KPKEYS_VULN_PIPE:
		return kpkeys_vuln_leak_pipe(arg);
	case KPKEYS_VULN_KEY:
		return kpkeys_vuln_leak_key(arg);
	case KPKEYS_VULN_PTRAUTH:
		return kpkeys_vuln_leak_ptrauth(arg);
	case KPKEYS_VULN_GUEST:
		return kpkeys_vuln_leak_guest(arg);
	case KPKEYS_VULN_BPF:
		return kpkeys_vuln_bpf(arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations kpkeys_vuln_fops = {
	.open = kpkeys_vuln_open,
	.release = kpkeys_vuln_release,
	.unlocked_ioctl = kpkeys_vuln_ioctl,
	.llseek = noop_llseek,
};

static int __init kpkeys_vuln_init(void)
{
	struct dentry *dir;
	int err;

	if (!kpkeys_vuln_enabled)
		return 0;

	err = kpkeys_vuln_secret_init();
	if (err)
		return err;

	add_taint(TAINT_TEST, LOCKDEP_STILL_OK);
	pr_alert("*** DELIBERATELY VULNERABLE TEST DRIVER ENABLED: whoever opens debugfs kpkeys_vuln/ctl owns this kernel ***\n");

	/*
	 * "unsafe" because the usual wrapper counts the operations in progress,
	 * and a task that is killed inside one never ends it. Nothing removes
	 * the file.
	 */
	dir = debugfs_create_dir("kpkeys_vuln", NULL);
	debugfs_create_file_unsafe("ctl", 0600, dir, NULL, &kpkeys_vuln_fops);
	return 0;
}
late_initcall(kpkeys_vuln_init);
