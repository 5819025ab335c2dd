// SPDX-License-Identifier: GPL-2.0-only
/*
 * System calls and key descriptors. See Documentation/userspace-api/mktme.rst.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mktme.h>
#include <linux/mman.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>

#include <uapi/asm/mktme.h>

#include "keys.h"
#include "mktme.h"

/* vm.mktme_unprivileged_keys: allow keys, which are few, without privilege. */
static int unprivileged_keys;

/* === Descriptors ======================================================== */

static int mktme_fd_release(struct inode *inode, struct file *file)
{
	mktme_key_put(file->private_data);
	return 0;
}

static long mktme_fd_ioctl(struct file *file, unsigned int command,
			   unsigned long arg)
{
	return command == MKTME_KEY_REVOKE ?
		mktme_key_revoke(file->private_data) : -ENOTTY;
}

static void mktme_fd_show_info(struct seq_file *m, struct file *file)
{
	const struct mktme_key *key = file->private_data;

	seq_printf(m, "mktme-keyid:\t%u\n", mktme_key_keyid(key));
	seq_printf(m, "mktme-algorithm:\t%u\n", mktme_key_algorithm(key));
	seq_printf(m, "mktme-revoked:\t%d\n", mktme_key_revoked(key));
}

static const struct file_operations mktme_fd_fops = {
	.owner = THIS_MODULE,
	.release = mktme_fd_release,
	.unlocked_ioctl = mktme_fd_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.show_fdinfo = mktme_fd_show_info,
	.llseek = noop_llseek,
};

/* === mktme_key_create() ================================================= */

static int mktme_read_key(struct mktme_key_spec *spec,
			  const struct mktme_key_args *args)
{
	u32 half = spec->algorithm == MKTME_AES_XTS_256 ? 32 : 16;
	const u8 __user *key = u64_to_user_ptr(args->key);

	spec->random = !args->key;
	if (args->key_size != (spec->random ? 0 : 2 * half))
		return -EINVAL;
	if (spec->random)
		return 0;
	if (copy_from_user(spec->data_key, key, half) ||
	    copy_from_user(spec->tweak_key, key + half, half))
		return -EFAULT;
	return 0;
}

static int mktme_read_spec(struct mktme_key_spec *spec,
			   struct mktme_key_args __user *from, size_t size)
{
	struct mktme_key_args args;
	int err;

	if (size < MKTME_KEY_ARGS_SIZE_VER0 || size > PAGE_SIZE)
		return -EINVAL;
	err = copy_struct_from_user(&args, sizeof(args), from, size);
	if (err)
		return err;
	if (args.flags || args.reserved ||
	    args.algorithm & ~(MKTME_AES_XTS_128 | MKTME_AES_XTS_256) ||
	    hweight32(args.algorithm) > 1)
		return -EINVAL;
	spec->algorithm = mktme_algorithm(args.algorithm);
	if (!spec->algorithm)
		return -EOPNOTSUPP;
	return mktme_read_key(spec, &args);
}

static int mktme_new_fd(const struct mktme_key_spec *spec)
{
	struct mktme_key *key = mktme_key_new(spec);
	int fd;

	if (IS_ERR(key))
		return PTR_ERR(key);
	fd = anon_inode_getfd("[mktme]", &mktme_fd_fops, key,
			      O_RDWR | O_CLOEXEC);
	if (fd < 0)
		mktme_key_put(key);
	return fd;
}

/*
 * Create a memory encryption key, which occupies a KeyID. It lives as long as
 * its descriptors and memory.
 */
SYSCALL_DEFINE2(mktme_key_create, struct mktme_key_args __user *, args,
		size_t, size)
{
	struct mktme_key_spec spec = { };
	int ret;

	if (!mktme_nr_keyids())
		return -EOPNOTSUPP;
	if (!READ_ONCE(unprivileged_keys) && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	ret = mktme_read_spec(&spec, args, size);
	if (!ret)
		ret = mktme_new_fd(&spec);
	memzero_explicit(&spec, sizeof(spec));
	return ret;
}

/* === mktme_mprotect() =================================================== */

/*
 * mprotect(), and encrypt the memory with a key. The memory must not have been
 * used yet.
 */
SYSCALL_DEFINE4(mktme_mprotect, unsigned long, start, size_t, len,
		unsigned long, prot, int, fd)
{
	const struct mktme_key *key;
	int err;

	CLASS(fd, f)(fd);

	if (fd_empty(f))
		return -EBADF;
	if (fd_file(f)->f_op != &mktme_fd_fops)
		return -EINVAL;
	if (prot & ~(unsigned long)(PROT_READ | PROT_WRITE | PROT_EXEC))
		return -EINVAL;

	key = fd_file(f)->private_data;
	if (mktme_key_revoked(key))
		return -EACCES;
	err = mktme_encrypt_range(untagged_addr(start), len,
				  mktme_key_keyid(key));
	return err ? : mktme_mprotect_range(start, len, prot);
}

/* === Permissions ======================================================== */

static const struct ctl_table mktme_sysctls[] = {
	{
		.procname = "mktme_unprivileged_keys",
		.data = &unprivileged_keys,
		.maxlen = sizeof(unprivileged_keys),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = SYSCTL_ZERO,
		.extra2 = SYSCTL_ONE,
	},
};

static int __init mktme_register_sysctls(void)
{
	register_sysctl_init("vm", mktme_sysctls);
	return 0;
}
late_initcall(mktme_register_sysctls);
