// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has the kernel read what another process has, as an attacker would have it do
 * that: without leaving the restricted address space, and then with leaving it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE	"/sys/kernel/debug/asi/probe"
#define PAGE	4096
#define SECRET	0xa7

static int ask(pid_t pid, const void *addr, const char *how)
{
	char text[128];
	long error = 1;
	unsigned long exits = 0;
	unsigned int value = 0;
	int fd = open(PROBE, O_RDWR | O_CLOEXEC), length;
	ssize_t size;

	if (fd < 0) {
		perror("probe: " PROBE);
		return -1;
	}
	length = snprintf(text, sizeof(text), "%d %lx %s", pid,
			  (unsigned long)addr, how);
	if (write(fd, text, length) != length) {
		perror("probe: write");
		return -1;
	}
	size = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[size < 0 ? 0 : size] = '\0';
	if (sscanf(text, "error %ld exits %lu value %x", &error, &exits,
		   &value) != 3) {
		fprintf(stderr, "probe: cannot read '%s'\n", text);
		return -1;
	}
	printf("@probe: how=%s error=%ld exits=%lu secret=%d\n", how, error,
	       exits, value == SECRET);
	return 0;
}

int main(void)
{
	unsigned char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ready[2], bad;
	pid_t victim;
	char byte;

	if (at == MAP_FAILED || pipe(ready)) {
		perror("probe");
		return 1;
	}
	victim = fork();
	if (victim < 0) {
		perror("probe: fork");
		return 1;
	}
	if (!victim) {
		memset(at, SECRET, PAGE);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	bad = read(ready[0], &byte, 1) != 1 || ask(victim, at, "stay") ||
	      ask(victim, at, "leave");
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	return bad;
}
