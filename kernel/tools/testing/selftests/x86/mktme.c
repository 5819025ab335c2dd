// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory encryption keys: mktme_key_create() and mktme_mprotect().
 *
 * Needs root, and a machine with KeyIDs that nothing else uses meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asm/mktme.h>

#include "kselftest_harness.h"

#ifndef __NR_mktme_key_create
#define __NR_mktme_key_create	548
#define __NR_mktme_mprotect	549
#endif

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

#define PAGE		4096UL
#define PAGES		32UL
#define SIZE		(PAGES * PAGE)
#define MAX_KEYIDS	63
#define NOBODY		65534
#define SYSCTL		"/proc/sys/vm/mktme_unprivileged_keys"

static int key_create(const struct mktme_key_args *args, size_t size)
{
	return syscall(__NR_mktme_key_create, args, size);
}

static int random_key(void)
{
	const struct mktme_key_args args = { .flags = 0 };

	return key_create(&args, sizeof(args));
}

static int mktme_mprotect(void *addr, size_t len, unsigned long prot, int key)
{
	return syscall(__NR_mktme_mprotect, addr, len, prot, key);
}

static char *map(size_t size)
{
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return m == MAP_FAILED ? NULL : m;
}

/* Map memory under a key; returns NULL on error. */
static char *map_under(int key, size_t size)
{
	char *m = map(size);

	if (m && mktme_mprotect(m, size, PROT_READ | PROT_WRITE, key)) {
		munmap(m, size);
		return NULL;
	}
	return m;
}

static uint64_t word(size_t index, uint64_t salt)
{
	uint64_t x = (salt << 40 ^ index) * 0x9e3779b97f4a7c15;

	return x ^ x >> 29;
}

static void fill(char *m, size_t size, uint64_t salt)
{
	volatile uint64_t *to = (void *)m;
	size_t i;

	for (i = 0; i < size / sizeof(*to); i++)
		to[i] = word(i, salt);
}

static bool holds(char *m, size_t size, uint64_t salt)
{
	volatile uint64_t *at = (void *)m;
	size_t i;

	for (i = 0; i < size / sizeof(*at); i++)
		if (at[i] != word(i, salt))
			return false;
	return true;
}

static bool is_zero(char *m, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (((volatile char *)m)[i])
			return false;
	return true;
}

/* The number that follows a name in a /proc file, or -1. */
static long number_in(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long found = -1;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			found = strtol(line + strlen(name), NULL, 10);
	fclose(file);
	return found;
}

static long number_of(int key, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", key);
	return number_in(path, name);
}

static long keyid_of(int key)
{
	return number_of(key, "mktme-keyid:");
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Create as many keys as there are; returns their number. */
static unsigned int all_keys(int *to)
{
	unsigned int nr = 0;

	while (nr < MAX_KEYIDS) {
		to[nr] = random_key();
		if (to[nr] < 0)
			break;
		nr++;
	}
	return nr;
}

static void close_all(const int *keys, unsigned int nr)
{
	while (nr--)
		close(keys[nr]);
}

static sigjmp_buf caught;
static volatile int caught_signal;

static void on_signal(int signal)
{
	caught_signal = signal;
	siglongjmp(caught, 1);
}

/* The signal that an access raises, or 0. */
static int touch(char *at, bool write)
{
	const struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	caught_signal = 0;
	if (!sigsetjmp(caught, 1)) {
		if (write)
			*(volatile char *)at = 1;
		else
			(void)*(volatile char *)at;
	}
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	return caught_signal;
}

static int status_of(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ?
		WEXITSTATUS(status) : -1;
}

/* === Keys =============================================================== */

TEST(key_wants_arguments_that_make_sense)
{
	char key[64] = "nobody else has this";
	struct mktme_key_args args = { };
	struct {
		struct mktme_key_args args;
		char later[8];
	} longer = { };
	int fd;

	EXPECT_EQ(-1, key_create(&args, sizeof(args) - 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, key_create(NULL, sizeof(args)));
	EXPECT_EQ(EFAULT, errno);

	args.flags = 1;
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EINVAL, errno);
	args = (struct mktme_key_args){ .reserved = 1 };
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EINVAL, errno);
	args = (struct mktme_key_args){ .algorithm = 2 };
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EINVAL, errno);
	args = (struct mktme_key_args){ .key_size = 32 };
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EINVAL, errno);
	args = (struct mktme_key_args){ .key = (uintptr_t)key, .key_size = 31 };
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EINVAL, errno);
	args = (struct mktme_key_args){ .key = PAGE / 2, .key_size = 32 };
	EXPECT_EQ(-1, key_create(&args, sizeof(args)));
	EXPECT_EQ(EFAULT, errno);

	/* Fields beyond this kernel's struct must be 0. */
	fd = key_create(&longer.args, sizeof(longer));
	ASSERT_LE(0, fd);
	close(fd);
	longer.later[3] = 1;
	EXPECT_EQ(-1, key_create(&longer.args, sizeof(longer)));
	EXPECT_EQ(E2BIG, errno);
}

