// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "work.h"

extern char **environ;

void touch(volatile char *at, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += PAGE)
		at[i] = 1;
}

static char *map(size_t size, int advice)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || madvise(at, size, advice))
		fail("mmap");
	return at;
}

char *map_small(size_t size)
{
	return map(size, MADV_NOHUGEPAGE);
}

char *map_huge(size_t size)
{
	return map(size, MADV_HUGEPAGE);
}

char *faulted_in(size_t size)
{
	char *at = map_small(size);

	touch(at, size);
	return at;
}

void copy_on_write(size_t size)
{
	char *at = faulted_in(size);
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		touch(at, size);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	munmap(at, size);
}

void run_program(const char *path, unsigned int number)
{
	char name[32], text[16];
	char *const argv[] = { name, text, NULL };
	int status;
	pid_t pid;

	snprintf(name, sizeof(name), "%s", path);
	snprintf(text, sizeof(text), "%u", number);
	errno = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (errno || waitpid(pid, &status, 0) != pid || status)
		fail("%s", path);
}
