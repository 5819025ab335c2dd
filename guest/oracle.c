// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somebody who has secrets, and somebody else who spins in user mode: what his
 * page tables reach is then found out from outside of the machine.
 *
 * oracle SEED ramfs: the secret that is in a file lies in ramfs.
 * oracle SEED ext4 DEVICE: the same on a disk.
 * oracle mistake SEED ...: the kernel is told to map a page of the first secret
 * where it must not be.
 *
 * Every word of a secret comes of SEED and of nothing that is kept anywhere:
 * what is found in memory is the secret itself. redoubt/patterns.py computes
 * the same words.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler.h"
#include "fail.h"
#include "kpkeys_vuln.h"
#include "pattern.h"

#define PAGE		4096
#define SIZE		PATTERN_SIZE
#define WORDS		PATTERN_WORDS

/* Of what is freed, as memory that was freed last is used again first. */
#define COPIES		256
/* More than the kernel takes at a time. */
#define BATCH		64

#define VICTIM		1001
#define ATTACKER	1002

#define TMPFS_FILE	"/tmp/oracle-secret"
#define FILES		"/tmp/oracle"
#define FILE_SECRET	FILES "/secret"
#define READ_FILE	"/tmp/oracle-read"
#define DRIVER		"/sys/kernel/debug/kpkeys_vuln/ctl"

enum pattern { ANONYMOUS, TMPFS, IN_FILE, OWN, MAGIC, READ, FREED };

static u64 seed;
static bool mistake;

static u64 word(enum pattern pattern, u64 n)
{
	return pattern_word(seed, pattern, n);
}

/* Volatile, as what is on its way through a buffer would be found there. */
static void *fill(enum pattern pattern, int fd)
{
	volatile u64 *to = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS :
					 MAP_SHARED,
				fd, 0);
	size_t i;

	if (to == MAP_FAILED)
		fail("mmap");
	for (i = 0; i < WORDS; i++)
		to[i] = word(pattern, i);
	return (void *)to;
}

/* The secret is in the page cache afterwards, and mapped by nobody. */
static void keep_in_file(enum pattern pattern, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	void *at;

	if (fd < 0 || ftruncate(fd, SIZE))
		fail("%s", path);
	at = fill(pattern, fd);
	if (msync(at, SIZE, MS_SYNC) || munmap(at, SIZE) || close(fd))
		fail("%s", path);
}

static void become(uid_t id)
{
	if (setgroups(0, NULL) || setresgid(id, id, id) ||
	    setresuid(id, id, id))
		fail("uid %d", id);
}

static void make_mistake(int driver, void *where)
{
	u64 addr = (u64)where;

	if (ioctl(driver, KPKEYS_VULN_ASI_MAP, &addr))
		fail("the mistake");
	close(driver);
}

static noreturn void be_victim(int ready)
{
	int driver = -1;
	void *secret;

	if (mistake) {
		driver = open(DRIVER, O_RDWR | O_CLOEXEC);
		if (driver < 0)
			fail("%s", DRIVER);
	}
	become(VICTIM);
	secret = fill(ANONYMOUS, -1);
	if (mistake)
		make_mistake(driver, secret);
	keep_in_file(TMPFS, TMPFS_FILE);
	keep_in_file(IN_FILE, FILE_SECRET);
	keep_in_file(READ, READ_FILE);
	if (chmod(READ_FILE, 0644))
		fail(READ_FILE);
	if (write(ready, "", 1) != 1)
		fail("pipe");
	for (;;)
		pause();
}

static void start_victim(void)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		close(ready[0]);
		be_victim(ready[1]);
	}
	close(ready[1]);
	errno = 0;
	if (read(ready[0], &byte, 1) != 1)
		fail("the victim has ended");
	close(ready[0]);
}

/* Somebody who had a secret, and is gone. */
static void have_secret_freed(void)
{
	volatile char *more;
	int status, i;
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		become(VICTIM);
		for (i = 0; i < COPIES; i++)
			fill(FREED, -1);
		_exit(0);
	}
	errno = 0;
	if (waitpid(pid, &status, 0) != pid || status)
		fail("the secret that is freed");

	/* A CPU keeps its last pages until others come: these are not free yet. */
	more = mmap(NULL, BATCH * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more == MAP_FAILED)
		fail("mmap");
	for (i = 0; i < BATCH; i++)
		more[i * PAGE] = 1;
}

#ifdef __x86_64__
/* What may be read is mapped while it is, and not afterwards. */
static void read_file(void)
{
	static volatile char page[PAGE];
	int fd = open(READ_FILE, O_RDONLY | O_CLOEXEC);
	size_t done, i;

	if (fd < 0)
		fail(READ_FILE);
	for (done = 0; done < SIZE; done += PAGE)
		if (read(fd, (void *)page, PAGE) != PAGE)
			fail(READ_FILE);
	close(fd);
	for (i = 0; i < PAGE; i++)
		page[i] = 0;
}

/* The two ends of a loop that does nothing. */
extern const char spin_start[], spin_end[];
asm(".pushsection .text\n"
    "spin_start:	jmp	spin_start\n"
    "spin_end:\n"
    ".popsection\n");

static noreturn void be_attacker(void)
{
	become(ATTACKER);
	fill(OWN, -1);
	read_file();
	printf("@oracle: spinning %p-%p\n", (void *)spin_start,
	       (void *)spin_end);
	fflush(stdout);
	asm volatile("mov %0, %%r15\n\tjmp spin_start"
		     : : "r"(word(MAGIC, 0)) : "r15");
	__builtin_unreachable();
}
#else
static noreturn void be_attacker(void)
{
	errno = ENOSYS;
	fail("spinning");
}
#endif

int main(int argc, char *argv[])
{
	const char *type, *device;
	int status;
	pid_t pid;

	if (argc > 1 && !strcmp(argv[1], "mistake")) {
		mistake = true;
		argc--;
		argv++;
	}
	if (argc < 3 || argc > 4) {
		fprintf(stderr,
			"usage: oracle [mistake] SEED ramfs | ext4 DEVICE\n");
		return 2;
	}
	seed = strtoull(argv[1], NULL, 16);
	type = argv[2];
	device = argc == 4 ? argv[3] : type;

	if (mkdir(FILES, 0700) || mount(device, FILES, type, 0, NULL) ||
	    chown(FILES, VICTIM, VICTIM) || chmod(FILES, 0700))
		fail("%s of %s", device, type);
	start_victim();
	have_secret_freed();

	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		be_attacker();
	waitpid(pid, &status, 0);
	fprintf(stderr, "oracle: the attacker has ended\n");
	return 1;
}
