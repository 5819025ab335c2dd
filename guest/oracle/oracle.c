// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somebody who has secrets, and somebody else who spins: what his page tables
 * reach is then found out from outside of the machine.
 *
 * oracle SEED ramfs: the secret that is in a file lies in ramfs.
 * oracle SEED ext4 DEVICE: the same on a disk.
 * oracle SEED ... brd zswap zram: others are swapped out as well, to a disk in
 * memory, to the compressed cache in front of that, to a compressed disk.
 * oracle SEED ... user: he spins in user mode. If there is KVM, he has had a guest
 * by then, and another guest has a secret.
 * oracle SEED ... guest: the CPU of his guest spins.
 * oracle SEED ... exit: his guest leaves to the kernel all the time.
 * oracle mistake SEED ...: the kernel is told to map a page of the first secret
 * where it must not be.
 *
 * Every word of a secret comes of SEED and of nothing that is kept anywhere:
 * what is found in memory is the secret itself. redoubt/trial/oracle/patterns.py computes
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
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler.h"
#include "fail.h"
#include "files.h"
#include "kpkeys_vuln.h"
#include "pattern.h"
#include "swap.h"
#include "vcpus.h"
#include "vm.h"

#define PAGE		4096
#define SIZE		PATTERN_SIZE
#define WORDS		PATTERN_WORDS

/* Copies of the freed secret, as memory freed last is reused first. */
#define COPIES		256
/* By then a worker has cleared what was freed: after 100 ms, if it is not busy. */
#define CLEARED_S	1
/* More than the kernel takes at a time. */
#define BATCH		64

#define VICTIM		1001
#define ATTACKER	1002

#define TMPFS_FILE	"/tmp/oracle-secret"
#define FILES		"/tmp/oracle"
#define FILE_SECRET	FILES "/secret"
#define READ_FILE	"/tmp/oracle-read"
#define DRIVER		"/sys/kernel/debug/kpkeys_vuln/ctl"

#define ZSWAP_SETTINGS	"/sys/module/zswap/parameters/"
#define ZRAM_DISK	"/dev/zram0"
#define ZRAM_FILES	"/sys/block/zram0/"
#define ZRAM_SIZE	"4M"

/* Pages that a CPU has of a swap area for itself. */
#define CLUSTER		512

/* Each time 10 ms, for what the kernel does meanwhile. */
#define TRIES		1000

/* For klogctl(): a level of the console, and the one that shows warnings. */
#define KLOG_CONSOLE_LEVEL	8
#define KLOG_WARNINGS		5

/* A secret that is swapped out, and one that is in again, have numbers in a row. */
enum pattern {
	ANONYMOUS, TMPFS, IN_FILE, OWN, MAGIC, READ, FREED,
	BRD, FROM_BRD, ZSWAP, FROM_ZSWAP, ZRAM, FROM_ZRAM, VIRTUAL
};

static u64 seed;
static bool mistake, has_kvm;

static u64 word(enum pattern pattern, u64 n)
{
	return pattern_word(seed, pattern, n);
}

/* Volatile, as what is on its way through a buffer would be found there. */
static void write_pattern(volatile u64 *to, enum pattern pattern)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		to[i] = word(pattern, i);
}

static void *fill(enum pattern pattern, int fd)
{
	void *to = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	if (to == MAP_FAILED)
		fail("mmap");
	write_pattern(to, pattern);
	return to;
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

/* By which the attacker has the victim make the mistake. */
static int order[2];

/*
 * Last of all: whatever changes the direct map, as a page table for a guest may,
 * has its blocks mapped as they should be.
 */
static void make_mistake(int driver, void *where, int ready)
{
	u64 addr = (u64)where;
	char byte;

	if (write(ready, "", 1) != 1 || read(order[0], &byte, 1) != 1)
		fail("pipe");
	if (ioctl(driver, KPKEYS_VULN_ASI_MAP, &addr))
		fail("the mistake");
	close(driver);
}

static noreturn void be_ready(int ready)
{
	if (write(ready, "", 1) != 1)
		fail("pipe");
	for (;;)
		pause();
}

static noreturn void be_victim(int ready, enum pattern unused)
{
	int driver = -1;
	void *secret;

	(void)unused;
	if (mistake) {
		driver = open(DRIVER, O_RDWR | O_CLOEXEC);
		if (driver < 0)
			fail("%s", DRIVER);
	}
	become(VICTIM);
	secret = fill(ANONYMOUS, -1);
	keep_in_file(TMPFS, TMPFS_FILE);
	keep_in_file(IN_FILE, FILE_SECRET);
	keep_in_file(READ, READ_FILE);
	if (chmod(READ_FILE, 0644))
		fail(READ_FILE);
	if (mistake)
		make_mistake(driver, secret, ready);
	be_ready(ready);
}

static void wait_for(int ready)
{
	char byte;

	errno = 0;
	if (read(ready, &byte, 1) != 1)
		fail("the victim has ended");
}

/* Returns the pipe by which the victim has said that it is ready. */
static int start_victim(void (*be)(int ready, enum pattern pattern),
			enum pattern pattern)
{
	int ready[2];
	pid_t pid;

	if (pipe(ready))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		close(ready[0]);
		be(ready[1], pattern);
	}
	close(ready[1]);
	wait_for(ready[0]);
	return ready[0];
}

