// SPDX-License-Identifier: GPL-2.0-only
/*
 * Emulated memory encryption: an emulator backs the addresses of each KeyID
 * with separate memory ("planes") in place of a memory controller.
 *
 * Encrypts nothing. Documentation/arch/x86/mktme.rst says what such a machine
 * needs, and what it cannot show.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/bitfield.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/memory_hotplug.h>
#include <linux/mktme.h>
#include <linux/string.h>

#include <asm/cmdline.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <asm/setup.h>
#include <uapi/asm/mktme.h>

#include "mktme.h"

/* mktme_emul=: number of KeyID bits. */
static unsigned int emulated_bits __ro_after_init;

static u64 mktme_emul_read_msr(u32 msr)
{
	switch (msr) {
	case MSR_IA32_TME_ACTIVATE:
		return TME_ACTIVATE_LOCKED | TME_ACTIVATE_ENABLED |
		       FIELD_PREP(TME_ACTIVATE_ALGORITHMS,
				  MKTME_AES_XTS_128 | MKTME_AES_XTS_256) |
		       FIELD_PREP(TME_ACTIVATE_KEYID_BITS, emulated_bits);
	case MSR_IA32_TME_CAPABILITY:
		return FIELD_PREP(TME_CAPABILITY_MAX_KEYS,
				  BIT(emulated_bits) - 1);
	default:
		return 0;
	}
}

/* Make visible that the contents are lost when the KeyID changes. */
static void mktme_emul_flush(void *addr, size_t size)
{
	memset(addr, 0xee, size);
}

/* Simulate the loss of all data under a KeyID, which no page should have. */
static void mktme_emul_lose_pages(unsigned int keyid)
{
	unsigned long pfn;

	for (pfn = 0; pfn < max_pfn; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || __page_keyid(page) != keyid)
			continue;
		WARN_ONCE(1, "mktme: page %#lx loses the key of KeyID %u\n",
			  pfn, keyid);
		memset(mktme_va(PFN_PHYS(pfn), keyid), 0xc7, PAGE_SIZE);
	}
}

/* Planes have no keys: only simulate that a new key loses the data. */
static int mktme_emul_pconfig(const struct mktme_pconfig *pconfig)
{
	if (!in_range(pconfig->keyid, 1, mktme_nr_keyids()))
		return -EIO;
	mktme_emul_lose_pages(pconfig->keyid);
	mktme_count(MKTME_STAT_PROGRAMMED, 1);
	return 0;
}

static const struct mktme_ops mktme_emul_ops = {
	.name = "emulation",
	.pconfig = mktme_emul_pconfig,
	.read_msr = mktme_emul_read_msr,
	.flush = mktme_emul_flush,
};

static void __init mktme_emul_parse(void)
{
	unsigned int bits;
	char option[8];

	if (cmdline_find_option(boot_command_line, "mktme_emul", option,
				sizeof(option)) < 0)
		return;
	if (kstrtouint(option, 0, &bits) || !in_range(bits, 1, 6)) {
		pr_err("mktme_emul=: 1 to 6 bits of a KeyID\n");
		return;
	}
	emulated_bits = bits;
	mktme_ops = &mktme_emul_ops;
	add_taint(TAINT_TEST, LOCKDEP_STILL_OK);
}

/* mktme_emul_parse() has handled it: it runs before early parameters. */
static int __init mktme_emul_ignore(char *option)
{
	return 0;
}
early_param("mktme_emul", mktme_emul_ignore);

/**
 * mktme_emulate() - Add the TME feature to a CPU if mktme_emul= is given.
 * @c: the CPU.
 *
 * Context: a starting CPU. Called twice for the boot CPU.
 */
void __ref mktme_emulate(struct cpuinfo_x86 *c)
{
	if (c == &boot_cpu_data && !emulated_bits &&
	    !cpu_has(c, X86_FEATURE_TME))
		mktme_emul_parse();
	if (emulated_bits)
		set_cpu_cap(c, X86_FEATURE_TME);
}
