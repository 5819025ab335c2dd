// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load a kernel the way a build of many small files does.
 *
 *   buildlike UNITS
 *
 * runs UNITS "compilations", two at a time, each a process of its own that is
 * forked and executed: it maps the shared "headers" and reads them all, keeps
 * what it found in some 8 MB of small objects that it allocates as it goes,
 * walks over them several times, sorts, writes an "object file" of 256 KB and
 * exits. The last step, the "linker", reads all object files.
 *
 * Everything is derived from the number of the unit, and the linker knows what
 * it must find.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler.h"

#define UNIT		"--unit"
#define JOBS		2
#define PASSES		6

#define KB		1024UL
#define HEADERS_SIZE	(1024 * KB)
#define OBJECT_SIZE	(256 * KB)
#define CHUNK		(256 * KB)
#define NODES		80000
#define BUCKETS		4096

struct node {
	struct node *next;
	u64 key;
	u64 value;
	char text[64];
};

static noreturn void fail(const char *what)
{
	fprintf(stderr, "buildlike: %s: %s\n", what, strerror(errno));
	exit(1);
}

static u64 mix(u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ (x >> 33);
}

static void object_name(char *name, size_t size, unsigned int unit)
{
	snprintf(name, size, "%u.o", unit);
}

/* A file of @size bytes that follow from @seed. */
static void write_file(const char *name, size_t size, u64 seed)
{
	u64 *words = malloc(size);
	size_t i;
	int fd;

	if (!words)
		fail("malloc");
	for (i = 0; i < size / sizeof(*words); i++)
		words[i] = mix(seed + i);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	/* In pieces, as through stdio. */
	for (i = 0; fd >= 0 && i < size; i += 4 * KB)
		if (write(fd, (char *)words + i, 4 * KB) != 4 * KB)
			fail(name);
	if (fd < 0 || close(fd))
		fail(name);
	free(words);
}

static const u64 *map_file(const char *name, size_t size)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	const u64 *words;

	if (fd < 0)
		fail(name);
	words = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (words == MAP_FAILED)
		fail(name);
	close(fd);
	return words;
}

/* === The compiler === */

/* As compilers do: chunks from the kernel, given back by exiting. */
static void *allocate(size_t size)
{
	static char *chunk;
	static size_t left;
	void *object;

	if (left < size) {
		chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk == MAP_FAILED)
			fail("mmap");
		left = CHUNK;
	}
	object = chunk;
	chunk += size;
	left -= size;
	return object;
}

static int by_value(const void *left, const void *right)
{
	const struct node *l = *(const struct node *const *)left;
	const struct node *r = *(const struct node *const *)right;

	return (l->value > r->value) - (l->value < r->value);
}

static void compile(unsigned int unit)
{
	static struct node *table[BUCKETS], *sorted[NODES];
	const u64 *headers = map_file("headers", HEADERS_SIZE);
	size_t words = HEADERS_SIZE / sizeof(*headers), i, pass;
	struct node *node;
	char name[32];
	u64 key;

	/* Read, and make objects of what was read. */
	for (i = 0; i < NODES; i++) {
		key = headers[i * 7 % words] ^ mix(unit);
		node = allocate(sizeof(*node));
		node->key = key;
		node->value = i;
		snprintf(node->text, sizeof(node->text), "symbol_%zu", i);
		node->next = table[key % BUCKETS];
		table[key % BUCKETS] = node;
		sorted[i] = node;
	}
	/* Passes: everything by its links, changing some. */
	for (pass = 0; pass < PASSES; pass++)
		for (i = 0; i < BUCKETS; i++)
			for (node = table[i]; node; node = node->next)
				node->value = mix(node->value ^ node->key);
	qsort(sorted, NODES, sizeof(*sorted), by_value);
	for (i = 1; i < NODES; i++)
		if (sorted[i - 1]->value > sorted[i]->value)
			exit(2);

	object_name(name, sizeof(name), unit);
	write_file(name, OBJECT_SIZE, unit);
	exit(0);
}

/* === make === */

static void start(unsigned int unit)
{
	char number[16];
	pid_t pid;

	snprintf(number, sizeof(number), "%u", unit);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		execl("/proc/self/exe", "buildlike", UNIT, number, NULL);
		fail("exec");
	}
}

static void wait_for_one(void)
{
	int status;

	if (wait(&status) < 0)
		fail("wait");
	if (status) {
		fprintf(stderr, "buildlike: a unit failed (status %#x)\n",
			status);
		exit(1);
	}
}

static void link_objects(unsigned int units)
{
	unsigned int unit;
	const u64 *object;
	char name[32];
	size_t i;

	for (unit = 0; unit < units; unit++) {
		object_name(name, sizeof(name), unit);
		object = map_file(name, OBJECT_SIZE);
		for (i = 0; i < OBJECT_SIZE / sizeof(*object); i++)
			if (object[i] != mix(unit + i)) {
				fprintf(stderr, "buildlike: %s is wrong\n",
					name);
				exit(1);
			}
		munmap((void *)object, OBJECT_SIZE);
		if (unlink(name))
			fail(name);
	}
}

static unsigned int count(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > 100000) {
		fprintf(stderr, "buildlike: '%s' is no number of units\n",
			text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/buildlike-XXXXXX";
	unsigned int units, i, running = 0;

	if (argc == 3 && !strcmp(argv[1], UNIT))
		compile(count(argv[2]));
	if (argc != 2) {
		fputs("usage: buildlike UNITS\n", stderr);
		return 2;
	}
	units = count(argv[1]);
	if (!mkdtemp(directory) || chdir(directory))
		fail(directory);
	write_file("headers", HEADERS_SIZE, 42);
	for (i = 0; i < units; i++) {
		if (running == JOBS)
			wait_for_one();
		else
			running++;
		start(i);
	}
	while (running--)
		wait_for_one();
	link_objects(units);
	if (unlink("headers") || chdir("/") || rmdir(directory))
		fail(directory);
	return 0;
}
