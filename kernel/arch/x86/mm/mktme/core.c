// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multi-key total memory encryption: detection, configuration and activation.
 * See Documentation/arch/x86/mktme.rst.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/asi.h>
#include <linux/bitfield.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mktme_active.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/sizes.h>

#include <asm/cacheflush.h>
#include <asm/cmdline.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <asm/runtime-const.h>
#include <asm/setup.h>

#include "mktme.h"

struct mktme_config mktme_config __ro_after_init;
EXPORT_SYMBOL(mktme_config);

/* KeyID bits in page table entries; 0 if there are none. */
pteval_t mktme_keyid_mask __ro_after_init;
EXPORT_SYMBOL(mktme_keyid_mask);
SYM_PIC_ALIAS(mktme_keyid_mask);

/* Removes the KeyID from an offset into the direct maps, see __pa(). */
unsigned long mktme_pa_mask __ro_after_init = ~0UL;
EXPORT_SYMBOL(mktme_pa_mask);
SYM_PIC_ALIAS(mktme_pa_mask);

DEFINE_STATIC_KEY_FALSE(mktme_in_use);
EXPORT_SYMBOL(mktme_in_use);

/* Value of the boot CPU; all other CPUs must have the same. */
static u64 boot_activate __ro_after_init;
/* Number of detected KeyIDs; the plan may be made twice. */
static unsigned int nr_detected __ro_after_init;
static const char *why_off __ro_after_init =
	"the CPU does not encrypt memory with several keys, or firmware did not enable it";

/* === The hardware ======================================================= */

static u64 mktme_hw_read_msr(u32 msr)
{
	u64 value;

	return rdmsrq_safe(msr, &value) ? 0 : value;
}

static void mktme_hw_flush(void *addr, size_t size)
{
	clflush_cache_range(addr, size);
}

static int mktme_hw_pconfig(const struct mktme_pconfig *pconfig)
{
	unsigned long ret = MKTME_KEY_PROGRAM;
	bool failed;

	if (!boot_cpu_has(X86_FEATURE_PCONFIG))
		return -EIO;
	/* PCONFIG; RBX points to its operand. */
	asm volatile(".byte 0x0f, 0x01, 0xc5"
		     : "+a" (ret), "=@ccz" (failed)
		     : "b" (pconfig), "c" (0UL), "d" (0UL)
		     : "memory");
	if (!failed)
		return 0;
	return ret == MKTME_ENTROPY_ERROR || ret == MKTME_DEVICE_BUSY ? -EBUSY : -EIO;
}

static const struct mktme_ops mktme_hw_ops = {
	.name = "hardware",
	.read_msr = mktme_hw_read_msr,
	.flush = mktme_hw_flush,
	.pconfig = mktme_hw_pconfig,
};

const struct mktme_ops *mktme_ops __ro_after_init = &mktme_hw_ops;

/**
 * mktme_read_msr() - Read an MSR of memory encryption.
 * @msr: its number.
 *
 * Return: its value, or that of the emulation; 0 if the CPU lacks it.
 */
u64 mktme_read_msr(u32 msr)
{
	return mktme_ops->read_msr(msr);
}

/* === Detection ========================================================== */

/**
 * mktme_off() - Disable the use of KeyIDs.
 * @why: the reason, for the log.
 *
 * Context: boot, before there are direct maps.
 */
void __init mktme_off(const char *why)
{
	nr_detected = 0;
	mktme_config.nr_keyids = 0;
	why_off = why;
}

