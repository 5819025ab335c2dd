// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run several commands one after the other: then CMD ARG... ++ CMD ARG...
 * All of them run; the exit status is that of the first one that failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEPARATOR "++"

/* Returns an exit status as a shell would. */
static int run(char **argv)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		fprintf(stderr, "then: %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		fprintf(stderr, "then: %s: %s\n", argv[0], strerror(errno));
		return 125;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int first = 1, failed = 0, status, i;

	for (i = 1; i <= argc; i++) {
		if (i < argc && strcmp(argv[i], SEPARATOR))
			continue;
		argv[i] = NULL;
		if (first == i) {
			fprintf(stderr, "usage: then CMD [ARG...] [++ CMD [ARG...]]...\n");
			return 2;
		}
		status = run(argv + first);
		if (!failed)
			failed = status;
		first = i + 1;
	}
	return failed;
}
