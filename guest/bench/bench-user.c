// SPDX-License-Identifier: GPL-2.0-only
/*
 * Workloads of the benchmark that a program runs, as its user sees them.
 *
 *   bpf-run        a BPF program that does nothing is run SIZE times
 *   buildlike      the program of that name, with SIZE compilations
 *   dm-crypt       SIZE bytes are read from an encrypted disk
 *   file-read      SIZE bytes are read somewhere in a file
 *   file-read-large  the same of a file in large pages
 *   fio-randread   fio-randread.sh, which reads a file of SIZE bytes
 *   file-write     SIZE bytes are written somewhere in a file
 *   kernbench      kernbench.sh, which builds a part of a kernel
 *   key-read       the data of a key is read, SIZE bytes
 *   null-syscall   a system call that does next to nothing
 *   open-close     a file is opened and closed
 *   page-cache     a file of SIZE bytes is written page by page, and deleted
 *   pipe           a byte goes through a pipe to another process, and one back
 *   read-by-two    two processes at a time read READS times SIZE bytes somewhere
 *                  in a file, the second of which is made for that
 *   secret-memory  SIZE bytes that only this process reads are mapped, touched
 *                  and unmapped
 *   storm          SIZE processes at the same time, each with 32 page tables of
 *                  its own, which then all end
 *   vm-exit        a guest of KVM leaves SIZE times to the kernel, which handles
 *                  that, and once to user mode
 *   thread-switch  another thread runs, and then this one again
 *   boot           no operation: what the clock of the CPU showed when this
 *                  program started. Where it counts instructions, that is how
 *                  many it took from reset to here
 *
 * Of a script the time counts that its processes had a CPU, which is printed
 * for user mode and for the kernel as well: fio also waits.
 *
 * What the kernel counts is printed behind its time, and by the last two also
 * how it maps its memory, in pages of each size, and the blocks of the pool.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench-user.h"
#ifdef __x86_64__
#include "guests.h"
#endif

#define STATS	"/sys/kernel/debug/kpkeys/stats"
#define POOL	"/sys/kernel/debug/kpkeys/pool"
#define MEMINFO	"/proc/meminfo"
#define BUILD	"/bin/buildlike"
#define SCRIPTS	"/usr/lib/redoubt/"
#define FILE_NAME	"/bench-page-cache"
#define KEPT_NAME	"/bench-file"
#define LARGE_DIR	"/bench-large"
#define LARGE_NAME	LARGE_DIR "/file"
#define KEPT_SIZE	(8UL << 20)
#define KEPT_MOST	(2UL << 20)	/* at a time */

#define READS		256		/* of each of two processes */

#define MAX_STATS	64
#define TABLE_REACH	(2UL << 20)	/* what one table of entries maps */
#define STORM_TABLES	32

struct stats {
	unsigned int nr;
	char names[MAX_STATS][32];
	u64 values[MAX_STATS];
};

/* Pages of the direct map by size, and blocks of the pool of page tables. */
struct layout {
	u64 kib[3];
	u64 blocks;
};

static const struct {
	const char *label, *name;
	unsigned int page_kib;
} sizes[3] = {
	{ "DirectMap4k", "direct_map_4k", 4 },
	{ "DirectMap2M", "direct_map_2m", 2048 },
	{ "DirectMap1G", "direct_map_1g", 1048576 },
};

/* When this program started. */
static u64 first_tsc, first_ns;
static struct layout first_layout;

static u64 now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* === What the kernel says === */

/* The counters of the kernel, if it has them. */
static void read_stats(struct stats *stats)
{
	FILE *file = fopen(STATS, "re");
	unsigned long long value;

	stats->nr = 0;
	if (!file)
		return;
	while (stats->nr < MAX_STATS &&
	       fscanf(file, "%31s %llu", stats->names[stats->nr], &value) == 2)
		stats->values[stats->nr++] = value;
	fclose(file);
}

/* How many KiB there are of something; 0 if it is not told. */
static u64 meminfo(const char *wanted)
{
	FILE *file = fopen(MEMINFO, "re");
	unsigned long long value, found = 0;
	char line[256], label[32];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%31[^:]: %llu kB", label, &value) == 2 &&
		    !strcmp(label, wanted))
			found = value;
	if (file)
		fclose(file);
	return found;
}

/* A missing value is 0: no pool, or no pages of that size. */
static void read_layout(struct layout *layout)
{
	unsigned long long value;
	char line[256];
	FILE *file;
	size_t i;

	memset(layout, 0, sizeof(*layout));
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		layout->kib[i] = meminfo(sizes[i].label);

	file = fopen(POOL, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "node %*d blocks %llu", &value) == 1)
			layout->blocks += value;
	if (file)
		fclose(file);
}

