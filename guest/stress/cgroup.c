// SPDX-License-Identifier: GPL-2.0-only
/*
 * Are page tables charged to the memory cgroup of who uses them, uncharged
 * when they are freed, and refused beyond its limit?
 *
 * Nothing here knows of protection keys: the answers have to be the same
 * whoever hands out page tables.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "files.h"

#define ROOT		"/sys/fs/cgroup"
#define GROUP		ROOT "/redoubt"

#define KB		1024UL
#define MB		(1024 * KB)

/* The memory that one page table of the lowest level maps. */
#define PMD_SIZE	(2 * MB)
#define TABLES		512UL
/* A limit that the tables alone exceed. */
#define LIMIT		"1M"

/*
 * Statistics lag behind until they are flushed, every two seconds, and a CPU
 * charges 64 pages in advance.
 */
#define PATIENCE_S	30
#define STOCK		(64 * 4 * KB)

static size_t page;
static int failures;

#define check(condition) check_at((condition), #condition, __func__, __LINE__)

static bool check_at(bool ok, const char *condition, const char *func, int line)
{
	if (!ok) {
		failures++;
		fprintf(stderr, "cgroup: %s:%d: not so: %s (errno %d: %s)\n",
			func, line, condition, errno, strerror(errno));
	}
	return ok;
}

static noreturn void die(const char *what)
{
	fprintf(stderr, "cgroup: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* === Files of a cgroup === */

static void put(const char *path, const char *value)
{
	if (!write_text(path, value))
		die(path);
}

static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		die(path);
	text[n] = '\0';
	close(fd);
}

/* The number behind @key at the start of a line; the only one if @key is "". */
static unsigned long value_of(const char *path, const char *key)
{
	static char text[16384];
	size_t length = strlen(key);
	char *line;

	read_file(path, text, sizeof(text));
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, key, length))
			return strtoul(line + length, NULL, 10);
	fprintf(stderr, "cgroup: %s: no %s\n", path, key);
	exit(2);
}

static unsigned long pagetables(void)
{
	return value_of(GROUP "/memory.stat", "pagetables ");
}

static unsigned long kernel(void)
{
	return value_of(GROUP "/memory.stat", "kernel ");
}

static unsigned long current_bytes(void)
{
	return value_of(GROUP "/memory.current", "");
}

static unsigned long all_tables(void)
{
	return value_of("/proc/meminfo", "PageTables:") * KB;
}

/* Wait until @read is in [@low, @high]. Returns what it was at last. */
static unsigned long wait_for(unsigned long (*read)(void), unsigned long low,
			      unsigned long high)
{
	const struct timespec pause = { .tv_nsec = 250000000 };
	unsigned long value = read();
	int i;

	for (i = 0; i < PATIENCE_S * 4 && (value < low || value > high); i++) {
		nanosleep(&pause, NULL);
		value = read();
	}
	return value;
}

/* === A process in a cgroup === */

/* A child between "ready" and its end. */
struct child {
	pid_t pid;
	int ready, end;
};

