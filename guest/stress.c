// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the kernel busy with page tables, and check every byte on the way.
 *
 * Workers share the operations out, to do each once, and then pick at random
 * until the time is up. Each operation knows what it must find afterwards;
 * anything else is an error, and one error makes the whole run fail. A worker
 * that dies is an error, too. Operations are small: in an emulated machine a
 * page fault takes milliseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"

#define MAX_WORKERS	64
#define EXEC_CHILD	"--exec-child"

#define KB		1024UL
#define MB		(1024 * KB)
#define GB		(1024 * MB)

static size_t page;

/* One random stream for each worker: any seed but zero. */
static u64 random_state = 1;

static u64 rnd(u64 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

#define check(condition) check_at((condition), #condition, __func__, __LINE__)

/* Report what went wrong; the operation returns false and is counted. */
static bool check_at(bool ok, const char *condition, const char *func, int line)
{
	if (!ok)
		fprintf(stderr, "stress: %s:%d: not so: %s (errno %d: %s)\n",
			func, line, condition, errno, strerror(errno));
	return ok;
}

static void *map(size_t length, int flags)
{
	void *m = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       flags | MAP_ANONYMOUS, -1, 0);

	return m == MAP_FAILED ? NULL : m;
}

/* A value for each page that depends on where it is meant to be. */
static void fill(char *m, size_t pages, u64 seed)
{
	size_t i;

	for (i = 0; i < pages; i++)
		*(u64 *)(m + i * page) = seed + i;
}

static bool filled(const char *m, size_t pages, u64 seed)
{
	size_t i;

	for (i = 0; i < pages; i++)
		if (*(const u64 *)(m + i * page) != seed + i)
			return false;
	return true;
}

/* Whether @pid ended by itself with @status. */
static bool ended_with(pid_t pid, int status)
{
	int got;

	return pid > 0 && waitpid(pid, &got, 0) == pid && WIFEXITED(got) &&
	       WEXITSTATUS(got) == status;
}

/* === Operations === */

static bool op_map(void)
{
	size_t pages = 1 + rnd(64);
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE);
	bool ok;

	if (!check(m))
		return false;
	ok = check(!*(u64 *)m);
	fill(m, pages, seed);
	ok &= check(filled(m, pages, seed));
	return check(!munmap(m, pages * page)) && ok;
}

/* Pages so far apart that each needs tables of its own, at every level. */
static bool op_sparse(void)
{
	static const size_t strides[] = { 2 * MB, 64 * MB, GB };
	size_t stride = strides[rnd(ARRAY_SIZE(strides))];
	size_t n = 16, i;
	char *m, *moved;
	bool ok = true;

	m = map(n * stride, MAP_PRIVATE | MAP_NORESERVE);
	if (!check(m))
		return false;
	for (i = 0; i < n; i++)
		*(u64 *)(m + i * stride) = i + 1;
	for (i = 0; i < n; i++)
		ok &= check(*(u64 *)(m + i * stride) == i + 1);

	/* Grow it, so that it moves unless there happens to be room. */
	if (stride == 2 * MB) {
		moved = mremap(m, n * stride, 2 * GB, MREMAP_MAYMOVE);
		if (!check(moved != MAP_FAILED))
			return false;
		for (i = 0; i < n; i++)
			ok &= check(*(u64 *)(moved + i * stride) == i + 1);
		return check(!munmap(moved, 2 * GB)) && ok;
	}
	return check(!munmap(m, n * stride)) && ok;
}

static bool op_fork(void)
{
	size_t pages = 1 + rnd(32);
	u64 mine = rnd(~0UL), other = rnd(~0UL);
	char *priv = map(pages * page, MAP_PRIVATE);
	char *shared = map(pages * page, MAP_SHARED);
	bool ok = check(priv) && check(shared);
	pid_t pid;

	if (!ok)
		return false;
	fill(priv, pages, mine);
	pid = fork();
	if (!pid) {
		if (!filled(priv, pages, mine))
			_exit(1);
		fill(priv, pages, other);
		fill(shared, pages, other);
		_exit(filled(priv, pages, other) ? 0 : 2);
	}
	ok &= check(ended_with(pid, 0));
	ok &= check(filled(priv, pages, mine));
	ok &= check(filled(shared, pages, other));
	munmap(priv, pages * page);
	munmap(shared, pages * page);
	return ok;
}

static bool op_exec(void)
{
	char status[8];
	int want = rnd(100);
	pid_t pid;

	snprintf(status, sizeof(status), "%d", want);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "stress", EXEC_CHILD, status, NULL);
		_exit(255);
	}
	return check(ended_with(pid, want));
}

static sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, sig);
}