/* === Operations === */

static void run_program(char *const argv[])
{
	int status, err;
	pid_t pid;

	err = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
	if (err)
		die("%s: %s", argv[0], strerror(err));
	if (waitpid(pid, &status, 0) != pid)
		die("%s: %s", argv[0], strerror(errno));
	if (status)
		die("%s %s failed (status %#x)", argv[0], argv[1], status);
}

static void build(u64 units)
{
	char program[] = BUILD, count[24];
	char *argv[] = { program, count, NULL };

	snprintf(count, sizeof(count), "%llu", (unsigned long long)units);
	run_program(argv);
}

static void null_syscall(u64 unused)
{
	(void)unused;
	syscall(SYS_getppid);
}

static void open_close(u64 unused)
{
	int fd = open(BUILD, O_RDONLY | O_CLOEXEC);

	(void)unused;
	if (fd < 0)
		die("%s: %s", BUILD, strerror(errno));
	close(fd);
}

static void page_cache(u64 size)
{
	static const char page[4096];
	int fd = open(FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	u64 done;

	if (fd < 0 || unlink(FILE_NAME))
		die("%s: %s", FILE_NAME, strerror(errno));
	for (done = 0; done < size; done += sizeof(page))
		if (write(fd, page, sizeof(page)) != sizeof(page))
			die("%s: %s", FILE_NAME, strerror(errno));
	close(fd);
}

static char content[KEPT_MOST];

static int new_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	u64 done;

	if (fd < 0)
		die("%s: %s", name, strerror(errno));
	memset(content, 1, sizeof(content));
	for (done = 0; done < KEPT_SIZE; done += sizeof(content))
		if (write(fd, content, sizeof(content)) != sizeof(content))
			die("%s: %s", name, strerror(errno));
	return fd;
}

/* A file with something in it, which stays open. */
static int kept_file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = new_file(KEPT_NAME);
	return fd;
}

/* The same in large pages only. */
static int large_file(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	if (mkdir(LARGE_DIR, 0700) ||
	    mount("tmpfs", LARGE_DIR, "tmpfs", 0, "huge=always"))
		die("%s: %s", LARGE_DIR, strerror(errno));
	fd = new_file(LARGE_NAME);
	if (meminfo("ShmemHugePages") < KEPT_SIZE >> 10)
		die("%s: not in large pages", LARGE_NAME);
	return fd;
}

/* The same places each time it is measured. */
static off_t somewhere(u64 size)
{
	static u64 seed;

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % (KEPT_SIZE / size) * size;
}

static void file_read(u64 size)
{
	if (pread(kept_file(), content, size, somewhere(size)) != (ssize_t)size)
		die("%s: %s", KEPT_NAME, strerror(errno));
}

static void file_read_large(u64 size)
{
	if (pread(large_file(), content, size, somewhere(size)) != (ssize_t)size)
		die("%s: %s", LARGE_NAME, strerror(errno));
}

static void read_often(u64 size)
{
	unsigned int i;

	for (i = 0; i < READS; i++)
		file_read(size);
}

static void read_by_two(u64 size)
{
	int status;
	pid_t pid;

	kept_file();
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	read_often(size);
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the other process failed");
}

static void file_write(u64 size)
{
	if (pwrite(kept_file(), content, size, somewhere(size)) != (ssize_t)size)
		die("%s: %s", KEPT_NAME, strerror(errno));
}

static void key_read(u64 size)
{
	static long key;

	if (!key) {
		key = syscall(SYS_add_key, "user", "bench", content, size,
			      KEY_SPEC_PROCESS_KEYRING);
		if (key < 0)
			die("add_key: %s", strerror(errno));
	}
	if (syscall(SYS_keyctl, KEYCTL_READ, key, content, size, 0) != (long)size)
		die("reading a key: %s", strerror(errno));
}

static void secret_memory(u64 size)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	long page = sysconf(_SC_PAGESIZE);
	int fd = syscall(SYS_memfd_secret, 0);
	volatile char *memory;
	u64 at;

	if (fd < 0 || setrlimit(RLIMIT_MEMLOCK, &all) || ftruncate(fd, size))
		die("memfd_secret: %s", strerror(errno));
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		die("mapping secret memory: %s", strerror(errno));
	for (at = 0; at < size; at += page)
		memory[at] = 1;
	munmap((void *)memory, size);
	close(fd);
}

/* === Turns: who takes them with us is there for a sample, and has begun === */

