// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run a command while allocations fail: faults ROUND CMD [ARG...]
 *
 * What fails depends on the round. Faults begin when CMD has been executed,
 * hit every task and interrupt of the machine, and end with CMD. Meanwhile the
 * checker of the kernel, if there is one, is run again and again.
 *
 * The exit status is that of CMD.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define CHECK		DEBUGFS "kpkeys/check"
#define KALLSYMS	"/proc/kallsyms"

/*
 * UML's copies from and to user space call this for pages that are not there,
 * and it follows a NULL pointer when a page table cannot be allocated. That is
 * so without us: nothing fails below it.
 */
#define SPARED		"maybe_map"
#define STACK_DEPTH	"32"

/* The C library exits with this if a fault hits it before main(). */
#define NOT_STARTED	127
#define TRIES		5

/* Tenths of a second between two runs of the checker, which stops everybody. */
#define WAITS		20

/* So many that they do not run out: what is left of them counts faults. */
#define TIMES		1000000000L

/* One way to fail; an attribute of NULL is not there to set. */
struct fault {
	const char *where;
	const char *probability;	/* percent */
	const char *min_order;		/* of pages, smaller ones succeed */
};

struct round {
	const char *name;
	struct fault faults[3];
};

static const struct round rounds[] = {
	/* Nothing fails, to compare with. */
	{ "none", { { NULL } } },
	/* Any page table, and what the pool asks the page allocator for. */
	{ "pages", { { DEBUGFS "fail_page_alloc/", "10", "0" } } },
	/* Blocks only, and all of them. */
	{ "blocks", { { DEBUGFS "fail_page_alloc/", "100", "9" } } },
	/* The objects around page tables: mm_struct, VMAs, tasks. */
	{ "slab", { { DEBUGFS "failslab/", "5", NULL } } },
	{ "all", { { DEBUGFS "fail_page_alloc/", "10", "0" },
		   { DEBUGFS "failslab/", "5", NULL } } },
};

static noreturn void die(const char *what)
{
	fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
	exit(125);
}

static int open_attr(const struct fault *fault, const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s%s", fault->where, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static void write_attr(int fd, const char *value)
{
	if (write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		die(value);
}

static void set_attr(const struct fault *fault, const char *name,
		     const char *value)
{
	int fd = open_attr(fault, name);

	write_attr(fd, value);
	close(fd);
}

/* Where the function @name begins and ends; false if the kernel has none. */
static bool find_function(const char *name, unsigned long *start,
			  unsigned long *end)
{
	FILE *file = fopen(KALLSYMS, "re");
	unsigned long addr;
	char symbol[256];

	if (!file)
		die(KALLSYMS);
	*start = 0;
	*end = ULONG_MAX;
	/* Sorted by address, but for what modules and BPF add. */
	while (fscanf(file, "%lx %*c %255s%*[^\n]", &addr, symbol) == 2) {
		if (!strcmp(symbol, name))
			*start = addr;
		else if (*start && addr > *start && addr < *end)
			*end = addr;
	}
	fclose(file);
	return *start && *end != ULONG_MAX;
}

static void spare(const struct fault *fault)
{
	unsigned long start, end;
	char value[24];

	if (!find_function(SPARED, &start, &end))
		return;
	set_attr(fault, "stacktrace-depth", STACK_DEPTH);
	snprintf(value, sizeof(value), "%#lx", start);
	set_attr(fault, "reject-start", value);
	snprintf(value, sizeof(value), "%#lx", end);
	set_attr(fault, "reject-end", value);
}

/* Returns the attribute that switches the fault on and off, opened. */
static int prepare(const struct fault *fault)
{
	char times[24];

	snprintf(times, sizeof(times), "%ld", TIMES);
	set_attr(fault, "probability", "0");
	set_attr(fault, "interval", "1");
	set_attr(fault, "times", times);
	set_attr(fault, "space", "0");
	/* Each fault with its stack would drown everything. */
	set_attr(fault, "verbose", "0");
	set_attr(fault, "task-filter", "N");
	set_attr(fault, "ignore-gfp-wait", "N");
	if (fault->min_order)
		set_attr(fault, "min-order", fault->min_order);
	spare(fault);
	return open_attr(fault, "probability");
}

static long injected(const struct fault *fault)
{
	int fd = open_attr(fault, "times");
	char text[32] = "";

	if (read(fd, text, sizeof(text) - 1) <= 0)
		die("times");
	close(fd);
	return TIMES - strtol(text, NULL, 10);
}

/* Returns when @argv has been executed. */
static pid_t start(char **argv)
{
	int fds[2], err;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		execvp(argv[0], argv);
		err = errno;
		if (write(fds[1], &err, sizeof(err)) < 0)
			_exit(125);
		_exit(127);
	}
	close(fds[1]);
	if (read(fds[0], &err, sizeof(err)) > 0) {
		errno = err;
		die(argv[0]);
	}
	close(fds[0]);
	return pid;
}

/* One run of the checker. It may be refused memory itself. */
static bool check_once(void)
{
	static char text[65536];
	int fd = open(CHECK, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	fputs(text, stdout);
	fflush(stdout);
	return true;
}

/* Returns the exit status of @pid, as a shell would. */
static int check_until_end(pid_t pid, bool has_checker)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	unsigned int waits = 0, tried = 0, checked = 0;
	int status;
	pid_t ended;

	while (!(ended = waitpid(pid, &status, WNOHANG))) {
		if (has_checker && !(waits++ % WAITS)) {
			tried++;
			checked += check_once();
		}
		nanosleep(&pause, NULL);
	}
	if (ended != pid)
		die("waitpid");
	if (has_checker)
		printf("@faults: checks tried=%u done=%u\n", tried, checked);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

static int run(const struct round *round, char **argv)
{
	/* Asked before there are faults. */
	bool has_checker = !access(CHECK, R_OK);
	int fds[ARRAY_SIZE(round->faults)], status, tries = 0;
	long total = 0;
	size_t n, i;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (n = 0; round->faults[n].where; n++)
		fds[n] = prepare(&round->faults[n]);
	do {
		pid = start(argv);
		for (i = 0; i < n; i++)
			write_attr(fds[i], round->faults[i].probability);

		status = check_until_end(pid, has_checker);

		for (i = 0; i < n; i++)
			write_attr(fds[i], "0");
	} while (status == NOT_STARTED && ++tries < TRIES);
	for (i = 0; i < n; i++)
		total += injected(&round->faults[i]);
	printf("@faults: round=%s injected=%ld status=%d\n", round->name, total,
	       status);
	return status;
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 2 && i < ARRAY_SIZE(rounds); i++)
		if (!strcmp(argv[1], rounds[i].name))
			return run(&rounds[i], argv + 2);

	fprintf(stderr, "usage: faults ROUND CMD [ARG...]\nrounds:");
	for (i = 0; i < ARRAY_SIZE(rounds); i++)
		fprintf(stderr, " %s", rounds[i].name);
	fprintf(stderr, "\n");
	return 2;
}
