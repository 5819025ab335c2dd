// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the kernel busy with page tables and credentials, and check every byte on
 * the way.
 *
 * Workers share the operations out, to do each once, and then pick at random
 * until the time is up. Each operation knows what it must find afterwards;
 * anything else is an error, and one error makes the whole run fail. A worker
 * that dies is an error, too. Operations are small: in an emulated machine a
 * page fault takes milliseconds.
 *
 * With --scarce the kernel may refuse memory at any time. An operation that is
 * told so ends there and is counted apart; what it finds in memory must still
 * be right.
 *
 * Not every machine has everything: the last line says what was left out. All
 * else has to happen once at least.
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
#include "stress.h"

#define MAX_WORKERS	64
/* How often to try what may not happen. */
#define TRIES		10
#define EXEC_CHILD	"--exec-child"
#define SCARCE		"--scarce"

/* Exit statuses of children that were refused memory, or found it wrong. */
#define CHILD_REFUSED	253
#define CHILD_WRONG	254

size_t page;

/* One random stream for each worker: any seed but zero. */
static u64 random_state = 1;

u64 rnd(u64 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

bool scarce, refused, wrong, missed;

/* Report what went wrong; the operation returns false and is counted. */
bool check_at(bool ok, const char *condition, const char *func, int line)
{
	if (!ok) {
		wrong = true;
		fprintf(stderr, "stress: %s:%d: not so: %s (errno %d: %s)\n",
			func, line, condition, errno, strerror(errno));
	}
	return ok;
}

/* The ways to say that there is no memory: for inodes, files, user copies. */
bool means_refused(int err)
{
	return err == ENOMEM || err == EAGAIN || err == ENOSPC ||
	       err == ENFILE || err == EFAULT;
}

/* The same for a system call that takes memory and sets errno. */
bool need_at(bool ok, const char *condition, const char *func, int line)
{
	if (ok || !scarce || !means_refused(errno))
		return check_at(ok, condition, func, line);
	refused = true;
	return false;
}

void *map(size_t length, int flags)
{
	void *m = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       flags | MAP_ANONYMOUS, -1, 0);

	return m == MAP_FAILED ? NULL : m;
}

/* Even to unmap takes memory, if a mapping has to be split. */
bool unmap(void *m, size_t length)
{
	int err;

	do {
		err = munmap(m, length);
	} while (err && scarce && means_refused(errno));
	return check(!err);
}

/* A value for each page that depends on where it is meant to be. */
void fill(char *m, size_t pages, u64 seed)
{
	size_t i;

	for (i = 0; i < pages; i++)
		*(u64 *)(m + i * page) = seed + i;
}

bool filled(const char *m, size_t pages, u64 seed)
{
	size_t i;

	for (i = 0; i < pages; i++)
		if (*(const u64 *)(m + i * page) != seed + i)
			return false;
	return true;
}

/* Whether @pid was started and ended by itself with @status. */
bool ended_with(pid_t pid, int status)
{
	int got;

	if (!need(pid > 0) || !check(waitpid(pid, &got, 0) == pid))
		return false;
	if (scarce && WIFEXITED(got) && WEXITSTATUS(got) == CHILD_REFUSED) {
		refused = true;
		return false;
	}
	if (WIFEXITED(got) && WEXITSTATUS(got) == status)
		return true;
	fprintf(stderr, "stress: a child ended with %#x\n", got);
	return check(false);
}

/* What a child ends with that has done an operation: @status if it was @ok. */
int child_status(bool ok, int status)
{
	return ok ? status : wrong ? CHILD_WRONG : CHILD_REFUSED;
}

/* === Operations === */

static bool op_map(void)
{
	size_t pages = 1 + rnd(64);
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE);
	bool ok;

	if (!need(m))
		return false;
	ok = check(!*(u64 *)m);
	fill(m, pages, seed);
	ok &= check(filled(m, pages, seed));
	return unmap(m, pages * page) && ok;
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
	if (!need(m))
		return false;
	for (i = 0; i < n; i++)
		*(u64 *)(m + i * stride) = i + 1;
	for (i = 0; i < n; i++)
		ok &= check(*(u64 *)(m + i * stride) == i + 1);

	/* Grow it, so that it moves unless there happens to be room. */
	if (stride == 2 * MB) {
		moved = mremap(m, n * stride, 2 * GB, MREMAP_MAYMOVE);
		if (!need(moved != MAP_FAILED)) {
			unmap(m, n * stride);
			return false;
		}
		for (i = 0; i < n; i++)
			ok &= check(*(u64 *)(moved + i * stride) == i + 1);
		return unmap(moved, 2 * GB) && ok;
	}
	return unmap(m, n * stride) && ok;
}

