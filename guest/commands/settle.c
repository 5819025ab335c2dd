// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the kernel give back what nobody uses, then show the number of page
 * tables and the pool they come from, if there is one.
 *
 * Page tables are freed after a grace period, memory is given back by workers
 * and shrinkers, and one shrinker frees what pins memory of another: so caches
 * are dropped until that changes nothing, or time is up.
 *
 * The pool gathers page tables of new processes in few blocks when caches are
 * dropped. The tables of this process are older, and each may be all that keeps
 * a block. So it begins again with new ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

#define DROP_CACHES	"/proc/sys/vm/drop_caches"
#define MEMINFO		"/proc/meminfo"
#define PAGE_TABLES	"PageTables:"
#define POOL		"/sys/kernel/debug/kpkeys/pool"

#define MAX_ROUNDS	20
/* A worker of the pool and the flush of statistics come once a second or two. */
#define PAUSE_S		1
#define QUIET_ROUNDS	3

static char before[8192], now[8192];

/* @what: "3" for all caches, "4" not to have that logged any more. */
static bool drop_caches(const char *what)
{
	bool ok = write_text(DROP_CACHES, what);

	if (!ok)
		perror("settle: " DROP_CACHES);
	return ok;
}

static bool read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	if (n < 0)
		fprintf(stderr, "settle: %s: %s\n", path, strerror(errno));
	text[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

/* Read what is to settle into @text: one line of meminfo, then the pool. */
static bool look(char *text, size_t size)
{
	static char meminfo[8192];
	const char *line;
	int length;

	if (!read_file(MEMINFO, meminfo, sizeof(meminfo)))
		return false;
	line = strstr(meminfo, PAGE_TABLES);
	if (!line) {
		fprintf(stderr, "settle: no %s in " MEMINFO "\n", PAGE_TABLES);
		return false;
	}
	length = snprintf(text, size, "%.*s\n", (int)strcspn(line, "\n"), line);
	return access(POOL, F_OK) || read_file(POOL, text + length, size - length);
}

static void begin_again(void)
{
	char name[] = "settle", again[] = "again";
	char *const args[] = { name, again, NULL };

	execv("/proc/self/exe", args);
	perror("settle: /proc/self/exe");
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_sec = PAUSE_S };
	int round, quiet = 0;

	(void)argv;
	if (!drop_caches("4"))
		return 1;
	if (argc == 1) {
		if (drop_caches("3"))
			begin_again();
		return 1;
	}
	for (round = 0; round < MAX_ROUNDS && quiet < QUIET_ROUNDS; round++) {
		if (!drop_caches("3"))
			return 1;
		nanosleep(&pause, NULL);
		if (!look(now, sizeof(now)))
			return 1;
		quiet = strcmp(before, now) ? 0 : quiet + 1;
		memcpy(before, now, sizeof(now));
	}
	fputs(now, stdout);
	printf("@settle: rounds=%d\n", round);
	return 0;
}