/* Whether a plain write to @where faults. */
static bool write_faults(char *where)
{
	struct sigaction catch = { .sa_handler = on_fault }, old;
	bool faulted = true;

	sigaction(SIGSEGV, &catch, &old);
	if (!sigsetjmp(fault_jump, 1)) {
		__atomic_store_n(where, 1, __ATOMIC_RELAXED);
		faulted = false;
	}
	sigaction(SIGSEGV, &old, NULL);
	return faulted;
}

static bool op_protect(void)
{
	size_t pages = 3 + rnd(16);
	size_t odd = 1 + rnd(pages - 2);
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE);
	bool ok;

	if (!check(m))
		return false;
	fill(m, pages, seed);
	/* In the middle, so that the mapping is split and merged again. */
	ok = check(!mprotect(m + odd * page, page, PROT_READ));
	ok &= check(write_faults(m + odd * page));
	ok &= check(!write_faults(m + odd * page - 1));
	ok &= check(!write_faults(m + odd * page + page + 8));
	ok &= check(!mprotect(m, pages * page, PROT_NONE));
	ok &= check(write_faults(m));
	ok &= check(!mprotect(m, pages * page, PROT_READ | PROT_WRITE));
	ok &= check(!write_faults(m + odd * page + 8));
	ok &= check(filled(m, pages, seed));
	munmap(m, pages * page);
	return ok;
}

static bool op_remap(void)
{
	size_t pages = 1 + rnd(16), more = pages + 1 + rnd(64);
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE), *to, *moved;
	bool ok;

	if (!check(m))
		return false;
	fill(m, pages, seed);
	m = mremap(m, pages * page, more * page, MREMAP_MAYMOVE);
	if (!check(m != MAP_FAILED))
		return false;
	ok = check(filled(m, pages, seed));
	fill(m, more, seed);

	to = map(more * page, MAP_PRIVATE);
	if (!check(to))
		return false;
	moved = mremap(m, more * page, more * page,
		       MREMAP_MAYMOVE | MREMAP_FIXED, to);
	ok &= check(moved == to);
	ok &= check(filled(to, more, seed));
	munmap(to, more * page);
	return ok;
}

static bool op_advise(void)
{
	size_t pages = 2 + rnd(64), half = pages / 2;
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE);
	size_t i;
	bool ok;

	if (!check(m))
		return false;
	fill(m, pages, seed);
	ok = check(!madvise(m, half * page, MADV_DONTNEED));
	for (i = 0; i < half; i++)
		ok &= check(!*(u64 *)(m + i * page));
	ok &= check(filled(m + half * page, pages - half, seed + half));
	munmap(m, pages * page);
	return ok;
}

static bool op_file(void)
{
	size_t pages = 1 + rnd(32);
	u64 seed = rnd(~0UL), value;
	FILE *file = tmpfile();
	bool ok;
	char *m;
	int fd;

	if (!check(file))
		return false;
	fd = fileno(file);
	ok = check(!ftruncate(fd, pages * page));
	m = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!check(m != MAP_FAILED)) {
		fclose(file);
		return false;
	}
	fill(m, pages, seed);
	ok &= check(pread(fd, &value, sizeof(value), (pages - 1) * page) ==
		    sizeof(value) && value == seed + pages - 1);
	value = ~seed;
	ok &= check(pwrite(fd, &value, sizeof(value), 0) == sizeof(value));
	ok &= check(*(u64 *)m == ~seed);
	munmap(m, pages * page);
	fclose(file);
	return ok;
}

static bool op_pipe(void)
{
	size_t size = 128 * KB, i;
	char *out = map(size, MAP_PRIVATE), *in = map(size, MAP_PRIVATE);
	int fds[2];
	bool ok = check(out) && check(in) && check(!pipe(fds));

	if (!ok)
		return false;
	for (i = 0; i < size; i++)
		out[i] = i * 31;
	ok = check(fcntl(fds[1], F_SETPIPE_SZ, size) >= (int)size);
	/* Into a full pipe at once, so that it does not block. */
	ok = ok && check(write(fds[1], out, size) == (ssize_t)size);
	for (i = 0; ok && i < size;) {
		ssize_t n = read(fds[0], in + i, size - i);

		ok = check(n > 0);
		i += ok ? n : 0;
	}
	ok = ok && check(!memcmp(in, out, size));
	close(fds[0]);
	close(fds[1]);
	munmap(in, size);
	munmap(out, size);
	return ok;
}

static void *thread_main(void *arg)
{
	u64 seed = (u64)arg;
	size_t pages = 16;
	char *m = map(pages * page, MAP_PRIVATE);
	bool ok;

	if (!m)
		return NULL;
	fill(m, pages, seed);
	ok = filled(m, pages, seed);
	munmap(m, pages * page);
	return ok ? arg : NULL;
}

