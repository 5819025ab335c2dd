// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process whose whole heap is under a key: malloc() takes encrypted memory,
 * also for allocations by libraries.
 *
 * encrypted_heap: sorts the lines of standard input, all of which are on the
 * heap.
 *
 * To be short, this malloc() never reuses memory. A real allocator would do the
 * same where it gets memory from the kernel.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mktme.h"

#define CHUNK		(1024 * 1024UL)
#define ALIGNMENT	16UL

static char *next, *end;

static int key_of_heap(void)
{
	static int key = -1;

	if (key < 0)
		key = mktme_random_key();
	return key;
}

/* Map memory that is encrypted from its first use on. */
static int new_chunk(size_t least)
{
	size_t size = (least + CHUNK - 1) & ~(CHUNK - 1);
	char *chunk = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	if (chunk == MAP_FAILED)
		return -1;
	if (mktme_mprotect(chunk, size, PROT_READ | PROT_WRITE, key_of_heap())) {
		munmap(chunk, size);
		return -1;
	}
	next = chunk;
	end = chunk + size;
	return 0;
}

void *malloc(size_t size)
{
	size_t *header;

	if (size > SIZE_MAX / 2)
		goto out_of_memory;
	/* The size is stored in front of the memory. */
	size = (size + 2 * ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if ((size_t)(end - next) < size && new_chunk(size))
		goto out_of_memory;
	header = (size_t *)next;
	*header = size - ALIGNMENT;
	next += size;
	return (char *)header + ALIGNMENT;

out_of_memory:
	errno = ENOMEM;
	return NULL;
}

void free(void *memory)
{
}

void *calloc(size_t nr, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nr, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	/* Fresh memory is zero. */
	return malloc(bytes);
}

void *realloc(void *memory, size_t size)
{
	size_t old = memory ? *(size_t *)((char *)memory - ALIGNMENT) : 0;
	void *moved;

	if (size <= old)
		return memory;
	moved = malloc(size);
	if (moved && old)
		memcpy(moved, memory, old);
	return moved;
}

static int compare(const void *left, const void *right)
{
	return strcmp(*(char * const *)left, *(char * const *)right);
}

int main(void)
{
	size_t nr = 0, room = 0, size = 0, i;
	char **lines = NULL, *line = NULL;

	if (key_of_heap() < 0)
		err(1, "mktme_key_create");
	while (getline(&line, &size, stdin) >= 0) {
		if (nr == room) {
			room = room ? 2 * room : 64;
			lines = realloc(lines, room * sizeof(*lines));
			if (!lines)
				err(1, "out of memory");
		}
		lines[nr++] = line;
		line = NULL;
		size = 0;
	}
	qsort(lines, nr, sizeof(*lines), compare);
	for (i = 0; i < nr; i++)
		fputs(lines[i], stdout);
	return 0;
}