/* More tables at a time than a pool has lying about: it has to grow. */
static bool op_tables(void)
{
	size_t n = 700, i;
	char *m = map(n * 2 * MB, MAP_PRIVATE | MAP_NORESERVE);
	bool ok = true;

	if (!need(m))
		return false;
	/* Reading takes the zero page, and no memory but for tables. */
	for (i = 0; i < n; i++)
		ok &= check(!*(volatile u64 *)(m + i * 2 * MB));
	return unmap(m, n * 2 * MB) && ok;
}

static bool op_fork(void)
{
	size_t pages = 1 + rnd(32);
	u64 mine = rnd(~0UL), other = rnd(~0UL);
	char *priv = map(pages * page, MAP_PRIVATE);
	char *shared = map(pages * page, MAP_SHARED);
	bool ok = need(priv) && need(shared);
	pid_t pid;

	if (!ok)
		goto out;
	fill(priv, pages, mine);
	pid = fork();
	if (!pid) {
		if (!filled(priv, pages, mine))
			_exit(1);
		fill(priv, pages, other);
		fill(shared, pages, other);
		_exit(filled(priv, pages, other) ? 0 : 2);
	}
	ok = ended_with(pid, 0);
	ok &= check(filled(priv, pages, mine));
	ok = ok && check(filled(shared, pages, other));
out:
	if (priv)
		unmap(priv, pages * page);
	if (shared)
		unmap(shared, pages * page);
	return ok;
}

static bool op_exec(void)
{
	char status[8];
	int want = rnd(100), got;
	pid_t pid;

	snprintf(status, sizeof(status), "%d", want);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "stress", EXEC_CHILD, status,
		      scarce ? SCARCE : NULL, NULL);
		_exit(means_refused(errno) ? CHILD_REFUSED : 255);
	}
	if (!scarce)
		return ended_with(pid, want);

	/* An exec beyond return that is refused memory kills, and so does libc. */
	if (!need(pid > 0) || !check(waitpid(pid, &got, 0) == pid))
		return false;
	if (WIFEXITED(got) && WEXITSTATUS(got) == want)
		return true;
	refused = true;
	return check(!WIFEXITED(got) || WEXITSTATUS(got) != CHILD_WRONG) &&
	       false;
}

static sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, sig);
}

/* Whether a plain write to @where faults. */
bool write_faults(char *where)
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

	if (!need(m))
		return false;
	fill(m, pages, seed);
	/* In the middle, so that the mapping is split and merged again. */
	ok = need(!mprotect(m + odd * page, page, PROT_READ));
	if (!ok)
		goto out;
	ok &= check(write_faults(m + odd * page));
	ok &= check(!write_faults(m + odd * page - 1));
	ok &= check(!write_faults(m + odd * page + page + 8));
	ok &= need(!mprotect(m, pages * page, PROT_NONE));
	if (!ok)
		goto out;
	ok &= check(write_faults(m));
	ok &= need(!mprotect(m, pages * page, PROT_READ | PROT_WRITE));
	if (!ok)
		goto out;
	ok &= check(!write_faults(m + odd * page + 8));
	ok &= check(filled(m, pages, seed));
out:
	unmap(m, pages * page);
	return ok;
}

static bool op_remap(void)
{
	size_t pages = 1 + rnd(16), more = pages + 1 + rnd(64);
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE), *to, *moved;
	bool ok;

	if (!need(m))
		return false;
	fill(m, pages, seed);
	moved = mremap(m, pages * page, more * page, MREMAP_MAYMOVE);
	if (!need(moved != MAP_FAILED)) {
		unmap(m, pages * page);
		return false;
	}
	m = moved;
	ok = check(filled(m, pages, seed));
	fill(m, more, seed);

	to = map(more * page, MAP_PRIVATE);
	if (!need(to)) {
		unmap(m, more * page);
		return false;
	}
	moved = mremap(m, more * page, more * page,
		       MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (!need(moved != MAP_FAILED)) {
		ok = false;
		/* Still where it was, and as it was. */
		check(filled(m, more, seed));
		unmap(m, more * page);
	} else {
		ok &= check(moved == to);
		ok &= check(filled(to, more, seed));
	}
	unmap(to, more * page);
	return ok;
}

static bool op_advise(void)
{
	size_t pages = 2 + rnd(64), half = pages / 2;
	u64 seed = rnd(~0UL);
	char *m = map(pages * page, MAP_PRIVATE);
	size_t i;
	bool ok;

	if (!need(m))
		return false;
	fill(m, pages, seed);
	ok = need(!madvise(m, half * page, MADV_DONTNEED));
	for (i = 0; ok && i < half; i++)
		ok &= check(!*(u64 *)(m + i * page));
	ok &= check(filled(m + half * page, pages - half, seed + half));
	unmap(m, pages * page);
	return ok;
}