static int there[2], back[2];
static pid_t echoing;

static void pipe_turn(u64 unused)
{
	char byte = 0;

	(void)unused;
	if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
		die("pipe: %s", strerror(errno));
}

static void echo_process(void)
{
	char byte;

	if (pipe(there) || pipe(back))
		die("pipe: %s", strerror(errno));
	echoing = fork();
	if (echoing < 0)
		die("fork: %s", strerror(errno));
	if (echoing) {
		pipe_turn(0);
		return;
	}
	close(there[1]);
	close(back[0]);
	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			_exit(1);
	_exit(0);
}

static void end_process(void)
{
	int status;

	close(there[1]);
	if (waitpid(echoing, &status, 0) != echoing || status)
		die("the other process failed");
	close(there[0]);
	close(back[0]);
	close(back[1]);
}

static pthread_t answering;
static sem_t asked, answered;
static bool answer_no_more;

static void *answer(void *unused)
{
	(void)unused;
	for (;;) {
		sem_wait(&asked);
		if (answer_no_more)
			return NULL;
		sem_post(&answered);
	}
}

static void thread_turn(u64 unused)
{
	(void)unused;
	sem_post(&asked);
	sem_wait(&answered);
}

static void answer_thread(void)
{
	answer_no_more = false;
	if (sem_init(&asked, 0, 0) || sem_init(&answered, 0, 0) ||
	    pthread_create(&answering, NULL, answer, NULL))
		die("thread");
	thread_turn(0);
}

static void end_thread(void)
{
	answer_no_more = true;
	sem_post(&asked);
	pthread_join(answering, NULL);
}

/* === Many === */

/* Touch all of @memory, say so, and live until the parent lets go. */
static noreturn void storm_child(volatile char *memory, int ready, int go)
{
	unsigned int i;
	char byte = 0;

	for (i = 0; i < STORM_TABLES; i++)
		memory[i * TABLE_REACH] = 1;
	if (write(ready, &byte, 1) != 1)
		_exit(1);
	_exit(read(go, &byte, 1) ? 1 : 0);
}

static void storm(u64 processes)
{
	volatile char *memory;
	int ready[2], go[2], status;
	char byte;
	pid_t pid;
	u64 i;

	memory = mmap(NULL, STORM_TABLES * TABLE_REACH, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || pipe(ready) || pipe(go))
		die("storm: %s", strerror(errno));
	for (i = 0; i < processes; i++) {
		pid = fork();
		if (pid < 0)
			die("storm: fork: %s", strerror(errno));
		if (!pid) {
			close(ready[0]);
			close(go[1]);
			storm_child(memory, ready[1], go[0]);
		}
	}
	close(ready[1]);
	for (i = 0; i < processes; i++)
		if (read(ready[0], &byte, 1) != 1)
			die("storm: a process died");
	close(go[1]);
	for (i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			die("storm: a process failed (status %#x)", status);
	close(ready[0]);
	close(go[0]);
	munmap((void *)memory, STORM_TABLES * TABLE_REACH);
}

#ifdef __x86_64__
static void vm_exit(u64 exits)
{
	guest_exits(exits);
}
#endif

static const struct {
	const char *name;
	void (*run)(u64 size);
	/* Before a sample and after it. */
	void (*begin)(void);
	void (*end)(void);
} workloads[] = {
	{ "bpf-run", bpf_run, NULL, NULL },
	{ "buildlike", build, NULL, NULL },
	{ "dm-crypt", dm_crypt_read, NULL, NULL },
	{ "file-read", file_read, NULL, NULL },
	{ "file-read-large", file_read_large, NULL, NULL },
	{ "file-write", file_write, NULL, NULL },
	{ "key-read", key_read, NULL, NULL },
	{ "null-syscall", null_syscall, NULL, NULL },
	{ "open-close", open_close, NULL, NULL },
	{ "page-cache", page_cache, NULL, NULL },
	{ "pipe", pipe_turn, echo_process, end_process },
	{ "read-by-two", read_by_two, NULL, NULL },
	{ "secret-memory", secret_memory, NULL, NULL },
	{ "storm", storm, NULL, NULL },
	{ "thread-switch", thread_turn, answer_thread, end_thread },
#ifdef __x86_64__
	{ "vm-exit", vm_exit, NULL, NULL },
#endif
};

static const char *const scripts[] = { "fio-randread", "kernbench" };

/* === Samples === */

static __attribute__((format(printf, 4, 5)))
size_t add(char *line, size_t room, size_t used, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	used += vsnprintf(line + used, room - used, format, args);
	va_end(args);
	if (used >= room)
		die("the statistics of this kernel do not fit into a line");
	return used;
}

static size_t add_time(char *line, size_t room, const char *workload, u64 size,
		       unsigned int ops, u64 ns)
{
	return add(line, room, 0,
		   "workload=%s size=%llu ops=%u ns=%llu host_ns=0 host_calls=0 tables=0 free_ns=0",
		   workload, (unsigned long long)size, ops,
		   (unsigned long long)ns);
}

static void add_layout(char *line, size_t room, size_t used,
		       const struct layout *layout)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		used = add(line, room, used, " stat_%s=%llu", sizes[i].name,
			   (unsigned long long)layout->kib[i] /
			   sizes[i].page_kib);
	add(line, room, used, " stat_pool_blocks=%llu",
	    (unsigned long long)layout->blocks);
}

