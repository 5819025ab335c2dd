// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory under KeyIDs, from inside: whatever is done with it, its data is right.
 *
 * mktme KEYIDS [hog]: checks all KeyIDs from 1 to KEYIDS, in TAP, and that nobody
 * who uses up memory has too much flushed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler.h"
#include "fail.h"
#include "files.h"
#include "keyids.h"
#include "smaps.h"
#include "swap.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define PAGE		4096UL
#define PAGES		64UL
#define SIZE		(PAGES * PAGE)
#define HUGE		(2UL << 20)
/* The page frame in an entry of pagemap. */
#define FRAME		((1ULL << 55) - 1)
/* To be compacted, and how often. */
#define HOLES		(16 * HUGE)
#define TRIES		8
/* Pages that the pool gives back before others have their turn. */
#define BATCH		(HUGE / PAGE)
#define NOBODY		65534
#define MEMINFO		"/proc/meminfo"
#define VMSTAT		"/proc/vmstat"
#define COMPACT		"/proc/sys/vm/compact_memory"
#define THP		"/sys/kernel/mm/transparent_hugepage/enabled"
#define THP_DEFRAG	"/sys/kernel/mm/transparent_hugepage/defrag"
#define THP_ZEROES	"/sys/kernel/mm/transparent_hugepage/use_zero_page"

static unsigned int keyid;
static char why[256];

/* A check is false if this is not empty. */
static bool because(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

static bool because(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	return false;
}

static u64 word(const volatile u64 *at, u64 salt)
{
	u64 x = (salt << 32 ^ (unsigned long)at) * 0x9e3779b97f4a7c15;

	return x ^ x >> 31 ^ keyid;
}

/* The words depend on the first place of the memory: it may be moved by OFFSET. */
static void fill(char *m, size_t size, u64 salt)
{
	volatile u64 *at;

	for (at = (void *)m; (char *)at < m + size; at++)
		*at = word(at, salt);
}

static bool holds(char *m, size_t size, u64 salt, long offset)
{
	volatile u64 *at;

	for (at = (void *)m; (char *)at < m + size; at++) {
		const volatile u64 *first = (void *)((char *)at - offset);

		if (*at != word(first, salt))
			return because("%#llx at %p, not %#llx", *at, (void *)at,
				       word(first, salt));
	}
	return true;
}

static char *map(size_t size)
{
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		fail("mmap");
	return m;
}

static char *map_under_keyid(size_t size)
{
	char *m = map(size);

	if (encrypt(m, size, keyid))
		fail("KeyID %u", keyid);
	return m;
}

/* Runs in a child; false, with the reason, if it says so or dies. */
static bool in_child(bool (*check)(char *), char *m)
{
	int status, to_parent[2];
	ssize_t length;
	pid_t child;

	if (pipe2(to_parent, O_CLOEXEC))
		fail("pipe");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		bool good = check(m);

		if (!good && write(to_parent[1], why, strlen(why)) < 0)
			_exit(2);
		_exit(!good);
	}
	close(to_parent[1]);
	length = read(to_parent[0], why, sizeof(why) - 1);
	why[length > 0 ? length : 0] = '\0';
	close(to_parent[0]);
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	if (status && !why[0])
		because("the child ended with status %#x", status);
	return !status;
}

static unsigned long nr_vmas(const char *m, size_t size)
{
	unsigned long from = (unsigned long)m, start, end, nr = 0;
	FILE *file = fopen("/proc/self/maps", "re");
	char line[256];

	if (!file)
		fail("maps");
	while (fgets(line, sizeof(line), file))
		nr += sscanf(line, "%lx-%lx ", &start, &end) == 2 &&
		      start < from + size && end > from;
	fclose(file);
	return nr;
}

/* The page frame of each page of a range. */
static void frames(char *m, size_t size, u64 *to)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t bytes = size / PAGE * sizeof(*to);

	if (fd < 0 || pread(fd, to, bytes, (unsigned long)m / PAGE * sizeof(*to)) !=
		      (ssize_t)bytes)
		fail("pagemap");
	close(fd);
}

/* === Checks ============================================================= */

