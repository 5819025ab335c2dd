// SPDX-License-Identifier: GPL-2.0-only
/*
 * Variables with __kpkeys_state: read-only at the default level.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_state.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/uidgid.h>

#include "kpkeys.h"

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_state_key);

kpkeys_boot_switch(enable, "kpkeys_hardened_state");

/**
 * kpkeys_state_copy() - Write to variables with __kpkeys_state.
 * @dst: the variable, or a part of it.
 * @src: the new contents, in ordinary memory.
 * @size: number of bytes, at most a page.
 *
 * Refuses to write to anything else: the caller may have got its pointer from
 * memory that an attacker wrote to.
 *
 * Context: any but NMIs. Interrupts are off meanwhile, lest the pointers lie on
 * the stack while another task writes to it.
 */
void kpkeys_state_copy(void *dst, const void *src, size_t size)
{
	if (!kpkeys_is_state(dst, size) || size > PAGE_SIZE) {
		kpkeys_violation_refused("%zu bytes at 0x%lx are no state", size,
					 (unsigned long)dst);
		return;
	}
	if (!kpkeys_hardened_state_enabled()) {
		kpkeys_store(dst, src, size);
		return;
	}

	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_STATE);
	kpkeys_store(dst, src, size);
	kpkeys_lower();
}

/**
 * kpkeys_state_copy_by_root() - Write to variables with __kpkeys_state as root.
 * @dst: as for kpkeys_state_copy().
 * @src: as for kpkeys_state_copy().
 * @size: as for kpkeys_state_copy().
 *
 * For code that has checked permissions for what @dst was said to be, as sysctl
 * does for its tables: their users may own a namespace, or a forged pointer.
 *
 * Context: as for kpkeys_state_copy(), and process context.
 */
void kpkeys_state_copy_by_root(void *dst, const void *src, size_t size)
{
	if (!uid_eq(current_euid(), GLOBAL_ROOT_UID)) {
		kpkeys_violation_refused("write to state at 0x%lx by another than root",
					 (unsigned long)dst);
		return;
	}
	kpkeys_state_copy(dst, src, size);
}

/**
 * kpkeys_hardened_state_init() - Start protecting variables with __kpkeys_state.
 *
 * Context: boot, one CPU. Page tables are protected.
 */
void __init kpkeys_hardened_state_init(void)
{
	unsigned long start = (unsigned long)lm_alias(__kpkeys_state_start);
	int nr = (__kpkeys_state_end - __kpkeys_state_start) / PAGE_SIZE;
	int err;

	if (!enable) {
		pr_info("state not hardened: disabled by kpkeys_hardened_state=off\n");
		return;
	}

	static_branch_enable(&kpkeys_hardened_state_key);
	err = kpkeys_tag_early(start, nr, KPKEYS_PKEY_STATE);
	if (err) {
		/* A page that stays tagged can still be written as state. */
		pr_err("state not hardened: cannot tag it: %pe\n", ERR_PTR(err));
		return;
	}
	pr_info("state hardened (pkey %d, %d pages)\n", KPKEYS_PKEY_STATE, nr);
}
