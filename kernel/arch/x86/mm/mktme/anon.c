// SPDX-License-Identifier: GPL-2.0-only
/* mktme_anon=: all anonymous memory under one KeyID, for measurements. */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mktme.h>

#include "keys.h"

static unsigned int anon_wanted __initdata;

static int __init mktme_anon_parse(char *text)
{
	return text ? kstrtouint(text, 10, &anon_wanted) : -EINVAL;
}
early_param("mktme_anon", mktme_anon_parse);

/* Runs before there are processes. */
static int __init mktme_anon_init(void)
{
	int keyid = 0;

	if (!anon_wanted)
		return 0;
	/* Lower KeyIDs stay reserved and unused. */
	while (keyid >= 0 && keyid < anon_wanted)
		keyid = mktme_nr_keyids() ? mktme_reserve_keyid() : -ENOSPC;
	if (keyid < 0) {
		pr_err("mktme_anon=%u: there is no such KeyID\n", anon_wanted);
		return 0;
	}
	mktme_key_set_anon(keyid);
	pr_info("all anonymous memory is under KeyID %u\n", keyid);
	return 0;
}
core_initcall(mktme_anon_init);