static bool op_file(void)
{
	size_t pages = 1 + rnd(32);
	u64 seed = rnd(~0UL), value;
	/* Not tmpfile(), which hides why it failed. */
	int fd = open(P_tmpdir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char *m = MAP_FAILED;
	bool ok;

	if (!need(fd >= 0))
		return false;
	ok = need(!ftruncate(fd, pages * page));
	if (ok)
		m = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
	if (!ok || !need(m != MAP_FAILED)) {
		close(fd);
		return false;
	}
	fill(m, pages, seed);
	ok = need(pread(fd, &value, sizeof(value), (pages - 1) * page) ==
		  sizeof(value)) &&
	     check(value == seed + pages - 1);
	value = ~seed;
	if (need(pwrite(fd, &value, sizeof(value), 0) == sizeof(value)))
		ok &= check(*(u64 *)m == ~seed);
	else
		ok = false;
	unmap(m, pages * page);
	close(fd);
	return ok;
}

/* Through a pipe and back, from @out to @in. */
static bool through_pipe(char *out, char *in, size_t size)
{
	size_t i;
	int fds[2];
	bool ok;

	if (!need(!pipe(fds)))
		return false;
	for (i = 0; i < size; i++)
		out[i] = i * 31;
	ok = need(fcntl(fds[1], F_SETPIPE_SZ, size) >= (int)size);
	/* Into an empty pipe at once, so that it does not block. */
	ok = ok && need(write(fds[1], out, size) == (ssize_t)size);
	for (i = 0; ok && i < size;) {
		ssize_t n = read(fds[0], in + i, size - i);

		ok = need(n > 0);
		i += ok ? n : 0;
	}
	ok = ok && check(!memcmp(in, out, size));
	close(fds[0]);
	close(fds[1]);
	return ok;
}

static bool op_pipe(void)
{
	size_t size = 128 * KB;
	char *out = map(size, MAP_PRIVATE), *in = map(size, MAP_PRIVATE);
	bool ok = need(out) && need(in) && through_pipe(out, in, size);

	if (in)
		unmap(in, size);
	if (out)
		unmap(out, size);
	return ok;
}

static void *thread_main(void *arg)
{
	u64 seed = (u64)arg;
	size_t pages = 16;
	char *m = map(pages * page, MAP_PRIVATE);
	bool ok;

	if (!m)
		return scarce && means_refused(errno) ? MAP_FAILED : NULL;
	fill(m, pages, seed);
	ok = filled(m, pages, seed);
	return unmap(m, pages * page) && ok ? arg : NULL;
}

static bool op_threads(void)
{
	pthread_t threads[4];
	size_t n, i;
	bool ok = true;
	void *result;

	for (n = 0; n < ARRAY_SIZE(threads); n++) {
		errno = pthread_create(&threads[n], NULL, thread_main,
				       (void *)(n + 1));
		if (!need(!errno)) {
			ok = false;
			break;
		}
	}
	for (i = 0; i < n; i++) {
		ok &= check(!pthread_join(threads[i], &result));
		if (scarce && result == MAP_FAILED) {
			refused = true;
			ok = false;
		} else {
			ok &= check(result == (void *)(i + 1));
		}
	}
	return ok;
}

/* kB that the kernel has mapped by vmalloc; 0 if it does not say, see errno. */
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
	unsigned long used;
	pid_t pid = fork();

	if (!pid) {
		if (setrlimit(RLIMIT_NOFILE, &limit))
			_exit(1);
		if (dup2(STDIN_FILENO, fds - 1) != (int)fds - 1)
			_exit(means_refused(errno) ? CHILD_REFUSED : 2);
		used = vmalloc_used();
		if (!used && means_refused(errno))
			_exit(CHILD_REFUSED);
		_exit(used < fds * sizeof(void *) / KB ? 3 : 0);
	}
	return ended_with(pid, 0);
}

/* The first is large: where a fault takes milliseconds, once is enough. */
#define LARGE_OPS	1

static const struct op basic_ops[] = {
	{ .name = "tables", .run = op_tables },
	{ .name = "map", .run = op_map },
	{ .name = "sparse", .run = op_sparse },
	{ .name = "fork", .run = op_fork },
	{ .name = "exec", .run = op_exec },
	{ .name = "protect", .run = op_protect },
	{ .name = "remap", .run = op_remap },
	{ .name = "advise", .run = op_advise },
	{ .name = "file", .run = op_file },
	{ .name = "pipe", .run = op_pipe },
	{ .name = "threads", .run = op_threads },
	{ .name = "vmalloc", .run = op_vmalloc },
};