/* The memory of a guest, which has run. */
static noreturn void be_host(int ready, enum pattern pattern)
{
	struct vm vm;

	become(VICTIM);
	vcpus_create(&vm);
	write_pattern((void *)vm.memory, pattern);
	vm_run(&vm);
	be_ready(ready);
}

/* How many pages of it are in memory, in the swap cache for instance? */
static size_t pages_in(void *at, size_t size)
{
	unsigned char in[CLUSTER];
	size_t i, pages = 0;

	if (mincore(at, size, in))
		fail("mincore");
	for (i = 0; i < size / PAGE; i++)
		pages += in[i] & 1;
	return pages;
}

static void page_out(void *at, size_t size)
{
	int i;

	for (i = 0; i < TRIES; i++) {
		if (madvise(at, size, MADV_PAGEOUT))
			fail("paging out");
		if (!pages_in(at, size))
			return;
		usleep(10000);
	}
	errno = ETIMEDOUT;
	fail("paging out");
}

static void page_in(const volatile u64 *at, enum pattern pattern)
{
	size_t i;

	errno = 0;
	for (i = 0; i < WORDS; i++)
		if (at[i] != word(pattern, i))
			fail("word %zu was swapped in wrong", i);
}

static noreturn void be_swapped(int ready, enum pattern pattern)
{
	void *at, *again;

	become(VICTIM);
	at = fill(pattern, -1);
	again = fill(pattern + 1, -1);
	page_out(at, SIZE);
	page_out(again, SIZE);
	page_in(again, pattern + 1);
	be_ready(ready);
}

/* Pages of no interest. */
static void page_out_more(size_t pages)
{
	volatile char *more = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (more == MAP_FAILED)
		fail("mmap");
	for (i = 0; i < pages; i++)
		more[i * PAGE] = 1;
	page_out((void *)more, pages * PAGE);
}

static size_t pages_in_zswap(void)
{
	return number_in("/proc/meminfo", "Zswapped:") * 1024 / PAGE;
}

/*
 * The cache writes to the disk all that it has if one more page comes and none
 * may be in it. That is in the swap cache meanwhile.
 */
static void write_back(int limit, void *at)
{
	int i;

	if (write(limit, "0", 1) != 1)
		fail("the limit of zswap");
	page_out_more(1);
	for (i = 0; i < TRIES && pages_in_zswap(); i++)
		usleep(10000);
	errno = 0;
	if (pages_in_zswap() || pages_in(at, SIZE) != PATTERN_PAGES)
		fail("zswap has written back no page, or not all");
	if (write(limit, "20", 2) != 2)
		fail("the limit of zswap");
}

static noreturn void be_compressed(int ready, enum pattern pattern)
{
	int limit = open(ZSWAP_SETTINGS "max_pool_percent",
			 O_WRONLY | O_CLOEXEC);
	void *at, *again;

	if (limit < 0)
		fail("the limit of zswap");
	become(VICTIM);
	again = fill(pattern + 1, -1);
	page_out(again, SIZE);
	if (pages_in_zswap() != PATTERN_PAGES)
		fail("no page is in zswap, or not all");
	write_back(limit, again);
	page_in(again, pattern + 1);
	at = fill(pattern, -1);
	page_out(at, SIZE);
	if (pages_in_zswap() != PATTERN_PAGES)
		fail("no page is in zswap, or not all");
	be_ready(ready);
}