TEST(key_is_made_by_the_cpu_or_given)
{
	char key[64] = "sixty-four bytes, the first half is for data";
	const struct mktme_key_args args[] = {
		{ .algorithm = 0 },
		{ .algorithm = MKTME_AES_XTS_128 },
		{ .algorithm = MKTME_AES_XTS_128, .key = (uintptr_t)key,
		  .key_size = 32 },
		{ .algorithm = MKTME_AES_XTS_256, .key = (uintptr_t)key,
		  .key_size = 64 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(args); i++) {
		int fd = key_create(&args[i], sizeof(args[i]));
		char *m;

		if (fd < 0 && errno == EOPNOTSUPP &&
		    args[i].algorithm == MKTME_AES_XTS_256) {
			TH_LOG("no AES-XTS-256 here");
			continue;
		}
		ASSERT_LE(0, fd);
		EXPECT_LT(0, number_of(fd, "mktme-algorithm:"));
		EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
		m = map_under(fd, SIZE);
		ASSERT_NE(NULL, m);
		EXPECT_TRUE(is_zero(m, SIZE));
		fill(m, SIZE, i);
		EXPECT_TRUE(holds(m, SIZE, i));
		munmap(m, SIZE);
		close(fd);
	}
}

TEST(keys_come_to_an_end_and_come_back)
{
	int keys[MAX_KEYIDS + 1], again;
	unsigned int nr = all_keys(keys), i;
	unsigned long seen = 0;
	char *m[MAX_KEYIDS];

	EXPECT_EQ(ENOSPC, errno);
	ASSERT_LT(0, nr);
	for (i = 0; i < nr; i++) {
		EXPECT_EQ(0, seen & 1UL << keyid_of(keys[i]));
		seen |= 1UL << keyid_of(keys[i]);
		m[i] = map_under(keys[i], SIZE);
		ASSERT_NE(NULL, m[i]);
		fill(m[i], SIZE, i);
	}
	for (i = 0; i < nr; i++) {
		EXPECT_TRUE(holds(m[i], SIZE, i));
		munmap(m[i], SIZE);
	}
	close(keys[--nr]);
	again = random_key();
	EXPECT_LE(0, again);
	close(again);
	close_all(keys, nr);
}

/* Only the memory refers to the key then. */
TEST(key_lives_as_long_as_its_memory)
{
	int key = random_key(), others[MAX_KEYIDS + 1];
	long keyid = keyid_of(key);
	unsigned int nr, i;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE / 2, 1);
	close(key);

	nr = all_keys(others);
	for (i = 0; i < nr; i++)
		EXPECT_NE(keyid, keyid_of(others[i]));
	EXPECT_TRUE(holds(m, SIZE / 2, 1));
	/* More pages can be allocated, too. */
	fill(m, SIZE, 2);
	EXPECT_TRUE(holds(m, SIZE, 2));
	munmap(m, SIZE);
	others[nr] = random_key();
	EXPECT_LE(0, others[nr]);
	EXPECT_EQ(keyid, keyid_of(others[nr]));
	close_all(others, nr + 1);
}

