// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address space isolation: is it asked for, and is it on? Architectures ask,
 * too, so nothing here calls them.
 */
#include <linux/asi.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kstrtox.h>
#include <linux/kvm_types.h>

#include "asi.h"

static bool requested __ro_after_init;
static const char *refused __ro_after_init;

DEFINE_STATIC_KEY_FALSE_RO(asi_key);
EXPORT_SYMBOL_FOR_KVM(asi_key);

/*
 * Clearing starts before allocations rely on it, which they do once no block is
 * sensitive that was not cleared: a static key does not change in all places at
 * the same time.
 */
DEFINE_STATIC_KEY_FALSE_RO(asi_clear_key);
EXPORT_SYMBOL_GPL(asi_clear_key);
DEFINE_STATIC_KEY_FALSE_RO(asi_clean_key);

static int __init asi_parse(char *arg)
{
	return kstrtobool(arg, &requested);
}
early_param("asi", asi_parse);

/**
 * asi_requested() - Was asi=on given?
 *
 * For decisions that are made before asi_enabled() can be true.
 *
 * Context: after early parameters are parsed.
 * Return: true if so.
 */
bool asi_requested(void)
{
	return requested;
}

/**
 * asi_refuse() - Ignore asi=on.
 * @why: the reason, for the log.
 *
 * Context: boot, before a process has page tables.
 */
void __init asi_refuse(const char *why)
{
	requested = false;
	refused = why;
}

/**
 * asi_refused() - Was asi=on given, and ignored?
 *
 * Context: boot.
 * Return: the reason, or NULL.
 */
const char * __init asi_refused(void)
{
	return refused;
}