static bool new_memory_is_zero(void)
{
	char *m = map_under_keyid(SIZE);
	size_t i;

	for (i = 0; i < SIZE; i += sizeof(u64))
		if (*(volatile u64 *)(m + i))
			return because("%#llx in new memory", *(u64 *)(m + i));
	fill(m, SIZE, 1);
	return holds(m, SIZE, 1, 0) && !munmap(m, SIZE);
}

static bool overwrites(char *m)
{
	if (!holds(m, SIZE, 1, 0))
		return false;
	fill(m, SIZE / 2, 2);
	return holds(m, SIZE / 2, 2, 0) && holds(m + SIZE / 2, SIZE / 2, 1, 0);
}

static bool forks_copy(void)
{
	char *m = map_under_keyid(SIZE);

	fill(m, SIZE, 1);
	if (!in_child(overwrites, m) || !holds(m, SIZE, 1, 0))
		return false;
	fill(m, SIZE, 3);
	return holds(m, SIZE, 3, 0) && !munmap(m, SIZE);
}

static bool protection_changes(void)
{
	char *m = map_under_keyid(SIZE);
	unsigned int i;

	fill(m, SIZE, 1);
	for (i = 0; i < PAGES; i += 2)
		if (mprotect(m + i * PAGE, PAGE, i % 4 ? PROT_NONE : PROT_READ))
			fail("mprotect");
	if (mprotect(m, SIZE, PROT_READ | PROT_WRITE))
		fail("mprotect");
	if (!holds(m, SIZE, 1, 0))
		return false;
	fill(m, SIZE, 2);
	return holds(m, SIZE, 2, 0) && !munmap(m, SIZE);
}