TEST(key_is_for_the_privileged)
{
	int key = random_key(), other;
	pid_t child;

	ASSERT_LE(0, key);
	child = fork();
	if (!child) {
		if (setuid(NOBODY))
			_exit(2);
		if (random_key() >= 0 || errno != EPERM)
			_exit(3);
		/* A key that was passed on can be used. */
		_exit(map_under(key, PAGE) ? 0 : 4);
	}
	EXPECT_EQ(0, status_of(child));

	ASSERT_TRUE(write_text(SYSCTL, "1"));
	child = fork();
	if (!child) {
		if (setuid(NOBODY))
			_exit(2);
		other = random_key();
		_exit(other >= 0 ? 0 : 3);
	}
	EXPECT_EQ(0, status_of(child));
	EXPECT_TRUE(write_text(SYSCTL, "0"));
	EXPECT_FALSE(write_text(SYSCTL, "2"));
	close(key);
}

TEST(cgroup_has_so_many_keys)
{
	char directory[] = "/tmp/mktme-XXXXXX", path[128];
	int first;
	pid_t child;

	if (!mkdtemp(directory))
		SKIP(return, "no directory for cgroups");
	if (mount("cgroup2", directory, "cgroup2", 0, NULL))
		SKIP(return, "no cgroups: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", directory);
	if (!write_text(path, "+misc"))
		SKIP(return, "no cgroups for misc");
	EXPECT_TRUE(number_in("/proc/self/cgroup", "0::") >= 0);

	snprintf(path, sizeof(path), "%s/keys", directory);
	ASSERT_EQ(0, mkdir(path, 0755));
	snprintf(path, sizeof(path), "%s/keys/misc.max", directory);
	ASSERT_TRUE(write_text(path, "mktme 1"));
	child = fork();
	if (!child) {
		snprintf(path, sizeof(path), "%s/keys/cgroup.procs", directory);
		if (!write_text(path, "0"))
			_exit(2);
		first = random_key();
		if (first < 0)
			_exit(3);
		if (random_key() >= 0 || errno != EBUSY)
			_exit(4);
		snprintf(path, sizeof(path), "%s/keys/misc.current", directory);
		if (number_in(path, "mktme ") != 1)
			_exit(5);
		close(first);
		/* The KeyID is freed some time later. */
		while (number_in(path, "mktme "))
			usleep(1000);
		_exit(random_key() >= 0 ? 0 : 6);
	}
	EXPECT_EQ(0, status_of(child));
	snprintf(path, sizeof(path), "%s/keys", directory);
	EXPECT_EQ(0, rmdir(path));
	umount(directory);
	rmdir(directory);
}

/* === Memory ============================================================= */

TEST(memory_that_cannot_have_a_key)
{
	int key = random_key(), other = random_key(), null, exe;
	char *m = map(SIZE), *shared, *file;

	ASSERT_LE(0, key);
	ASSERT_LE(0, other);
	ASSERT_NE(NULL, m);
	null = open("/dev/null", O_RDWR);
	exe = open("/proc/self/exe", O_RDONLY);
	shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, exe, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_NE(MAP_FAILED, file);

	EXPECT_EQ(-1, mktme_mprotect(m, SIZE, PROT_READ, -1));
	EXPECT_EQ(EBADF, errno);
	EXPECT_EQ(-1, mktme_mprotect(m, SIZE, PROT_READ, null));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mktme_mprotect(m + 1, PAGE, PROT_READ, key));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mktme_mprotect(m, 0, PROT_READ, key));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mktme_mprotect(m, SIZE, PROT_READ | PROT_GROWSDOWN, key));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mktme_mprotect(shared, PAGE, PROT_READ, key));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mktme_mprotect(file, PAGE, PROT_READ, key));
	EXPECT_EQ(EINVAL, errno);

	fill(m, PAGE, 1);
	EXPECT_EQ(-1, mktme_mprotect(m, SIZE, PROT_READ, key));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(0, mktme_mprotect(m + PAGE, PAGE, PROT_READ, key));
	EXPECT_EQ(-1, mktme_mprotect(m + PAGE, PAGE, PROT_READ, other));
	EXPECT_EQ(EBUSY, errno);
	munmap(m + 3 * PAGE, PAGE);
	EXPECT_EQ(-1, mktme_mprotect(m + 2 * PAGE, 4 * PAGE, PROT_READ, key));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_TRUE(holds(m, PAGE, 1));

	munmap(m, SIZE);
	munmap(shared, PAGE);
	munmap(file, PAGE);
	close(null);
	close(exe);
	close(other);
	close(key);
}