static bool op_threads(void)
{
	pthread_t threads[4];
	size_t n, i;
	bool ok = true;
	void *result;

	for (n = 0; n < ARRAY_SIZE(threads); n++) {
		if (!check(!pthread_create(&threads[n], NULL, thread_main,
					   (void *)(n + 1)))) {
			ok = false;
			break;
		}
	}
	for (i = 0; i < n; i++) {
		ok &= check(!pthread_join(threads[i], &result));
		ok &= check(result == (void *)(i + 1));
	}
	return ok;
}

/* kB that the kernel has mapped by vmalloc; 0 if it does not say. */
static unsigned long vmalloc_used(void)
{
	unsigned long kb = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmallocUsed: %lu kB", &kb) == 1)
			break;
	fclose(file);
	return kb;
}

/*
 * A table of file descriptors too large for the page allocator: the kernel has
 * to vmalloc it, and to vfree it when the child ends.
 */
static bool op_vmalloc(void)
{
	const rlim_t fds = 600 * KB;
	struct rlimit limit = { .rlim_cur = fds, .rlim_max = fds };
	pid_t pid = fork();

	if (!pid) {
		if (setrlimit(RLIMIT_NOFILE, &limit))
			_exit(1);
		if (dup2(STDIN_FILENO, fds - 1) != (int)fds - 1)
			_exit(2);
		if (vmalloc_used() < fds * sizeof(void *) / KB)
			_exit(3);
		_exit(0);
	}
	return check(ended_with(pid, 0));
}

struct op {
	const char *name;
	bool (*run)(void);
};

static const struct op ops[] = {
	{ "map", op_map },
	{ "sparse", op_sparse },
	{ "fork", op_fork },
	{ "exec", op_exec },
	{ "protect", op_protect },
	{ "remap", op_remap },
	{ "advise", op_advise },
	{ "file", op_file },
	{ "pipe", op_pipe },
	{ "threads", op_threads },
	{ "vmalloc", op_vmalloc },
};

/* === Workers === */

struct counts {
	u64 done[ARRAY_SIZE(ops)];
	u64 errors;
};

static u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000UL + t.tv_nsec / 1000000;
}

static void do_one(struct counts *counts, size_t i)
{
	errno = 0;
	if (!ops[i].run())
		counts->errors++;
	counts->done[i]++;
}

static void work(struct counts *counts, size_t index, size_t workers, u64 until)
{
	size_t i;

	random_state = 0x9e3779b97f4a7c15UL * (index + 1);
	for (i = index; i < ARRAY_SIZE(ops); i += workers)
		do_one(counts, i);
	while (now_ms() < until)
		do_one(counts, rnd(ARRAY_SIZE(ops)));
}

static int report(const struct counts *counts, size_t workers, u64 lost)
{
	u64 total = 0, errors = lost;
	size_t w, i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		u64 done = 0;

		for (w = 0; w < workers; w++)
			done += counts[w].done[i];
		printf("%s%s=%llu", i ? " " : "stress: ", ops[i].name, done);
		total += done;
	}
	for (w = 0; w < workers; w++)
		errors += counts[w].errors;
	printf("\n@stress: ops=%llu errors=%llu\n", total, errors);
	return total && !errors ? 0 : 1;
}

static int run_workers(unsigned long seconds, size_t workers)
{
	struct counts *counts = map(workers * sizeof(*counts), MAP_SHARED);
	u64 until = now_ms() + seconds * 1000, lost = 0;
	size_t started;
	int status;

	if (!counts) {
		perror("stress: mmap");
		return 2;
	}
	for (started = 0; started < workers; started++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("stress: fork");
			lost++;
			break;
		}
		if (!pid) {
			work(&counts[started], started, workers, until);
			_exit(0);
		}
	}
	while (wait(&status) > 0) {
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "stress: a worker died: status %#x\n",
				status);
			lost++;
		}
	}
	return report(counts, workers, lost);
}

static bool number(const char *text, unsigned long limit, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno &&
	       *value && *value <= limit;
}

int main(int argc, char **argv)
{
	unsigned long seconds, workers = 4;

	page = sysconf(_SC_PAGESIZE);
	if (argc == 3 && !strcmp(argv[1], EXEC_CHILD))
		return op_map() ? atoi(argv[2]) : 254;

	if (argc < 2 || argc > 3 || !number(argv[1], 86400, &seconds) ||
	    (argc > 2 && !number(argv[2], MAX_WORKERS, &workers))) {
		fprintf(stderr,
			"usage: stress SECONDS [WORKERS]   (at most 86400 and %d)\n",
			MAX_WORKERS);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return run_workers(seconds, workers);
}