static bool mappings_move(void)
{
	char *m = map_under_keyid(SIZE), *to = map(2 * SIZE), *moved;

	fill(m, SIZE, 1);
	moved = mremap(m, SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (moved != to)
		fail("mremap");
	if (!holds(moved, SIZE, 1, moved - m))
		return false;
	/* Added memory is under the KeyID, too. */
	fill(moved + SIZE, SIZE, 2);
	if (!holds(moved + SIZE, SIZE, 2, 0))
		return false;
	if (nr_vmas(moved, 2 * SIZE) != 1)
		return because("%lu VMAs", nr_vmas(moved, 2 * SIZE));
	return !munmap(moved, 2 * SIZE);
}

static char *map_huge(size_t size)
{
	char *m = map(size + HUGE);
	char *aligned = (char *)(((unsigned long)m + HUGE - 1) & ~(HUGE - 1));

	munmap(m, aligned - m);
	munmap(aligned + size, m + HUGE - aligned);
	if (madvise(aligned, size, MADV_HUGEPAGE))
		fail("MADV_HUGEPAGE");
	return aligned;
}

static char *huge_under_keyid(size_t size)
{
	char *m = map_huge(size);

	if (encrypt(m, size, keyid))
		fail("KeyID %u", keyid);
	return m;
}

static bool huge_pages_split(void)
{
	char *m = huge_under_keyid(2 * HUGE);

	fill(m, 2 * HUGE, 1);
	if (!smaps_kb(m, 2 * HUGE, "AnonHugePages"))
		return because("no huge page");
	if (mprotect(m + PAGE, PAGE, PROT_READ) ||
	    munmap(m + HUGE + PAGE, PAGE) ||
	    madvise(m + HUGE + 4 * PAGE, PAGE, MADV_DONTNEED))
		fail("splitting");
	return holds(m, HUGE + PAGE, 1, 0) &&
	       holds(m + HUGE + 2 * PAGE, 2 * PAGE, 1, 0) &&
	       !*(volatile u64 *)(m + HUGE + 4 * PAGE) &&
	       holds(m + HUGE + 5 * PAGE, HUGE - 5 * PAGE, 1, 0) &&
	       !munmap(m, 2 * HUGE);
}

/* The huge page of zeroes that was there would be split under the KeyID. */
static bool pages_of_zeroes_go(void)
{
	static u64 before[HUGE / PAGE], after[HUGE / PAGE];
	char *m = map_huge(HUGE);
	size_t i;

	if (*(volatile u64 *)m)
		return because("%#llx in new memory", *(u64 *)m);
	frames(m, HUGE, before);
	if ((before[0] & FRAME) + 1 != (before[1] & FRAME))
		return because("no huge page of zeroes to begin with");
	if (encrypt(m, HUGE, keyid))
		return because("%s", strerror(errno));
	if (munmap(m + PAGE, PAGE))
		fail("munmap");
	for (i = 0; i < HUGE; i += PAGE)
		if (i != PAGE && *(volatile u64 *)(m + i))
			return because("%#llx in page %zu", *(u64 *)(m + i),
				       i / PAGE);
	frames(m, HUGE, after);
	if ((after[0] & FRAME) == (after[2] & FRAME))
		return because("the shared page of zeroes is there");
	fill(m + 2 * PAGE, HUGE - 2 * PAGE, 1);
	return holds(m + 2 * PAGE, HUGE - 2 * PAGE, 1, 0) && !munmap(m, HUGE);
}

static bool small_pages_collapse(void)
{
	char *m = huge_under_keyid(HUGE);

	if (madvise(m, HUGE, MADV_NOHUGEPAGE))
		fail("MADV_NOHUGEPAGE");
	fill(m, HUGE, 1);
	if (smaps_kb(m, HUGE, "AnonHugePages"))
		return because("a huge page to begin with");
	if (madvise(m, HUGE, MADV_HUGEPAGE) || madvise(m, HUGE, MADV_COLLAPSE))
		return because("MADV_COLLAPSE: %s", strerror(errno));
	if (!smaps_kb(m, HUGE, "AnonHugePages"))
		return because("no huge page");
	return holds(m, HUGE, 1, 0) && !munmap(m, HUGE);
}

/*
 * Every other page is free, so that there is something to compact. Pages only
 * move up: memory that is handed out from above is handed out before, for room.
 */
static bool some_migrate(char *m, size_t size, size_t *moved)
{
	static u64 before[HOLES / PAGE], after[HOLES / PAGE];
	char *room = map(size);
	size_t at;

	if (madvise(m, size, MADV_NOHUGEPAGE))
		fail("MADV_NOHUGEPAGE");
	fill(room, size, 2);
	fill(m, size, 1);
	munmap(room, size);
	for (at = 0; at < size; at += 2 * PAGE)
		if (madvise(m + at, PAGE, MADV_DONTNEED))
			fail("MADV_DONTNEED");
	frames(m, size, before);
	if (!write_text(COMPACT, "1"))
		fail(COMPACT);
	frames(m, size, after);
	for (at = 0; at < size / PAGE; at++)
		*moved += before[at] != after[at];
	for (at = PAGE; at < size; at += 2 * PAGE)
		if (!holds(m + at, PAGE, 1, 0))
			return false;
	return true;
}

/* Where memory lies, and so what moves, is not ours to choose: try elsewhere. */
static bool pages_migrate(void)
{
	char *ballast[TRIES];
	size_t moved = 0;
	int tries = 0, i;
	bool good = true;

	while (good && moved < 100 && tries < TRIES) {
		char *m = map_under_keyid(HOLES);

		good = some_migrate(m, HOLES, &moved);
		munmap(m, HOLES);
		/* Else it comes back from the pool. */
		if (!write_text(COMPACT, "1"))
			fail(COMPACT);
		ballast[tries] = map(HOLES / 2);
		fill(ballast[tries++], HOLES / 2, 2);
	}
	for (i = 0; i < tries; i++)
		munmap(ballast[i], HOLES / 2);
	return good && (moved >= 100 || because("%zu pages were moved", moved));
}

static bool others_trace(void)
{
	char *m = map_under_keyid(SIZE);
	int status;
	pid_t child;
	long data;

	fill(m, SIZE, 1);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) || raise(SIGSTOP))
			_exit(2);
		_exit(*(volatile u64 *)m != 0x1234567);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		fail("the child does not stop");
	errno = 0;
	data = ptrace(PTRACE_PEEKDATA, child, m + PAGE, 0);
	if (errno || (u64)data != word((void *)(m + PAGE), 1))
		because("%#lx was read", data);
	if (ptrace(PTRACE_POKEDATA, child, m, 0x1234567L))
		fail("PTRACE_POKEDATA");
	if (ptrace(PTRACE_CONT, child, 0, 0))
		fail("PTRACE_CONT");
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	if (!why[0] && status)
		because("what was written is not there: status %#x", status);
	return !why[0] && holds(m, SIZE, 1, 0) && !munmap(m, SIZE);
}