static void __init mktme_detect_boot_cpu(struct cpuinfo_x86 *c, u64 activate)
{
	unsigned int bits = FIELD_GET(TME_ACTIVATE_KEYID_BITS, activate);
	u64 partitioning = 0;

	boot_activate = activate;
	if (cmdline_find_option_bool(boot_command_line, "mktme=off")) {
		mktme_off("mktme=off");
		return;
	}
	if (FIELD_GET(TME_ACTIVATE_TDX_BITS, activate))
		partitioning = mktme_read_msr(MSR_IA32_MKTME_KEYID_PARTITIONING);
	nr_detected = mktme_usable_keyids(activate,
					  mktme_read_msr(MSR_IA32_TME_CAPABILITY),
					  partitioning);
	if (!nr_detected) {
		mktme_off("no KeyID is left for the kernel");
		return;
	}
	mktme_config.keyid_shift = c->x86_phys_bits;
	mktme_keyid_mask = GENMASK_ULL(c->x86_phys_bits + bits - 1,
				       c->x86_phys_bits);
	physical_mask &= ~mktme_keyid_mask;
	runtime_const_init(ptr, physical_mask);
}

/**
 * mktme_detect() - Detect the memory encryption of a CPU.
 * @c: the CPU; the KeyID bits are already subtracted from x86_phys_bits.
 * @activate: its MSR_IA32_TME_ACTIVATE.
 *
 * Context: a starting CPU. Called twice for the boot CPU.
 */
void __ref mktme_detect(struct cpuinfo_x86 *c, u64 activate)
{
	if (!boot_activate)
		mktme_detect_boot_cpu(c, activate);
	else if (activate != boot_activate)
		pr_err_once("CPUs encrypt memory in different ways: data under a KeyID is not safe\n");
}

/* mktme_detect_boot_cpu() has handled it: it runs before early parameters. */
static int __init mktme_ignore_option(char *option)
{
	return 0;
}
early_param("mktme", mktme_ignore_option);

/* === Plan =============================================================== */

/**
 * mktme_plan_direct_map() - Reserve room for the direct maps of all KeyIDs.
 * @end: last physical address that a direct map should cover, one less than a
 *	power of two.
 *
 * May be called again with another @end.
 *
 * Context: boot, after max_pfn is known.
 * Return: last physical address that each direct map covers.
 */
unsigned long __init mktme_plan_direct_map(unsigned long end)
{
	if (nr_detected && asi_requested())
		mktme_off("address space isolation is on");
	if (!nr_detected)
		return end;

	mktme_config.nr_keyids = nr_detected;
	mktme_plan(&mktme_config, end + 1, PFN_PHYS(max_pfn),
		   1UL << MAX_PHYSMEM_BITS);
	mktme_pa_mask = mktme_offset_mask(&mktme_config);
	if (!mktme_config.nr_keyids) {
		mktme_off("no room for a second direct map");
		return end;
	}
	return mktme_config.map_size - 1;
}

/**
 * mktme_direct_maps_tb() - mktme_plan_direct_map() for memory KASLR.
 * @size_tb: size that a direct map should have, in TB.
 *
 * Context: as for mktme_plan_direct_map().
 * Return: total size of the direct maps, in TB.
 */
unsigned long __init mktme_direct_maps_tb(unsigned long size_tb)
{
	mktme_plan_direct_map(size_tb * SZ_1T - 1);
	if (!mktme_config.nr_keyids)
		return size_tb;
	return DIV_ROUND_UP(mktme_last_direct_map() + mktme_config.map_size,
			    SZ_1T);
}

/* === Activation ========================================================= */

/**
 * mktme_activate() - Enable the use of KeyIDs.
 *
 * Context: may sleep.
 */
void mktme_activate(void)
{
	int cpu;

	if (mktme_active())
		return;
	/*
	 * Caches must be flushed before kexec: late write-backs corrupt memory.
	 */
	for_each_possible_cpu(cpu)
		per_cpu(cache_state_incoherent, cpu) = true;
	static_branch_enable(&mktme_in_use);
}

/* === Report ============================================================= */

static int __init mktme_report(void)
{
	if (mktme_config.nr_keyids)
		pr_info("%s: %u KeyIDs from bit %u on, direct maps of %lu GiB\n",
			mktme_ops->name, mktme_config.nr_keyids,
			mktme_config.keyid_shift, mktme_config.map_size / SZ_1G);
	else
		pr_info("off: %s\n", why_off);
	return 0;
}
early_initcall(mktme_report);