/* Move into the cgroup, build @tables page tables, say so and wait. */
static noreturn void child_main(unsigned long tables, int ready, int end)
{
	char *m, byte = 0;
	unsigned long i;

	put(GROUP "/cgroup.procs", "0");
	m = mmap(NULL, (tables + 1) * PMD_SIZE, PROT_READ,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		_exit(3);
	/* Reading maps the zero page: nothing but tables is charged. */
	for (i = 0; i < tables; i++)
		*(volatile char *)(m + i * PMD_SIZE);
	if (write(ready, "r", 1) != 1 || read(end, &byte, 1) < 0)
		_exit(4);
	_exit(0);
}

static struct child start_child(unsigned long tables)
{
	struct child child;
	int ready[2], end[2];

	if (pipe2(ready, O_CLOEXEC) || pipe2(end, O_CLOEXEC))
		die("pipe");
	child.pid = fork();
	if (child.pid < 0)
		die("fork");
	if (!child.pid) {
		close(ready[0]);
		close(end[1]);
		child_main(tables, ready[1], end[0]);
	}
	close(ready[1]);
	close(end[0]);
	child.ready = ready[0];
	child.end = end[1];
	return child;
}

/* Whether the child got that far; if not it is dead. */
static bool is_ready(const struct child *child)
{
	char byte;

	return read(child->ready, &byte, 1) == 1;
}

static int end_child(const struct child *child)
{
	int status;

	close(child->end);
	close(child->ready);
	if (waitpid(child->pid, &status, 0) != child->pid)
		die("waitpid");
	return status;
}

/* === Tests === */

static void make_group(void)
{
	if (mkdir(GROUP, 0755))
		die(GROUP);
}

/* Nothing may be left: not in the statistics, the charges, or the way. */
static void check_empty_group(const char *test)
{
	unsigned long tables = wait_for(pagetables, 0, 0);
	unsigned long left = wait_for(current_bytes, 0, 2 * STOCK);

	printf("@cgroup: %s left pagetables=%lu current=%lu\n", test, tables,
	       left);
	check(!tables);
	check(left <= 2 * STOCK);
	check(!rmdir(GROUP));
}

/* Tables of all processes are those of before, but for a few that come and go. */
static void check_all_tables(const char *test, unsigned long before)
{
	const unsigned long few = 16 * page;
	unsigned long after = wait_for(all_tables, 0, before + few);

	printf("@cgroup: %s all pagetables before=%lu after=%lu\n", test,
	       before, after);
	check(after <= before + few);
}

static void test_charge(void)
{
	const unsigned long size = TABLES * page;
	/* Those of upper levels, of the program and of its stack, stat's lag. */
	const unsigned long others = 32 * page;
	unsigned long before = all_tables(), tables, kmem;
	struct child child;

	make_group();
	child = start_child(TABLES);
	check(is_ready(&child));
	tables = wait_for(pagetables, size, size + others);
	kmem = wait_for(kernel, size, size + others + 2 * STOCK);
	printf("@cgroup: charge tables=%lu pagetables=%lu kernel=%lu current=%lu\n",
	       size, tables, kmem, current_bytes());
	check(tables >= size);
	check(tables <= size + others);
	check(kmem >= tables);
	check(kmem <= size + others + 2 * STOCK);
	check(current_bytes() >= size);
	check(!end_child(&child));
	check_empty_group("charge");
	check_all_tables("charge", before);
}

static void test_limit(void)
{
	unsigned long before = all_tables(), kills;
	struct child child;
	int status;

	make_group();
	put(GROUP "/memory.max", LIMIT);
	child = start_child(TABLES);
	check(!is_ready(&child));
	status = end_child(&child);
	kills = value_of(GROUP "/memory.events", "oom_kill ");
	printf("@cgroup: limit status=%#x oom_kill=%lu\n", status, kills);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	check(kills == 1);
	check_empty_group("limit");
	check_all_tables("limit", before);
}

/* Tables that one group allocates and frees are the next one's. */
static void test_reuse(void)
{
	unsigned long before = all_tables(), i;
	struct child child;

	make_group();
	for (i = 0; i < 8; i++) {
		child = start_child(TABLES / 8);
		check(is_ready(&child));
		check(!end_child(&child));
	}
	check_empty_group("reuse");
	check_all_tables("reuse", before);
}

int main(void)
{
	page = sysconf(_SC_PAGESIZE);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (mount("cgroup2", ROOT, "cgroup2", 0, NULL) && errno != EBUSY)
		die("mounting " ROOT);
	put(ROOT "/cgroup.subtree_control", "+memory");

	test_charge();
	test_limit();
	test_reuse();
	printf("@cgroup: failures=%d\n", failures);
	return failures ? 1 : 0;
}