static bool neighbours_do_not_merge(void)
{
	char *m = map(3 * SIZE);

	if (encrypt(m + SIZE, SIZE, keyid))
		fail("KeyID %u", keyid);
	if (nr_vmas(m, 3 * SIZE) != 3)
		return because("%lu VMAs", nr_vmas(m, 3 * SIZE));
	fill(m, 3 * SIZE, 1);
	/* Memory mapped beside it is not under the KeyID. */
	if (munmap(m, SIZE) ||
	    mmap(m, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != m)
		fail("mmap");
	if (nr_vmas(m, 3 * SIZE) != 3)
		return because("%lu VMAs at last", nr_vmas(m, 3 * SIZE));
	return holds(m + SIZE, 2 * SIZE, 1, 0) && !munmap(m, 3 * SIZE);
}

static bool equals_merge(void)
{
	char *m = map(2 * SIZE);

	if (encrypt(m, SIZE, keyid) || encrypt(m + SIZE, SIZE, keyid))
		fail("KeyID %u", keyid);
	if (nr_vmas(m, 2 * SIZE) != 1)
		return because("%lu VMAs", nr_vmas(m, 2 * SIZE));
	fill(m, 2 * SIZE, 1);
	return holds(m, 2 * SIZE, 1, 0) && !munmap(m, 2 * SIZE);
}

/* They have been one VMA, in which there are pages. */
static bool a_part_can_have_one(void)
{
	char *m = map(3 * SIZE);

	fill(m, SIZE, 1);
	if (encrypt(m + SIZE, SIZE, keyid))
		return because("%s", strerror(errno));
	fill(m + SIZE, 2 * SIZE, 1);
	return holds(m, 3 * SIZE, 1, 0) && !munmap(m, 3 * SIZE);
}

/* Once when it gets its KeyID, and once when the pool has to give it back. */
static bool each_page_is_flushed_twice(void)
{
	u64 before, later, freed;
	char *m;

	/* The pool and the CPUs hold back what was freed: compaction takes it. */
	if (!write_text(COMPACT, "1"))
		fail(COMPACT);
	before = counted("flushed_for_keyid");
	m = map_under_keyid(SIZE);
	fill(m, SIZE, 1);
	if (counted("flushed_for_keyid") != before + PAGES)
		return because("%llu for %lu pages",
			       counted("flushed_for_keyid") - before, PAGES);
	if (!write_text(COMPACT, "1"))
		fail(COMPACT);
	freed = counted("flushed_when_freed");
	later = counted("flushed_for_keyid");
	if (munmap(m, SIZE) || !write_text(COMPACT, "1"))
		fail("munmap");
	/* Pages moved meanwhile count for both. */
	freed = counted("flushed_when_freed") - freed;
	later = counted("flushed_for_keyid") - later;
	return freed - later == PAGES ||
	       because("%llu when they were freed", freed - later);
}

/* Reused pages are not flushed, but for those that another CPU has kept. */
static bool the_pool_saves_flushes(void)
{
	size_t size = 16 * SIZE;
	char *m = map_under_keyid(size);
	u64 flushed, hits;

	fill(m, size, 1);
	munmap(m, size);
	flushed = counted("flushed_for_keyid");
	hits = counted("pool_hits");
	m = map_under_keyid(size);
	if (*(volatile u64 *)(m + size / 2))
		return because("%#llx in new memory", *(u64 *)(m + size / 2));
	fill(m, size, 2);
	flushed = counted("flushed_for_keyid") - flushed;
	hits = counted("pool_hits") - hits;
	if (hits < 12 * PAGES || flushed > 4 * PAGES)
		return because("%llu of %lu pages were flushed, %llu not",
			       flushed, 16 * PAGES, hits);
	return holds(m, size, 2, 0) && !munmap(m, size);
}

/* The pool has a good part of memory, and others do not go short of it. */
static bool the_pool_gives_way(void)
{
	size_t size = (size_t)sysconf(_SC_PHYS_PAGES) / 8 * 3 * PAGE, i;
	char *m = map_under_keyid(size);
	u64 before, after;

	for (i = 0; i < size; i += PAGE)
		*(volatile char *)(m + i) = 1;
	munmap(m, size);
	before = counted("pool_pages");
	if (before < size / PAGE / 2)
		return because("%llu pages in the pool", before);

	/* It is not paged out, so all else that there is has to do. */
	size = number_in(MEMINFO, "MemFree:") * 1024 / PAGE * PAGE +
	       before / 4 * 3 * PAGE;
	m = map(size);
	if (mlock(m, size))
		return because("%zu kB: %s", size / 1024, strerror(errno));
	after = counted("pool_pages");
	munmap(m, size);
	return after < before / 2 ||
	       because("%llu pages of %llu are still in the pool", after, before);
}

/* A hog takes huge pages while there are some, and then small ones. */
static bool takes_memory(char *m)
{
	size_t size = *(size_t *)m, i, j;
	char *hog = map_huge(size);
	u64 enough;

	if (setuid(NOBODY))
		fail("setuid");
	/* That there is none takes long to find out. */
	enough = number_in(VMSTAT, "thp_fault_fallback") + 1;
	for (i = 0; i < size; i += HUGE) {
		if (number_in(VMSTAT, "thp_fault_fallback") >= enough &&
		    madvise(hog + i, size - i, MADV_NOHUGEPAGE))
			fail("MADV_NOHUGEPAGE");
		for (j = i; j < i + HUGE; j += PAGE)
			*(volatile char *)(hog + j) = 1;
	}
	return true;
}

/*
 * All CPUs stand still when they write back their caches: nobody can have them
 * do that by using up memory, nor have the pool emptied in one go. Half of what
 * is used here is in the pool then, and a quarter is free, but for no huge page:
 * who wants one has the lists of CPUs drained.
 */
static bool hogs_stop_no_cpu(void)
{
	size_t size = (size_t)sysconf(_SC_PHYS_PAGES) / 4 * PAGE, i;
	u64 all, ranges, freed, returned, most, pooled;
	char *m, *between, *holes, *hog;
	bool good;

	if (!write_text(COMPACT, "1"))
		fail(COMPACT);
	m = map_under_keyid(size);
	between = map(size / 2);
	holes = map(size / 2);
	for (i = 0; i < size; i += PAGE) {
		char *other = i / PAGE % 2 ? between : holes;

		*(volatile char *)(m + i) = 1;
		*(volatile char *)(other + i / (2 * PAGE) * PAGE) = 1;
	}
	munmap(holes, size / 2);
	munmap(m, size);
	pooled = counted("pool_pages");
	if (pooled < size / PAGE / 2)
		return because("%llu pages in the pool", pooled);

	all = counted("flushed_all");
	ranges = counted("flushed_ranges");
	freed = counted("flushed_when_freed");
	returned = counted("pool_returned");
	hog = map(PAGE);
	/* More than is free, so that the pool has to give way. */
	*(size_t *)hog = (number_in(MEMINFO, "MemFree:") * 1024 + pooled / 4 * PAGE) /
			 HUGE * HUGE;
	good = in_child(takes_memory, hog);
	all = counted("flushed_all") - all;
	ranges = counted("flushed_ranges") - ranges;
	returned = counted("pool_returned") - returned;
	freed = counted("flushed_when_freed") - freed;
	most = counted("pool_most");
	munmap(hog, PAGE);
	munmap(between, size / 2);
	printf("# a hog: %llu of %llu pages left the pool, %llu at most in one go; %llu were flushed, in %llu ranges; WBINVD: %llu\n",
	       returned, pooled, most, freed, ranges, all);
	if (!good)
		return false;
	if (all)
		return because("CPUs wrote back all they had cached, %llu times",
			       all);
	if (most > BATCH)
		return because("%llu pages left the pool in one go", most);
	return returned && freed >= returned ? true :
	       because("%llu pages left the pool, %llu were flushed", returned,
		       freed);
}

/* Devices would read and write what is not under the KeyID. */
static bool nobody_pins(void)
{
	char *m = map_under_keyid(PAGE), *plain = map(PAGE);
	int fd = open(SWAP_DISK, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		fail(SWAP_DISK);
	fill(m, PAGE, 1);
	if (pread(fd, plain, PAGE, 0) != PAGE)
		return because("nothing is read at all: %s", strerror(errno));
	if (pread(fd, m, PAGE, 0) >= 0)
		return because("a device has read to it");
	if (errno != EFAULT && errno != EOPNOTSUPP)
		return because("%s", strerror(errno));
	close(fd);
	return holds(m, PAGE, 1, 0) && !munmap(m, PAGE) && !munmap(plain, PAGE);
}

static bool is_locked(char *m)
{
	if (!madvise(m, SIZE, MADV_PAGEOUT) || errno != EINVAL)
		return because("it is not locked");
	if (smaps_kb(m, SIZE, "Swap"))
		return because("%lu kB are", smaps_kb(m, SIZE, "Swap"));
	return true;
}

static bool child_does_not_page_out(char *m)
{
	if (!is_locked(m))
		return false;
	fill(m, SIZE / 2, 3);
	return is_locked(m) && holds(m, SIZE / 2, 3, 0);
}

static bool it_is_not_paged_out(void)
{
	char *m = map_under_keyid(SIZE), *plain = map(SIZE);

	/* Pages that others swapped out while memory was short leave no room. */
	if (swapoff(SWAP_DISK) || !swap_on(SWAP_DISK, 0))
		fail("swap on " SWAP_DISK);
	fill(m, SIZE, 1);
	fill(plain, SIZE, 2);
	if (madvise(plain, SIZE, MADV_PAGEOUT))
		fail("MADV_PAGEOUT");
	if (!smaps_kb(plain, SIZE, "Swap"))
		return because("nothing is paged out here");
	return is_locked(m) && in_child(child_does_not_page_out, m) &&
	       holds(m, SIZE, 1, 0) && holds(plain, SIZE, 2, 0) &&
	       !munmap(m, SIZE) && !munmap(plain, SIZE);
}

struct check {
	const char *name;
	bool (*check)(void);
};

static const struct check checks[] = {
	{ "new memory is zero", new_memory_is_zero },
	{ "forks copy", forks_copy },
	{ "protection changes", protection_changes },
	{ "mappings move", mappings_move },
	{ "huge pages split", huge_pages_split },
	{ "pages of zeroes go", pages_of_zeroes_go },
	{ "small pages collapse", small_pages_collapse },
	{ "pages migrate", pages_migrate },
	{ "others trace", others_trace },
	{ "neighbours do not merge", neighbours_do_not_merge },
	{ "equals merge", equals_merge },
	{ "a part can have one", a_part_can_have_one },
	{ "each page is flushed twice", each_page_is_flushed_twice },
	{ "the pool saves flushes", the_pool_saves_flushes },
	{ "the pool gives way", the_pool_gives_way },
	{ "nobody pins", nobody_pins },
	{ "it is not paged out", it_is_not_paged_out },
};

/* For one KeyID, as it takes long. */
static const struct check once = { "hogs stop no CPU", hogs_stop_no_cpu };

static unsigned int nr, failed;

static void run(const struct check *which)
{
	bool good;

	why[0] = '\0';
	good = which->check();
	failed += !good;
	printf("%sok %u %s, KeyID %u\n", good ? "" : "not ", ++nr, which->name,
	       keyid);
	if (!good)
		printf("# %s\n", why);
}

int main(int argc, char **argv)
{
	bool hog = argc == 3 && !strcmp(argv[2], "hog");
	unsigned int keyids = argc == 2 + hog ? strtoul(argv[1], NULL, 10) : 0;
	unsigned int i;

	if (!keyids) {
		fprintf(stderr, "usage: mktme KEYIDS [hog]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* On a machine with little memory the kernel has decided to have none. */
	if (!write_text(THP, "madvise"))
		fail(THP);
	if (!write_text(THP_DEFRAG, "madvise"))
		fail(THP_DEFRAG);
	if (!write_text(THP_ZEROES, "1"))
		fail(THP_ZEROES);
	if (!swap_on(SWAP_DISK, 0))
		fail("swap on " SWAP_DISK);
	printf("TAP version 13\n1..%zu\n", keyids * ARRAY_SIZE(checks) + hog);
	for (keyid = 1; keyid <= keyids; keyid++)
		for (i = 0; i < ARRAY_SIZE(checks); i++)
			run(&checks[i]);
	keyid = keyids;
	if (hog)
		run(&once);
	return !!failed;
}