TEST(protection_is_what_was_asked_for)
{
	int key = random_key();
	char *m = map(2 * PAGE);

	ASSERT_LE(0, key);
	ASSERT_NE(NULL, m);
	ASSERT_EQ(0, mktme_mprotect(m, PAGE, PROT_READ, key));
	EXPECT_EQ(0, touch(m, false));
	EXPECT_EQ(SIGSEGV, touch(m, true));
	ASSERT_EQ(0, mktme_mprotect(m + PAGE, PAGE, PROT_NONE, key));
	EXPECT_EQ(SIGSEGV, touch(m + PAGE, false));
	/* With the same key it is mprotect(), even for memory in use. */
	ASSERT_EQ(0, mktme_mprotect(m, 2 * PAGE, PROT_READ | PROT_WRITE, key));
	EXPECT_EQ(0, touch(m, true));
	EXPECT_EQ(0, touch(m + PAGE, true));
	munmap(m, 2 * PAGE);
	close(key);
}

TEST(memory_counts_as_locked)
{
	const struct rlimit limit = { SIZE, SIZE };
	long before = number_in("/proc/self/status", "VmLck:");
	int key = random_key();
	pid_t child;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	EXPECT_EQ(before + (long)SIZE / 1024,
		  number_in("/proc/self/status", "VmLck:"));
	munlock(m, SIZE);
	EXPECT_EQ(before + (long)SIZE / 1024,
		  number_in("/proc/self/status", "VmLck:"));
	munmap(m, SIZE);
	EXPECT_EQ(before, number_in("/proc/self/status", "VmLck:"));

	child = fork();
	if (!child) {
		if (setrlimit(RLIMIT_MEMLOCK, &limit) || setuid(NOBODY))
			_exit(2);
		m = map_under(key, SIZE);
		if (!m)
			_exit(3);
		if (map_under(key, PAGE) || errno != EAGAIN)
			_exit(4);
		munmap(m, PAGE);
		_exit(map_under(key, PAGE) ? 0 : 5);
	}
	EXPECT_EQ(0, status_of(child));
	close(key);
}

