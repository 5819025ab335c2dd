// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: a pseudo-NMI that arrives with interrupts off runs at the default
 * level, and preserves the level that it interrupted.
 */
#include <kunit/test.h>
#include <linux/cleanup.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/kpkeys.h>
#include <linux/of.h>
#include <linux/of_irq.h>
#include <linux/preempt.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/daifflags.h>
#include <asm/irq_regs.h>
#include <asm/ptrace.h>

/* An SPI that QEMU's "virt" machine does not use. */
#define MACHINE		"linux,dummy-virt"
#define SPARE_LINE	200

/* Timeout for an NMI; emulated CPUs are slow. */
#define NMI_US		100000

struct nmi_sample {
	u64 on_entry, in_guard, behind_guard, after;
	bool irqs_off;	/* in the interrupted code */
	bool done;
};

static irqreturn_t sample_in_nmi(int irq, void *data)
{
	struct nmi_sample *sample = data;

	sample->on_entry = arch_kpkeys_read_reg();
	scoped_guard(kpkeys_hardened_pgtables) {
		sample->in_guard = arch_kpkeys_read_reg();
	}
	sample->behind_guard = arch_kpkeys_read_reg();
	sample->irqs_off = regs_irqs_disabled(get_irq_regs());
	WRITE_ONCE(sample->done, true);
	return IRQ_HANDLED;
}

static unsigned int map_spare_line(void)
{
	struct of_phandle_args line = {
		.np = of_find_compatible_node(NULL, NULL, "arm,gic-v3"),
		.args_count = 3,
		.args = { 0, SPARE_LINE, IRQ_TYPE_EDGE_RISING },
	};
	unsigned int irq = irq_create_of_mapping(&line);

	of_node_put(line.np);
	return irq;
}

static void nmi_at_raised_level(unsigned int irq, struct nmi_sample *sample,
				bool irqs_off)
{
	unsigned long flags = 0;
	int us;

	guard(preempt)();
	guard(kpkeys_hardened_pgtables)();
	/*
	 * Unmasked, it would arrive in the function below, with interrupts off.
	 */
	if (!irqs_off)
		flags = local_daif_save();
	irq_set_irqchip_state(irq, IRQCHIP_STATE_PENDING, true);
	if (!irqs_off)
		local_daif_restore(flags);
	for (us = 0; us < NMI_US && !READ_ONCE(sample->done); us++)
		udelay(1);
	sample->after = arch_kpkeys_read_reg();
}

static void nmi_inside_guard(struct kunit *test)
{
	u64 low = arch_kpkeys_level_reg(KPKEYS_LVL_DEFAULT);
	u64 high = arch_kpkeys_level_reg(KPKEYS_LVL_PGTABLES);
	struct nmi_sample sample;
	unsigned int irq;
	int irqs_off, err;

	if (!kpkeys_hardened_pgtables_enabled())
		kunit_skip(test, "page tables are not hardened in this boot");
	if (!system_uses_irq_prio_masking())
		kunit_skip(test, "there are no pseudo-NMIs in this boot");
	if (!of_machine_is_compatible(MACHINE))
		kunit_skip(test, "which line is spare is known of " MACHINE " only");

	irq = map_spare_line();
	KUNIT_ASSERT_NE(test, irq, 0);
	/* free_nmi() requires that the controller has it disabled, too. */
	irq_set_status_flags(irq, IRQ_DISABLE_UNLAZY);
	err = request_nmi(irq, sample_in_nmi, IRQF_PERCPU | IRQF_NO_AUTOEN,
			  "kpkeys_nmi", &sample);
	if (err) {
		KUNIT_FAIL(test, "request_nmi: %d", err);
		goto out;
	}
	migrate_disable();
	KUNIT_EXPECT_EQ(test, irq_set_affinity(irq, cpumask_of(smp_processor_id())), 0);
	enable_nmi(irq);

	for (irqs_off = 0; irqs_off < 2; irqs_off++) {
		memset(&sample, 0, sizeof(sample));
		nmi_at_raised_level(irq, &sample, irqs_off);
		KUNIT_EXPECT_TRUE(test, sample.done);
		KUNIT_EXPECT_EQ(test, sample.irqs_off, irqs_off);
		KUNIT_EXPECT_EQ(test, sample.on_entry, low);
		KUNIT_EXPECT_EQ(test, sample.in_guard, high);
		KUNIT_EXPECT_EQ(test, sample.behind_guard, low);
		KUNIT_EXPECT_EQ(test, sample.after, high);
		KUNIT_EXPECT_EQ(test, arch_kpkeys_read_reg(), low);
	}

	disable_nmi_nosync(irq);
	migrate_enable();
	free_nmi(irq, &sample);
out:
	irq_dispose_mapping(irq);
}

static struct kunit_case nmi_cases[] = {
	KUNIT_CASE(nmi_inside_guard),
	{}
};

static struct kunit_suite nmi_suite = {
	.name = "kpkeys_arm64_nmi",
	.test_cases = nmi_cases,
};

kunit_test_suite(nmi_suite);
