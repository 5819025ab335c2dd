// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programming keys into memory controllers, by PCONFIG on one CPU of each
 * package, because each package encrypts its own memory.
 *
 * Programming a KeyID loses the data that it encrypted before. The kernel keeps
 * no keys: a package that is added while keys are in use gets random ones, as
 * its memory has not been used, but cannot get keys that user space provided.
 */
#define pr_fmt(fmt) "x86/mktme: " fmt

#include <linux/bitfield.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/topology.h>

#include <asm/smp.h>
#include <uapi/asm/mktme.h>

#include "keys.h"
#include "mktme.h"

/* Entropy may be short, and the hardware busy with other requests. */
#define TRIES		10
#define RETRY_US	1000

/* Indexed by KeyID: the algorithm, or 0 if it is not programmed. */
static u32 algorithm_of[MKTME_MAX_KEYIDS + 1];
static bool random_key[MKTME_MAX_KEYIDS + 1];
static unsigned int nr_programmed;
/* Nesting count: from PM_*_PREPARE to PM_POST_*. */
static unsigned int nr_sleeping;
/* Serialises programming against CPU hotplug and system sleep. */
static DEFINE_MUTEX(packages_lock);

struct mktme_command {
	struct mktme_pconfig *pconfig;
	int result;
};

static void mktme_run_command(void *info)
{
	struct mktme_command *command = info;

	command->result = mktme_ops->pconfig(command->pconfig);
}

static int mktme_program_package(int cpu, struct mktme_pconfig *pconfig)
{
	struct mktme_command command = { .pconfig = pconfig };
	unsigned int tries;
	int err;

	for (tries = 0; tries < TRIES; tries++) {
		err = smp_call_function_single(cpu, mktme_run_command, &command,
					       true);
		if (err || command.result != -EBUSY)
			break;
		fsleep(RETRY_US);
	}
	return err ? : command.result;
}

static bool mktme_first_of_package(int cpu)
{
	return cpumask_first_and(topology_core_cpumask(cpu), cpu_online_mask) == cpu;
}

/* Called under packages_lock. */
static int mktme_program_all(struct mktme_pconfig *pconfig)
{
	int cpu, err, ret = 0;

	for_each_online_cpu(cpu) {
		if (!mktme_first_of_package(cpu))
			continue;
		err = mktme_program_package(cpu, pconfig);
		if (err && !ret)
			ret = err;
	}
	return ret;
}

static struct mktme_pconfig *mktme_pconfig_new(unsigned int keyid,
					       unsigned int command)
{
	struct mktme_pconfig *pconfig = kzalloc(sizeof(*pconfig), GFP_KERNEL);

	if (pconfig) {
		pconfig->keyid = keyid;
		pconfig->control = FIELD_PREP(MKTME_PCONFIG_COMMAND, command);
	}
	return pconfig;
}

static struct mktme_pconfig *mktme_pconfig_of_key(unsigned int keyid,
						  const struct mktme_key_spec *spec)
{
	struct mktme_pconfig *pconfig;

	pconfig = mktme_pconfig_new(keyid, spec->random ? MKTME_SET_KEY_RANDOM :
						    MKTME_SET_KEY_DIRECT);
	if (!pconfig)
		return NULL;
	pconfig->control |= FIELD_PREP(MKTME_PCONFIG_ALGORITHM, spec->algorithm);
	if (!spec->random) {
		memcpy(pconfig->data_key, spec->data_key,
		       sizeof(spec->data_key));
		memcpy(pconfig->tweak_key, spec->tweak_key,
		       sizeof(spec->tweak_key));
	}
	return pconfig;
}

/* From the APIC ID: cpu_data() is not set for a CPU that never started. */
static int mktme_package_of(unsigned int cpu)
{
	return topology_get_logical_id(per_cpu(x86_cpu_to_apicid, cpu),
				       TOPO_PKG_DOMAIN);
}

/* Is another CPU of the same package online? */
static bool mktme_has_company(unsigned int cpu)
{
	int package = mktme_package_of(cpu);
	unsigned int other;

	for_each_online_cpu(other)
		if (other != cpu && mktme_package_of(other) == package)
			return true;
	return false;
}

/* Does each present package have an online CPU? */
static bool mktme_packages_complete(void)
{
	unsigned int cpu;

	for_each_present_cpu(cpu)
		if (!cpu_online(cpu) && !mktme_has_company(cpu))
			return false;
	return true;
}

/* Called under packages_lock. Returns 0, or why no key can be programmed. */
static int mktme_may_program(void)
{
	/* User space still runs for a while after PM_*_PREPARE. */
	if (nr_sleeping)
		return -EAGAIN;
	return mktme_packages_complete() ? 0 : -ENODEV;
}

/**
 * mktme_algorithm() - Choose an encryption algorithm.
 * @wanted: MKTME_AES_XTS_128 or MKTME_AES_XTS_256, or 0 for any.
 *
 * Return: @wanted, or the first that the CPU supports; 0 if unsupported.
 */