static void use_brd(void)
{
	if (!swap_on(SWAP_DISK, 0))
		fail("swap on " SWAP_DISK);
	start_victim(be_swapped, BRD);
}

/* In front of the disk that use_brd() has switched on. */
static void use_zswap(void)
{
	if (!write_text(ZSWAP_SETTINGS "enabled", "Y"))
		fail("zswap");
	start_victim(be_compressed, ZSWAP);
	if (!write_text(ZSWAP_SETTINGS "enabled", "N"))
		fail("zswap");
}

static void use_zram(void)
{
	u64 bytes = 0;
	char stat[128];

	if (!write_text(ZRAM_FILES "disksize", ZRAM_SIZE) ||
	    !swap_on(ZRAM_DISK, SWAP_FLAG_PREFER | 1))
		fail("swap on " ZRAM_DISK);
	/* The CPU fills what it has begun elsewhere, whatever the priorities. */
	page_out_more(CLUSTER);
	start_victim(be_swapped, ZRAM);
	if (!read_text(ZRAM_FILES "mm_stat", stat, sizeof(stat)) ||
	    sscanf(stat, "%llu", &bytes) != 1 || bytes < SIZE)
		fail("%llu bytes are in " ZRAM_DISK, bytes);
}

static const struct {
	const char *name;
	void (*use)(void);
} swaps[] = {
	{ "brd", use_brd },
	{ "zswap", use_zswap },
	{ "zram", use_zram },
};

static bool use_swap(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(swaps); i++) {
		if (!strcmp(name, swaps[i].name)) {
			swaps[i].use();
			return true;
		}
	}
	return false;
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
	sleep(CLEARED_S);
}

/* Read the readable file: its pages are mapped during the read only. */
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

static noreturn void be_attacker(enum place place, int victim)
{
	struct vm vm;

	become(ATTACKER);
	fill(OWN, -1);
	read_file();
	if (has_kvm) {
		vcpus_create(&vm);
		vm_run(&vm);
	}
	if (mistake) {
		if (write(order[1], "", 1) != 1)
			fail("pipe");
		wait_for(victim);
	}
	if (place != IN_USER_MODE)
		vcpus_run(place, word(MAGIC, 0));
	printf("@oracle: user %p-%p\n", (void *)spin_start, (void *)spin_end);
	fflush(stdout);
	asm volatile("mov %0, %%r15\n\tjmp spin_start"
		     : : "r"(word(MAGIC, 0)) : "r15");
	__builtin_unreachable();
}

static bool find_place(const char *name, enum place *place)
{
	for (*place = 0; *place < PLACES; (*place)++)
		if (!strcmp(name, place_names[*place]))
			return true;
	return false;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: oracle [mistake] SEED (ramfs | ext4 DEVICE) [brd [zswap]] [zram] (user | guest | exit)\n");
	return 2;
}

int main(int argc, char *argv[])
{
	const char *type, *device;
	enum place place;
	int victim, status;
	pid_t pid;

	if (argc < 3)
		return usage();
	argv++;
	if (!strcmp(*argv, "mistake")) {
		mistake = true;
		argv++;
	}
	if (!argv[0] || !argv[1])
		return usage();
	seed = strtoull(*argv++, NULL, 16);
	type = *argv++;
	device = strcmp(type, "ramfs") ? *argv++ : type;
	if (!device)
		return usage();

	if (mkdir(FILES, 0700) || mount(device, FILES, type, 0, NULL) ||
	    chown(FILES, VICTIM, VICTIM) || chmod(FILES, 0700))
		fail("%s of %s", device, type);
	if (pipe(order))
		fail("pipe");
	victim = start_victim(be_victim, ANONYMOUS);
	has_kvm = !access("/dev/kvm", F_OK);
	if (has_kvm) {
		vcpus_prepare();
		start_victim(be_host, VIRTUAL);
	}
	for (; argv[0] && argv[1]; argv++)
		if (!use_swap(*argv))
			return usage();
	if (!argv[0] || !find_place(*argv, &place))
		return usage();
	have_secret_freed();

	/* Else a message of the kernel may come into the attacker's line. */
	if (klogctl(KLOG_CONSOLE_LEVEL, NULL, KLOG_WARNINGS))
		fail("the level of the console");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		be_attacker(place, victim);
	waitpid(pid, &status, 0);
	fprintf(stderr, "oracle: the attacker has ended\n");
	return 1;
}
