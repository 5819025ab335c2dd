// SPDX-License-Identifier: GPL-2.0-only
/*
 * storm FILE TEXT COMMAND...: write TEXT to FILE again and again for as long as
 * COMMAND runs, and end as it does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"

int main(int argc, char *argv[])
{
	unsigned long times = 0;
	int status;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: storm FILE TEXT COMMAND...\n");
		return 2;
	}
	pid = fork();
	if (pid < 0) {
		perror("storm: fork");
		return 1;
	}
	if (!pid) {
		execv(argv[3], argv + 3);
		fprintf(stderr, "storm: %s: %s\n", argv[3], strerror(errno));
		_exit(127);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		if (!write_text(argv[1], argv[2])) {
			fprintf(stderr, "storm: %s: %s\n", argv[1], strerror(errno));
			return 1;
		}
		times++;
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "storm: %s: killed by signal %d\n", argv[3],
			WTERMSIG(status));
	printf("@storm: times=%lu\n", times);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
