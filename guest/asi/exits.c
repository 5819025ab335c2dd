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
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "counters.h"
#include "fail.h"
#include "guests.h"
#include "work.h"

#define TMPFS_FILE	"/tmp/exits"
/* Compiling takes so much longer than anything else. */
#define BUILD_PER	200
/* By then the kernel has calibrated its clocks, and patched its code for that. */
#define SETTLE_S	4
/* By then a worker has cleared the memory that was freed, which is an exit. */
#define CLEARED_NS	300000000

static unsigned int times;

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

static void anonymous_fault(void)
{
	size_t size = (size_t)times * PAGE;

	munmap(faulted_in(size), size);
}

static void cow_fault(void)
{
	copy_on_write((size_t)times * PAGE);
}

/* Memory that is a file, for which the kernel notes whether a page is filled. */
static void shared_fault(void)
{
	size_t size = (size_t)times * PAGE;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	touch(memory, size);
	munmap(memory, size);
}

static void fork_exec(void)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		run_program("/bin/exits", 0);
}

/* Each a fork, an exec, faults, reading and writing; see buildlike.c. */
static void build(void)
{
	run_program(BUILD, times);
}

static int open_page(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, PAGE))
		fail("%s", name);
	return fd;
}

static void on_tmpfs(ssize_t (*io)(int fd))
{
	int fd = open_page(TMPFS_FILE);
	unsigned int i;

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

static void *write_meanwhile(void *unused)
{
	tmpfs_write();
	return unused;
}

/* A page of a file into a pipe, and out of it, without a copy. */
static void splice_file(void)
{
	int fd = open_page(TMPFS_FILE), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int ends[2];
	unsigned int i;

	if (sink < 0 || pipe(ends))
		fail("pipe");
	for (i = 0; i < times; i++) {
		loff_t at = 0;

		if (splice(fd, &at, ends[1], NULL, PAGE, 0) != PAGE ||
		    splice(ends[0], NULL, sink, NULL, PAGE, 0) != PAGE)
			fail("splice");
	}
	close(ends[0]);
	close(ends[1]);
	close(sink);
	close(fd);
}

/* A page of a file into another one, which the kernel copies. */
static void send_file(void)
{
	int from = open_page(TMPFS_FILE), to = open_page(TMPFS_FILE "2");
	unsigned int i;

	for (i = 0; i < times; i++) {
		off_t at = 0;

		if (lseek(to, 0, SEEK_SET) || sendfile(to, from, &at, PAGE) != PAGE)
			fail("sendfile");
	}
	close(to);
	close(from);
}

/* One thread reads a file and another writes it, on two CPUs if there are. */
static void thread_files(void)
{
	pthread_t writer;

	if (pthread_create(&writer, NULL, write_meanwhile, NULL))
		fail("thread");
	tmpfs_read();
	pthread_join(writer, NULL);
}

static void vm_exit(void)
{
	guest_exits(times);
}

static void vm_msr(void)
{
	guest_reads_msrs(times);
}

static void vm_halt(void)
{
	guest_halts(times);
}

static void vm_io(void)
{
	guest_leaves(times);
}

static void vm_fault(void)
{
	guest_faults(times);
}

static const struct {
	const char *name;
	void (*run)(void);
	/* Done once for so many times of others. */
	unsigned int per;
} operations[] = {
	{ "nothing", nothing, 1 },
	{ "null-syscall", null_syscall, 1 },
	{ "threads", threads, 1 },
	{ "kernel-thread", kernel_thread, 1 },
	{ "pipe-ping-pong", pipe_ping_pong, 1 },
	{ "anonymous-fault", anonymous_fault, 1 },
	{ "cow-fault", cow_fault, 1 },
	{ "shared-fault", shared_fault, 1 },
	{ "fork-exec", fork_exec, 1 },
	{ "tmpfs-write", tmpfs_write, 1 },
	{ "tmpfs-read", tmpfs_read, 1 },
	{ "thread-files", thread_files, 1 },
	{ "splice", splice_file, 1 },
	{ "sendfile", send_file, 1 },
	{ "build-like", build, BUILD_PER },
	{ "vm-exit", vm_exit, 1 },
	{ "vm-msr", vm_msr, 1 },
	{ "vm-halt", vm_halt, 10 },
	{ "vm-io", vm_io, 1 },
	{ "vm-fault", vm_fault, 1 },
};

static void run(size_t which, unsigned int all)
{
	unsigned int per = operations[which].per;

	times = all < per ? 1 : all / per;
	operations[which].run();
}

int main(int argc, char *argv[])
{
	static const struct timespec cleared = { .tv_nsec = CLEARED_NS };
	static struct counters before, after;
	unsigned int all, i, j;

	if (argc != 2) {
		fprintf(stderr, "usage: exits N\n");
		return 2;
	}
	all = strtoul(argv[1], NULL, 10);
	if (!all)
		return 0;

	sleep(SETTLE_S);
	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		/* The first run does what later ones need not. */
		run(i, all < 16 ? all : 16);
		fflush(stdout);
		nanosleep(&cleared, NULL);
		look(&before);
		look(&before);
		run(i, all);
		look(&after);
		printf("@exits: operation=%s times=%u", operations[i].name, times);
		for (j = 0; j < after.nr; j++)
			printf(" %s=%llu", after.names[j],
			       after.values[j] - before.values[j]);
		printf("\n");
	}
	return 0;
}
