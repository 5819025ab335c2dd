// SPDX-License-Identifier: GPL-2.0-only
/*
 * The directory of kpkeys in debugfs.
 */
#include <linux/debugfs.h>

#include "kpkeys.h"

/**
 * kpkeys_debugfs_dir() - Get the debugfs directory kpkeys/.
 *
 * Context: may sleep; debugfs is initialised.
 * Return: the directory, created by the first call.
 */
struct dentry *kpkeys_debugfs_dir(void)
{
	static struct dentry *dir;

	if (!dir)
		dir = debugfs_create_dir("kpkeys", NULL);
	return dir;
}
