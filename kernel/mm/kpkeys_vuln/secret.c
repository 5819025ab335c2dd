// SPDX-License-Identifier: GPL-2.0-only
/*
 * A secret in kernel memory, and a policy page that says who may read it: the
 * target of attacks on kernel page tables. The policy page is mapped by
 * vmalloc, and only accessed through that mapping.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/vmalloc.h>

#include <asm/tlbflush.h>

#include "internal.h"

static DEFINE_MUTEX(secret_lock);
static struct kpkeys_vuln_secret secret;
static struct kpkeys_vuln_policy *policy;

int __init kpkeys_vuln_secret_init(void)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return -ENOMEM;

	policy = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	if (!policy) {
		__free_page(page);
		return -ENOMEM;
	}
	/* UML maps the page at the first access. */
	WRITE_ONCE(policy->reader_uid, 0);
	return 0;
}

unsigned long kpkeys_vuln_policy_addr(void)
{
	return (unsigned long)policy;
}

int kpkeys_vuln_secret_set(void __user *arg)
{
	struct kpkeys_vuln_secret s;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;

	guard(mutex)(&secret_lock);
	secret = s;
	return 0;
}

int kpkeys_vuln_secret_get(void __user *arg)
{
	struct kpkeys_vuln_secret s;

	if (!uid_eq(make_kuid(&init_user_ns, READ_ONCE(policy->reader_uid)),
		    current_uid()))
		return -EACCES;

	scoped_guard(mutex, &secret_lock) {
		s = secret;
	}
	return copy_to_user(arg, &s, sizeof(s)) ? -EFAULT : 0;
}

int kpkeys_vuln_flush(void)
{
	unsigned long addr = (unsigned long)policy;

	flush_tlb_kernel_range(addr, addr + PAGE_SIZE);
	return 0;
}
