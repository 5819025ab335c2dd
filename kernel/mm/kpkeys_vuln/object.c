// SPDX-License-Identifier: GPL-2.0-only
/*
 * The use-after-free of the vulnerable test driver: pages that stay readable
 * and writable through the driver after they went back to the page allocator.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "../page_alloc.h"
#include "internal.h"

static int obj_alloc(struct kpkeys_vuln_objs *objs, unsigned int i,
		     unsigned int order)
{
	if (objs->page[i] && !objs->freed[i])
		return -EBUSY;

	objs->page[i] = (u64 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, order);
	objs->order[i] = order;
	objs->freed[i] = false;
	return objs->page[i] ? 0 : -ENOMEM;
}

static int obj_free(struct kpkeys_vuln_objs *objs, unsigned int i)
{
	if (!objs->page[i] || objs->freed[i])
		return -EINVAL;

	/* The bug: the pointer stays usable. */
	objs->freed[i] = true;
	free_pages((unsigned long)objs->page[i], objs->order[i]);
	/* Lists of CPUs may hold them for long: an attacker would wait. */
	drain_all_pages(NULL);
	return 0;
}

int kpkeys_vuln_obj_ioctl(struct kpkeys_vuln_objs *objs, unsigned int cmd,
			  void __user *arg)
{
	struct kpkeys_vuln_obj o;
	u64 *where;

	if (copy_from_user(&o, arg, sizeof(o)))
		return -EFAULT;
	if (o.index >= KPKEYS_VULN_OBJS || o.order > MAX_PAGE_ORDER)
		return -EINVAL;

	if (cmd == KPKEYS_VULN_OBJ_ALLOC)
		return obj_alloc(objs, o.index, o.order);
	if (cmd == KPKEYS_VULN_OBJ_FREE)
		return obj_free(objs, o.index);

	if (!objs->page[o.index] || o.offset % sizeof(u64) ||
	    o.offset >= PAGE_SIZE << objs->order[o.index])
		return -EINVAL;
	where = objs->page[o.index] + o.offset / sizeof(u64);

	if (cmd == KPKEYS_VULN_OBJ_WRITE) {
		kpkeys_vuln_store(where, o.value);
		return 0;
	}
	o.value = READ_ONCE(*where);
	return copy_to_user(arg, &o, sizeof(o)) ? -EFAULT : 0;
}

void kpkeys_vuln_obj_release(struct kpkeys_vuln_objs *objs)
{
	unsigned int i;

	for (i = 0; i < KPKEYS_VULN_OBJS; i++)
		if (objs->page[i] && !objs->freed[i])
			free_pages((unsigned long)objs->page[i], objs->order[i]);
}
