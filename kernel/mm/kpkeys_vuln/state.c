// SPDX-License-Identifier: GPL-2.0-only
/* Leaks about variables of the kernel and about pipes. */
#include <linux/file.h>
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/pipe_fs_i.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

int kpkeys_vuln_leak_symbol(void __user *arg)
{
	struct kpkeys_vuln_symbol s;
	char c;

	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;
	s.name[sizeof(s.name) - 1] = '\0';

	s.addr = kallsyms_lookup_name(s.name);
	s.page = 0;
	/* arm64 maps its data once, at the address of the image. */
	if (s.addr && !get_kernel_nofault(c, (char *)lm_alias(s.addr)))
		s.page = (unsigned long)virt_to_page(lm_alias(s.addr));
	return copy_to_user(arg, &s, sizeof(s)) ? -EFAULT : 0;
}

int kpkeys_vuln_leak_pipe(void __user *arg)
{
	struct pipe_inode_info *pipe;
	struct kpkeys_vuln_pipe p;

	if (copy_from_user(&p, arg, sizeof(p)))
		return -EFAULT;

	CLASS(fd, f)(p.fd);
	if (fd_empty(f))
		return -EBADF;
	pipe = get_pipe_info(fd_file(f), false);
	if (!pipe)
		return -EINVAL;
	p.buffer = (unsigned long)pipe_buf(pipe, pipe->tail);
	return copy_to_user(arg, &p, sizeof(p)) ? -EFAULT : 0;
}
