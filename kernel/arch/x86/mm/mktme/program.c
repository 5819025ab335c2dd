// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys in the memory controllers: programmed by PCONFIG, on one CPU of each
 * package, as each package encrypts the memory that it has.
 *
 * What a KeyID encrypted before is lost. The kernel keeps no key: a package
 * that is added while keys are in use is given random ones, as its memory has
 * not been used, but cannot get those that somebody else has made.
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

/* Collecting entropy, and others that program, take their time. */
#define TRIES		10
#define RETRY_US	1000

/* By KeyID: 0 if it is not programmed, else the algorithm. */
static u32 algorithm_of[MKTME_MAX_KEYIDS + 1];
static bool random_key[MKTME_MAX_KEYIDS + 1];
static unsigned int nr_programmed;
/* From when it has been asked for, until it is over; it can be so twice. */
static unsigned int nr_sleeping;
/* Against CPUs that come and go, and sleep. */
static DEFINE_MUTEX(packages_lock);

struct command {
	struct mktme_pconfig *pconfig;
	int result;
};

static void run_command(void *info)
{
	struct command *command = info;

	command->result = mktme_ops->pconfig(command->pconfig);
}

static int program_package(int cpu, struct mktme_pconfig *pconfig)
{
	struct command command = { .pconfig = pconfig };
	unsigned int tries;
	int err;

	for (tries = 0; tries < TRIES; tries++) {
		err = smp_call_function_single(cpu, run_command, &command, true);
		if (err || command.result != -EBUSY)
			break;
		fsleep(RETRY_US);
	}
	return err ? : command.result;
}

static bool first_of_package(int cpu)
{
	return cpumask_first_and(topology_core_cpumask(cpu), cpu_online_mask) == cpu;
}

/* Under packages_lock. */
static int program_all(struct mktme_pconfig *pconfig)
{
	int cpu, err, ret = 0;

	for_each_online_cpu(cpu) {
		if (!first_of_package(cpu))
			continue;
		err = program_package(cpu, pconfig);
		if (err && !ret)
			ret = err;
	}
	return ret;
}

static struct mktme_pconfig *new_pconfig(unsigned int keyid, unsigned int command)
{
	struct mktme_pconfig *pconfig = kzalloc(sizeof(*pconfig), GFP_KERNEL);

	if (pconfig) {
		pconfig->keyid = keyid;
		pconfig->control = FIELD_PREP(MKTME_PCONFIG_COMMAND, command);
	}
	return pconfig;
}