/* The first thing that a program does: what comes later is not the boot's. */
void user_start(void)
{
	first_tsc = cpu_counter();
	first_ns = now(CLOCK_BOOTTIME);
	read_layout(&first_layout);
}

static void sample_boot(u64 size, unsigned int ops, char *line, size_t room)
{
	size_t used = add_time(line, room, "boot", size, ops, first_tsc);

	used = add(line, room, used, " stat_clock_ns=%llu",
		   (unsigned long long)first_ns);
	add_layout(line, room, used, &first_layout);
}

static size_t add_stats(char *line, size_t room, size_t used,
			const struct stats *before, const struct stats *after)
{
	unsigned int i;

	for (i = 0; i < after->nr; i++)
		used = add(line, room, used, " stat_%s=%llu", after->names[i],
			   (unsigned long long)(after->values[i] -
						before->values[i]));
	return used;
}

static u64 nanoseconds(struct timeval tv)
{
	return tv.tv_sec * 1000000000ULL + tv.tv_usec * 1000ULL;
}

/* The script prepares a sample, runs an operation, and cleans up. */
static void run_script(const char *name, const char *step, u64 size)
{
	char program[64], word[16], number[24];
	char *argv[] = { program, word, number, NULL };

	snprintf(program, sizeof(program), SCRIPTS "%s.sh", name);
	snprintf(word, sizeof(word), "%s", step);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)size);
	run_program(argv);
}

static void sample_script(const char *name, u64 size, unsigned int ops,
			  char *line, size_t room)
{
	static struct stats before, after;
	struct rusage begin, end;
	u64 user, system;
	unsigned int i;
	size_t used;

	run_script(name, "prepare", size);
	read_stats(&before);
	getrusage(RUSAGE_CHILDREN, &begin);
	for (i = 0; i < ops; i++)
		run_script(name, "measure", size);
	getrusage(RUSAGE_CHILDREN, &end);
	read_stats(&after);
	run_script(name, "clean", size);

	user = nanoseconds(end.ru_utime) - nanoseconds(begin.ru_utime);
	system = nanoseconds(end.ru_stime) - nanoseconds(begin.ru_stime);
	used = add_time(line, room, name, size, ops, user + system);
	used = add(line, room, used, " stat_user_ns=%llu stat_system_ns=%llu",
		   (unsigned long long)user, (unsigned long long)system);
	add_stats(line, room, used, &before, &after);
}

static void sample_run(size_t which, u64 size, unsigned int ops, char *line,
		       size_t room)
{
	static struct stats before, after;
	struct layout layout;
	unsigned int i;
	size_t used;
	u64 begin, end;

	if (workloads[which].begin)
		workloads[which].begin();
	read_stats(&before);
	begin = now(CLOCK_MONOTONIC);
	for (i = 0; i < ops; i++)
		workloads[which].run(size);
	end = now(CLOCK_MONOTONIC);
	read_stats(&after);
	if (workloads[which].end)
		workloads[which].end();

	used = add_time(line, room, workloads[which].name, size, ops,
			end - begin);
	used = add_stats(line, room, used, &before, &after);
	if (workloads[which].run == storm) {
		read_layout(&layout);
		add_layout(line, room, used, &layout);
	}
}

/* Take a sample of what is ours; the line has no end. False if it is not. */
bool user_sample(const char *workload, u64 size, unsigned int ops, char *line,
		 size_t room)
{
	size_t i;

	if (!strcmp(workload, "boot")) {
		sample_boot(size, ops, line, room);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(workload, scripts[i]))
			continue;
		sample_script(scripts[i], size, ops, line, room);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(workloads); i++) {
		if (strcmp(workload, workloads[i].name))
			continue;
		sample_run(i, size, ops, line, room);
		return true;
	}
	return false;
}
