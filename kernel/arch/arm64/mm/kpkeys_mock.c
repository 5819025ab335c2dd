// SPDX-License-Identifier: GPL-2.0-only
/*
 * A register without effect in the place of POR_EL1, for tests on CPUs without
 * permission overlays.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kpkeys.h>
#include <linux/printk.h>

#include <asm/cpufeature.h>
#include <asm/kpkeys_mock.h>

DEFINE_STATIC_KEY_FALSE_RO(arm64_kpkeys_mock_key);
/* Page table helpers are inlined into modules. */
EXPORT_SYMBOL(arm64_kpkeys_mock_key);

static bool kpkeys_mock __initdata;

static int __init kpkeys_mock_early(char *arg)
{
	kpkeys_mock = true;
	return 0;
}
early_param("kpkeys_mock", kpkeys_mock_early);

static bool __init kpkeys_mock_has_sme(void)
{
	u64 pfr1 = read_sanitised_ftr_reg(SYS_ID_AA64PFR1_EL1);

	return cpuid_feature_extract_unsigned_field(pfr1,
						    ID_AA64PFR1_EL1_SME_SHIFT);
}

/**
 * arm64_kpkeys_mock_init() - Replace POR_EL1 by TPIDR2_EL0 if asked for.
 *
 * Context: boot, one CPU, its features are known.
 */
void __init arm64_kpkeys_mock_init(void)
{
	if (!kpkeys_mock)
		return;
	if (!kpkeys_mock_has_sme()) {
		pr_warn("kpkeys_mock: the CPU has no register to pretend with (SME)\n");
		return;
	}

	pr_warn("kpkeys_mock protects nothing\n");
	arm64_kpkeys_name = "a mock: nothing is protected";
	static_branch_enable(&arm64_kpkeys_mock_key);
}