u32 mktme_algorithm(u32 wanted)
{
	u32 known = FIELD_GET(TME_ACTIVATE_ALGORITHMS,
			      mktme_read_msr(MSR_IA32_TME_ACTIVATE)) &
		    (MKTME_AES_XTS_128 | MKTME_AES_XTS_256);

	return wanted ? known & wanted : known & -known;
}

/**
 * mktme_program() - Program a key for a KeyID.
 * @keyid: the KeyID; data that it encrypted before is lost.
 * @spec: the key; no copy is kept.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOMEM; -ENODEV if all CPUs of a package are offline; -EAGAIN if
 * the system is about to sleep; -EIO if a package fails.
 */
int mktme_program(unsigned int keyid, const struct mktme_key_spec *spec)
{
	struct mktme_pconfig *pconfig = mktme_pconfig_of_key(keyid, spec);
	int refused, err = 0;

	if (!pconfig)
		return -ENOMEM;
	cpus_read_lock();
	mutex_lock(&packages_lock);
	refused = mktme_may_program();
	if (!refused) {
		err = mktme_program_all(pconfig);
		algorithm_of[keyid] = err ? 0 : spec->algorithm;
		random_key[keyid] = spec->random;
		nr_programmed += !err;
	}
	mutex_unlock(&packages_lock);
	cpus_read_unlock();
	kfree_sensitive(pconfig);
	if (err) {
		pr_warn_ratelimited("KeyID %u cannot be programmed: %d\n", keyid,
				    err);
		mktme_forget(keyid);
		return -EIO;
	}
	return refused;
}

/**
 * mktme_forget() - Clear the key of a KeyID.
 * @keyid: the KeyID, which no page has.
 *
 * Context: process, may sleep.
 */
void mktme_forget(unsigned int keyid)
{
	struct mktme_pconfig *pconfig;

	pconfig = mktme_pconfig_new(keyid, MKTME_CLEAR_KEY);
	cpus_read_lock();
	mutex_lock(&packages_lock);
	if (!pconfig || mktme_program_all(pconfig))
		pr_warn_ratelimited("KeyID %u keeps its key, unused\n", keyid);
	nr_programmed -= !!algorithm_of[keyid];
	algorithm_of[keyid] = 0;
	mutex_unlock(&packages_lock);
	cpus_read_unlock();
	kfree(pconfig);
}

/* === CPU hotplug ======================================================== */

static int mktme_program_added(unsigned int cpu, unsigned int keyid)
{
	struct mktme_key_spec spec = {
		.algorithm = algorithm_of[keyid],
		.random = true,
	};
	struct mktme_pconfig *pconfig;
	int err;

	if (!random_key[keyid]) {
		pr_warn("CPU %u stays offline: the key of KeyID %u is not known any more, and its package has not got it\n",
			cpu, keyid);
		return -EBUSY;
	}
	pconfig = mktme_pconfig_of_key(keyid, &spec);
	if (!pconfig)
		return -ENOMEM;
	err = mktme_program_package(cpu, pconfig);
	kfree_sensitive(pconfig);
	return err;
}

static int mktme_cpu_online(unsigned int cpu)
{
	unsigned int keyid;
	int err = 0;

	guard(mutex)(&packages_lock);
	if (!nr_programmed || mktme_has_company(cpu))
		return 0;
	for (keyid = 1; keyid <= mktme_nr_keyids() && !err; keyid++)
		if (algorithm_of[keyid])
			err = mktme_program_added(cpu, keyid);
	return err;
}

static int mktme_cpu_offline(unsigned int cpu)
{
	guard(mutex)(&packages_lock);
	if (!nr_programmed || mktme_has_company(cpu))
		return 0;
	pr_warn_ratelimited("CPU %u stays online: it is the last of its package, and keys are in use\n",
			    cpu);
	return -EBUSY;
}

/*
 * Memory survives system sleep, but the memory controllers lose the keys. So
 * sleep is refused while keys are in use, and no key may be programmed until
 * PM_POST_*, which is also sent if another notifier fails.
 */
static int mktme_pm_notify(struct notifier_block *block, unsigned long action,
			   void *data)
{
	guard(mutex)(&packages_lock);
	switch (action) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
		if (nr_programmed) {
			pr_warn("no suspend while keys are in use: they would be lost\n");
			return notifier_from_errno(-EBUSY);
		}
		nr_sleeping++;
		return NOTIFY_OK;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
		nr_sleeping--;
		return NOTIFY_OK;
	default:
		return NOTIFY_DONE;
	}
}

static struct notifier_block mktme_pm_notifier = {
	.notifier_call = mktme_pm_notify,
};

static int __init mktme_watch_packages(void)
{
	int ret;

	if (!mktme_nr_keyids())
		return 0;
	/* Online CPUs already have the keys, and must keep them. */
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "x86/mktme:online",
					mktme_cpu_online, mktme_cpu_offline);
	if (ret < 0)
		return ret;
	return register_pm_notifier(&mktme_pm_notifier);
}
late_initcall(mktme_watch_packages);

#ifdef CONFIG_X86_MKTME_KUNIT_TEST
#include "tests/program_test.c"
#endif