static struct mktme_pconfig *pconfig_of(unsigned int keyid,
					const struct mktme_key_spec *spec)
{
	struct mktme_pconfig *pconfig;

	pconfig = new_pconfig(keyid, spec->random ? MKTME_SET_KEY_RANDOM :
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

/* From firmware, as cpu_data() has nothing of a CPU that was never started. */
static int package_of(unsigned int cpu)
{
	return topology_get_logical_id(per_cpu(x86_cpu_to_apicid, cpu),
				       TOPO_PKG_DOMAIN);
}

/* Is there a CPU online in the package of this one, beside it? */
static bool has_company(unsigned int cpu)
{
	int package = package_of(cpu);
	unsigned int other;

	for_each_online_cpu(other)
		if (other != cpu && package_of(other) == package)
			return true;
	return false;
}

/* Every package that is there must have a CPU that can do it. */
static bool packages_complete(void)
{
	unsigned int cpu;

	for_each_present_cpu(cpu)
		if (!cpu_online(cpu) && !has_company(cpu))
			return false;
	return true;
}

/* Under packages_lock: 0, or why no KeyID can have a key now. */
static int may_program(void)
{
	/* Programs still run for a while when it has been decided to sleep. */
	if (nr_sleeping)
		return -EAGAIN;
	return packages_complete() ? 0 : -ENODEV;
}

/**
 * mktme_algorithm() - How memory can be encrypted.
 * @wanted: MKTME_AES_XTS_128 or MKTME_AES_XTS_256, or 0 for any.
 *
 * Return: @wanted, or the first that the CPU has; 0 if it has not.
 */
u32 mktme_algorithm(u32 wanted)
{
	u32 known = FIELD_GET(TME_ACTIVATE_ALGORITHMS,
			      mktme_read_msr(MSR_IA32_TME_ACTIVATE)) &
		    (MKTME_AES_XTS_128 | MKTME_AES_XTS_256);

	return wanted ? known & wanted : known & -known;
}

/**
 * mktme_program() - Give a KeyID a key.
 * @keyid: the KeyID; memory that it encrypted before is lost.
 * @spec: the key; is not kept.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOMEM; -ENODEV if all CPUs of a package are offline; -EAGAIN if
 * the machine is about to sleep; -EIO if a package refuses.
 */
int mktme_program(unsigned int keyid, const struct mktme_key_spec *spec)
{
	struct mktme_pconfig *pconfig = pconfig_of(keyid, spec);
	int refused, err = 0;

	if (!pconfig)
		return -ENOMEM;
	cpus_read_lock();
	mutex_lock(&packages_lock);
	refused = may_program();
	if (!refused) {
		err = program_all(pconfig);
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
 * mktme_forget() - Take its key from a KeyID.
 * @keyid: the KeyID, which no page has.
 *
 * Context: process, may sleep.
 */
void mktme_forget(unsigned int keyid)
{
	struct mktme_pconfig *pconfig;

	pconfig = new_pconfig(keyid, MKTME_CLEAR_KEY);
	cpus_read_lock();
	mutex_lock(&packages_lock);
	if (!pconfig || program_all(pconfig))
		pr_warn_ratelimited("KeyID %u keeps its key, unused\n", keyid);
	nr_programmed -= !!algorithm_of[keyid];
	algorithm_of[keyid] = 0;
	mutex_unlock(&packages_lock);
	cpus_read_unlock();
	kfree(pconfig);
}

/* === CPU hotplug ======================================================== */

static int program_added(unsigned int cpu, unsigned int keyid)
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
	pconfig = pconfig_of(keyid, &spec);
	if (!pconfig)
		return -ENOMEM;
	err = program_package(cpu, pconfig);
	kfree_sensitive(pconfig);
	return err;
}

static int cpu_comes(unsigned int cpu)
{
	unsigned int keyid;
	int err = 0;

	guard(mutex)(&packages_lock);
	if (!nr_programmed || has_company(cpu))
		return 0;
	for (keyid = 1; keyid <= mktme_nr_keyids() && !err; keyid++)
		if (algorithm_of[keyid])
			err = program_added(cpu, keyid);
	return err;
}

static int cpu_goes(unsigned int cpu)
{
	guard(mutex)(&packages_lock);
	if (!nr_programmed || has_company(cpu))
		return 0;
	pr_warn_ratelimited("CPU %u stays online: it is the last of its package, and keys are in use\n",
			    cpu);
	return -EBUSY;
}

/*
 * Memory keeps what is in it, and its controllers forget the keys. So there are
 * none, and there must be none until it is over: that is told as well if what
 * was prepared here fails elsewhere.
 */
static int around_sleep(struct notifier_block *block, unsigned long action,
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

static struct notifier_block sleep_notifier = {
	.notifier_call = around_sleep,
};

static int __init watch_packages(void)
{
	int ret;

	if (!mktme_nr_keyids())
		return 0;
	/* CPUs that are online have the keys that there are, which must stay. */
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "x86/mktme:online",
					cpu_comes, cpu_goes);
	if (ret < 0)
		return ret;
	return register_pm_notifier(&sleep_notifier);
}
late_initcall(watch_packages);

#ifdef CONFIG_X86_MKTME_KUNIT_TEST
#include "program_test.c"
#endif