/* The limit would not cover memory that grew or stayed behind. */
TEST(memory_stays_locked)
{
	long before = number_in("/proc/self/status", "VmLck:");
	int key = random_key();
	char *m, *moved;
	pid_t child;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	EXPECT_EQ(MAP_FAILED, mremap(m, SIZE, SIZE,
				     MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_TRUE(holds(m, SIZE, 1));

	/* A child has it all a second time, and so counts it itself. */
	child = fork();
	if (!child) {
		if (number_in("/proc/self/status", "VmLck:") != (long)SIZE / 1024)
			_exit(2);
		/* It can move and shrink. */
		moved = mremap(m, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
			       map(SIZE));
		if (moved == MAP_FAILED || !holds(moved, SIZE, 1))
			_exit(3);
		moved = mremap(moved, SIZE, PAGE, 0);
		_exit(moved != MAP_FAILED && holds(moved, PAGE, 1) ? 0 : 4);
	}
	EXPECT_EQ(0, status_of(child));

	/* Locked memory can grow, and is counted. */
	moved = mremap(m, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
	ASSERT_NE(MAP_FAILED, moved);
	EXPECT_EQ(before + 2 * (long)SIZE / 1024,
		  number_in("/proc/self/status", "VmLck:"));
	EXPECT_TRUE(holds(moved, SIZE, 1));
	munmap(moved, 2 * SIZE);
	close(key);
}

TEST(memory_can_be_given_back)
{
	int key = random_key();
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	ASSERT_EQ(0, madvise(m, SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_zero(m, SIZE));
	fill(m, SIZE, 2);
	EXPECT_TRUE(holds(m, SIZE, 2));
	munmap(m, SIZE);
	close(key);
}

/* Pages in a pipe could be passed to a device. */
TEST(memory_is_not_given_away)
{
	int key = random_key(), ends[2];
	char *m, *plain = map(PAGE), byte;
	struct iovec data = { .iov_len = PAGE };

	ASSERT_LE(0, key);
	ASSERT_NE(NULL, plain);
	ASSERT_EQ(0, pipe(ends));
	m = map_under(key, PAGE);
	ASSERT_NE(NULL, m);
	fill(m, PAGE, 1);
	fill(plain, PAGE, 2);

	data.iov_base = m;
	EXPECT_EQ(-1, vmsplice(ends[1], &data, 1, 0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_TRUE(holds(m, PAGE, 1));
	data.iov_base = plain;
	EXPECT_EQ((ssize_t)PAGE, vmsplice(ends[1], &data, 1, 0));
	EXPECT_EQ(1, read(ends[0], &byte, 1));
	EXPECT_EQ(plain[0], byte);
	munmap(m, PAGE);
	munmap(plain, PAGE);
	close(ends[0]);
	close(ends[1]);
	close(key);
}

/* === Several processes ================================================== */

TEST(children_have_copies)
{
	int key = random_key();
	pid_t child;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	child = fork();
	if (!child) {
		close(key);
		if (!holds(m, SIZE, 1))
			_exit(2);
		fill(m, SIZE, 2);
		_exit(holds(m, SIZE, 2) ? 0 : 3);
	}
	close(key);
	EXPECT_EQ(0, status_of(child));
	EXPECT_TRUE(holds(m, SIZE, 1));
	munmap(m, SIZE);
}

/* Pages that a crash frees must not be visible to later keys of the KeyID. */
TEST(one_crashes_and_others_do_not_care)
{
	int key = random_key(), others[MAX_KEYIDS + 1], status;
	unsigned int nr, i;
	pid_t child;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	child = fork();
	if (!child) {
		int own = random_key();
		char *theirs = own >= 0 ? map_under(own, SIZE) : NULL;

		if (!theirs)
			_exit(2);
		fill(theirs, SIZE, 2);
		*(volatile char *)NULL = 1;
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_TRUE(holds(m, SIZE, 1));

	nr = all_keys(others);
	ASSERT_LT(0, nr);
	for (i = 0; i < nr; i++) {
		char *theirs = map_under(others[i], SIZE);

		ASSERT_NE(NULL, theirs);
		EXPECT_TRUE(is_zero(theirs, SIZE));
		munmap(theirs, SIZE);
	}
	EXPECT_TRUE(holds(m, SIZE, 1));
	close_all(others, nr);
	munmap(m, SIZE);
	close(key);
}

static void send_key(int to, int key)
{
	char byte = 0, control[CMSG_SPACE(sizeof(key))] = { };
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(key));
	memcpy(CMSG_DATA(header), &key, sizeof(key));
	if (sendmsg(to, &message, 0) != 1)
		_exit(9);
}

static int receive_key(int from)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int key = -1;

	if (recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&key, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(key));
	return key;
}

/* The creator is gone when the key is used. */
TEST(key_passes_over_a_socket)
{
	int ends[2], key;
	pid_t child;
	char *m;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		SKIP(return, "no sockets: %s", strerror(errno));
	child = fork();
	if (!child) {
		key = random_key();
		if (key < 0)
			_exit(2);
		send_key(ends[1], key);
		_exit(0);
	}
	EXPECT_EQ(0, status_of(child));
	key = receive_key(ends[0]);
	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	EXPECT_TRUE(holds(m, SIZE, 1));
	munmap(m, SIZE);
	close(key);
	close(ends[0]);
	close(ends[1]);
}

/* === Revocation ========================================================= */

TEST(revoked_is_gone_for_all)
{
	int key = random_key(), other = random_key(), there[2], back[2];
	char *m, *plain, byte = 0;
	pid_t child;

	ASSERT_LE(0, key);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, pipe(there));
	ASSERT_EQ(0, pipe(back));
	m = map_under(key, SIZE);
	plain = map_under(other, SIZE);
	ASSERT_NE(NULL, m);
	ASSERT_NE(NULL, plain);
	fill(m, SIZE, 1);
	fill(plain, SIZE, 2);

	child = fork();
	if (!child) {
		char *own = map_under(key, PAGE);

		if (!own)
			_exit(2);
		fill(own, PAGE, 3);
		fill(m, PAGE, 4);
		if (write(back[1], &byte, 1) != 1 || read(there[0], &byte, 1) != 1)
			_exit(3);
		if (touch(own, false) != SIGBUS || touch(m, true) != SIGBUS ||
		    touch(m + PAGE, false) != SIGBUS)
			_exit(4);
		if (!mktme_mprotect(map(PAGE), PAGE, PROT_READ, key) ||
		    errno != EACCES)
			_exit(5);
		_exit(holds(plain, SIZE, 2) ? 0 : 6);
	}
	ASSERT_EQ(1, read(back[0], &byte, 1));
	EXPECT_EQ(0, number_of(key, "mktme-revoked:"));
	ASSERT_EQ(0, ioctl(key, MKTME_KEY_REVOKE));
	EXPECT_EQ(1, number_of(key, "mktme-revoked:"));
	EXPECT_EQ(SIGBUS, touch(m, false));
	EXPECT_EQ(SIGBUS, touch(m, true));
	ASSERT_EQ(1, write(there[1], &byte, 1));
	EXPECT_EQ(0, status_of(child));

	/* The kernel has no access either. */
	EXPECT_EQ(-1, write(back[1], m, 1));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, ioctl(key, MKTME_KEY_REVOKE));
	EXPECT_EQ(-1, ioctl(key, MKTME_KEY_REVOKE + 1));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_TRUE(holds(plain, SIZE, 2));
	munmap(m, SIZE);
	munmap(plain, SIZE);
	close(key);
	close(other);
}

/* As long as a mapping of the key exists. */
TEST(revoked_keeps_its_keyid)
{
	int key = random_key(), others[MAX_KEYIDS + 1];
	long keyid = keyid_of(key);
	unsigned int nr, i;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	ASSERT_EQ(0, ioctl(key, MKTME_KEY_REVOKE));
	close(key);
	nr = all_keys(others);
	for (i = 0; i < nr; i++)
		EXPECT_NE(keyid, keyid_of(others[i]));
	EXPECT_EQ(SIGBUS, touch(m, false));
	munmap(m, SIZE);
	others[nr] = random_key();
	EXPECT_LE(0, others[nr]);
	EXPECT_EQ(keyid, keyid_of(others[nr]));
	close_all(others, nr + 1);
}

/* Children are forked while their memory is revoked. */
TEST(revoked_while_they_fork)
{
	int key = random_key();
	unsigned int i;
	pid_t child;
	char *m;

	ASSERT_LE(0, key);
	m = map_under(key, SIZE);
	ASSERT_NE(NULL, m);
	fill(m, SIZE, 1);
	child = fork();
	if (!child) {
		for (i = 0; i < 10000; i++) {
			pid_t one = fork();

			if (!one)
				_exit(touch(m, true) == SIGBUS);
			if (status_of(one))
				_exit(0);
		}
		_exit(1);
	}
	usleep(20000);
	EXPECT_EQ(0, ioctl(key, MKTME_KEY_REVOKE));
	EXPECT_EQ(0, status_of(child));
	EXPECT_EQ(SIGBUS, touch(m, false));
	munmap(m, SIZE);
	close(key);
}

TEST_HARNESS_MAIN
