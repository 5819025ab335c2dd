// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often does an operation leave the restricted address space, and why?
 *
 * exits N: each operation is done N times between two looks at what the kernel
 * counts. A look counts nothing itself; one that finds that it does is an error.
 * Meant for a machine with one CPU on which nothing else runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "fail.h"

#define SWITCHES	"/sys/kernel/debug/asi/switches"
#define TMPFS_FILE	"/tmp/exits"
#define PAGE		4096
#define MAX_COUNTERS	32
/* By then the kernel has calibrated its clocks, and patched its code for that. */
#define SETTLE_S	4

extern char **environ;

struct counters {
	unsigned int nr;
	char names[MAX_COUNTERS][32];
	u64 values[MAX_COUNTERS];
};

static unsigned int times;

static void look(struct counters *counters)
{
	static char text[4096];
	int fd = open(SWITCHES, O_RDONLY | O_CLOEXEC), used;
	const char *at = text;
	ssize_t size;

	if (fd < 0)
		fail(SWITCHES);
	size = read(fd, text, sizeof(text) - 1);
	if (size < 0)
		fail(SWITCHES);
	close(fd);
	text[size] = '\0';

	counters->nr = 0;
	while (counters->nr < MAX_COUNTERS &&
	       sscanf(at, "%31s %llu\n%n", counters->names[counters->nr],
		      &counters->values[counters->nr], &used) == 2) {
		at += used;
		counters->nr++;
	}
}

/* === Operations: each does it so many times ============================== */

static void nothing(void)
{
}

static void null_syscall(void)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		syscall(SYS_getppid);
}

static void echo(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1)
		if (write(to, &byte, 1) != 1)
			return;
}

/* There and back, with another process. */
static void pipe_ping_pong(void)
{
	int there[2], back[2];
	unsigned int i;
	char byte = 0;
	pid_t pid;

	if (pipe(there) || pipe(back))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		close(there[1]);
		close(back[0]);
		echo(there[0], back[1]);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	for (i = 0; i < times; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("ping-pong");
	close(there[1]);
	close(back[0]);
	waitpid(pid, NULL, 0);
}

static unsigned int turn;

static void *take_turns(void *own)
{
	unsigned int me = own != NULL, i;

	for (i = 0; i < times; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
			sched_yield();
		__atomic_store_n(&turn, !me, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Two threads, each of which cannot go on before the other has run. */
static void threads(void)
{
	pthread_t other;

	turn = 0;
	if (pthread_create(&other, NULL, take_turns, &turn))
		fail("thread");
	take_turns(NULL);
	pthread_join(other, NULL);
}

/* To the idle thread, and back by an interrupt. */
static void kernel_thread(void)
{
	const struct timespec moment = { .tv_nsec = 1 };
	unsigned int i;

	for (i = 0; i < times; i++)
		nanosleep(&moment, NULL);
}

static void touch(volatile char *at, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += PAGE)
		at[i] = 1;
}

/* So many pages, each by a fault of its own. */
static char *faulted_in(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || madvise(at, size, MADV_NOHUGEPAGE))
		fail("mmap");
	touch(at, size);
	return at;
}

static void anonymous_fault(void)
{
	size_t size = (size_t)times * PAGE;

	munmap(faulted_in(size), size);
}

/* What the parent has is copied for the child, who writes to it. */
static void cow_fault(void)
{
	size_t size = (size_t)times * PAGE;
	char *at = faulted_in(size);
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		touch(at, size);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	munmap(at, size);
}

static void fork_exec(void)
{
	char name[] = "exits", no_times[] = "0";
	char *const argv[] = { name, no_times, NULL };
	unsigned int i;
	pid_t pid;

	for (i = 0; i < times; i++) {
		errno = posix_spawn(&pid, "/bin/exits", NULL, NULL, argv, environ);
		if (errno)
			fail("/bin/exits");
		waitpid(pid, NULL, 0);
	}
}

static void on_tmpfs(ssize_t (*io)(int fd))
{
	int fd = open(TMPFS_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	unsigned int i;

	if (fd < 0 || ftruncate(fd, PAGE))
		fail(TMPFS_FILE);
	for (i = 0; i < times; i++)
		if (io(fd) != PAGE)
			fail(TMPFS_FILE);
	close(fd);
}

static char buffer[PAGE];

static ssize_t read_page(int fd)
{
	return pread(fd, buffer, PAGE, 0);
}

static ssize_t write_page(int fd)
{
	return pwrite(fd, buffer, PAGE, 0);
}

static void tmpfs_write(void)
{
	on_tmpfs(write_page);
}

static void tmpfs_read(void)
{
	on_tmpfs(read_page);
}

static const struct {
	const char *name;
	void (*run)(void);
} operations[] = {
	{ "nothing", nothing },
	{ "null-syscall", null_syscall },
	{ "threads", threads },
	{ "kernel-thread", kernel_thread },
	{ "pipe-ping-pong", pipe_ping_pong },
	{ "anonymous-fault", anonymous_fault },
	{ "cow-fault", cow_fault },
	{ "fork-exec", fork_exec },
	{ "tmpfs-write", tmpfs_write },
	{ "tmpfs-read", tmpfs_read },
};

int main(int argc, char *argv[])
{
	static struct counters before, after;
	unsigned int i, j;

	if (argc != 2) {
		fprintf(stderr, "usage: exits N\n");
		return 2;
	}
	times = strtoul(argv[1], NULL, 10);
	if (!times)
		return 0;

	sleep(SETTLE_S);
	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		unsigned int all = times;

		/* What is done the first time only. */
		times = all < 16 ? all : 16;
		operations[i].run();
		times = all;
		fflush(stdout);
		look(&before);
		look(&before);
		operations[i].run();
		look(&after);
		printf("@exits: operation=%s times=%u", operations[i].name, times);
		for (j = 0; j < after.nr; j++)
			printf(" %s=%llu", after.names[j],
			       after.values[j] - before.values[j]);
		printf("\n");
	}
	return 0;
}