static const struct op *const further_ops[] = {
	&huge_op, &collapse_op, &swap_op, &ldt_op, &module_op, &cpu_op, &cred_op,
	&ptrace_op, &key_op,
};

#define MAX_OPS	(ARRAY_SIZE(basic_ops) + ARRAY_SIZE(further_ops))

/* Those that this machine has, and the names of the others. */
static const struct op *ops[MAX_OPS];
static size_t n_ops;
static char left_out[256];

/* Returns how many are there but broken. */
static u64 start_ops(void)
{
	const struct op *op;
	size_t i, used = 0;
	u64 broken = 0;

	for (i = 0; i < ARRAY_SIZE(basic_ops); i++)
		ops[n_ops++] = &basic_ops[i];
	for (i = 0; i < ARRAY_SIZE(further_ops); i++) {
		op = further_ops[i];
		switch (op->start()) {
		case READY:
			ops[n_ops++] = op;
			break;
		case LEFT_OUT:
			used += snprintf(left_out + used,
					 sizeof(left_out) - used, "%s%s",
					 used ? "," : " left-out=", op->name);
			break;
		case BROKEN:
			broken++;
		}
	}
	return broken;
}

/* Returns how many went wrong. */
static u64 end_ops(void)
{
	u64 failed = 0;
	size_t i;

	for (i = 0; i < n_ops; i++)
		failed += ops[i]->end && !ops[i]->end();
	return failed;
}

/* === Workers === */

struct counts {
	u64 done[MAX_OPS];
	u64 refused, errors;
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
	refused = false;
	wrong = false;
	missed = false;
	if (!ops[i]->run() && (wrong || !refused))
		counts->errors++;
	else if (refused)
		counts->refused++;
	else if (!missed)
		counts->done[i]++;
}

static void work(struct counts *counts, size_t index, size_t workers, u64 until)
{
	size_t i, tries;

	random_state = 0x9e3779b97f4a7c15UL * (index + 1);
	for (i = index; i < n_ops; i += workers) {
		for (tries = 0; tries < TRIES; tries++) {
			do_one(counts, i);
			if (!missed)
				break;
		}
	}
	while (now_ms() < until)
		do_one(counts, LARGE_OPS + rnd(n_ops - LARGE_OPS));
}

static int report(const struct counts *counts, size_t workers, u64 lost)
{
	u64 total = 0, refusals = 0, errors = lost;
	size_t w, i;

	for (i = 0; i < n_ops; i++) {
		u64 done = 0;

		for (w = 0; w < workers; w++)
			done += counts[w].done[i];
		printf("%s%s=%llu", i ? " " : "stress: ", ops[i]->name, done);
		total += done;
		if (!done && !scarce) {
			fprintf(stderr, "stress: %s never happened\n",
				ops[i]->name);
			errors++;
		}
	}
	for (w = 0; w < workers; w++) {
		refusals += counts[w].refused;
		errors += counts[w].errors;
	}
	printf("\n@stress: ops=%llu refused=%llu errors=%llu%s\n", total,
	       refusals, errors, left_out);
	return total && !errors ? 0 : 1;
}

/* A stack that cannot grow kills: it has grown before memory gets scarce. */
static void touch_stack(void)
{
	volatile char below[64 * KB];
	size_t i;

	for (i = 0; i < sizeof(below); i += page)
		below[i] = 0;
}

static int run_workers(unsigned long seconds, size_t workers)
{
	u64 until, lost = start_ops();
	struct counts *counts;
	size_t started;
	int status;

	until = now_ms() + seconds * 1000;
	do {
		counts = map(workers * sizeof(*counts), MAP_SHARED);
	} while (!counts && scarce && means_refused(errno));
	if (!counts) {
		perror("stress: mmap");
		return 2;
	}
	touch_stack();
	for (started = 0; started < workers; started++) {
		pid_t pid;

		do {
			pid = fork();
		} while (pid < 0 && scarce && means_refused(errno));
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
	lost += end_ops();
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
	if (argc > 1 && !strcmp(argv[argc - 1], SCARCE)) {
		scarce = true;
		argc--;
	}
	if (argc == 3 && !strcmp(argv[1], EXEC_CHILD))
		return child_status(op_map(), atoi(argv[2]));

	if (argc < 2 || argc > 3 || !number(argv[1], 86400, &seconds) ||
	    (argc > 2 && !number(argv[2], MAX_WORKERS, &workers))) {
		fprintf(stderr,
			"usage: stress SECONDS [WORKERS] [--scarce]   (at most 86400 and %d)\n",
			MAX_WORKERS);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return run_workers(seconds, workers);
}
