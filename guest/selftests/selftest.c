// SPDX-License-Identifier: GPL-2.0-only
/*
 * A time limit for the programs of a selftest, which the kernel's runner lacks.
 *
 * Stands in for a program: it is called by the name of one and runs that from
 * programs/, or by "./DIRECTORY/NAME", and runs that in its directory there.
 * Says in the kernel's log what begins, which tells in what a machine died. A
 * line "PROGRAM [ARGUMENT...]" in the file left-out is skipped instead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "compiler.h"
#include "kmsg.h"

#define TOP		"/selftests/"
#define EXIT_SKIP	4
#define EXIT_LATE	124
#define EXIT_SETUP	125
#define DEFAULT_S	60
#define GRACE_S		10

static char *joined(const char *name, char **argv)
{
	char *line = strdup(name), *longer;

	while (line && *++argv) {
		if (asprintf(&longer, "%s %s", line, *argv) < 0)
			return NULL;
		free(line);
		line = longer;
	}
	return line;
}

static int listed(const char *file, const char *line)
{
	char **each = read_args(file);

	for (; each && *each; each++)
		if (!strcmp(*each, line))
			return 1;
	return 0;
}

/* Processes that a program leaves behind become ours: end all of them. */
static void end_all(pid_t pid)
{
	char path[64], buffer[4096], *next;
	ssize_t n;
	int fd;

	kill(-pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	do {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, buffer, sizeof(buffer) - 1);
		if (fd >= 0)
			close(fd);
		if (n <= 0)
			return;
		buffer[n] = '\0';
		for (next = strtok(buffer, " "); next; next = strtok(NULL, " "))
			kill(atoi(next), SIGKILL);
	} while (waitpid(-1, NULL, 0) > 0);
}

/* Some tests leave their end to a child. Returns whether it came in time. */
static int wait_for_children(int seconds)
{
	int tenths = seconds * 10;

	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		if (!tenths--)
			return 0;
		usleep(100000);
	}
	return 1;
}

/* Returns an exit status as a shell would. */
static int run(const char *path, char **argv, int seconds, int all)
{
	struct pollfd ended = { .events = POLLIN };
	int status, late;
	pid_t pid;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		execv(path, argv);
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (pid < 0)
		return EXIT_SETUP;
	ended.fd = syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		return EXIT_SETUP;
	late = !poll(&ended, 1, seconds * 1000);
	if (late) {
		/* It puts back what it has set for the whole system. */
		kill(-pid, SIGTERM);
		if (!poll(&ended, 1, GRACE_S * 1000))
			kill(-pid, SIGKILL);
	}
	if (waitpid(pid, &status, 0) != pid)
		return EXIT_SETUP;
	if (all && !late)
		late = !wait_for_children(seconds);
	end_all(pid);
	if (late)
		return EXIT_LATE;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

/* The program that this one stands in for, below the directory of programs. */
static const char *called(char *name)
{
	return !strncmp(name, "./", 2) ? name + 2 : basename(name);
}

int main(int argc, char **argv)
{
	const char *name = called(argv[0]), *given = getenv("SELFTEST_S");
	char *line = joined(name, argv), *path, *directory;
	int seconds = given ? atoi(given) : DEFAULT_S, status;

	if (argc < 1 || !line || asprintf(&path, TOP "programs/%s", name) < 0)
		return EXIT_SETUP;
	if (listed(TOP "left-out", line)) {
		printf("@selftest: left out\n");
		return EXIT_SKIP;
	}
	/* As the kernel's own runner does: some open the file of their name. */
	if (strchr(name, '/')) {
		directory = dirname(strdupa(path));
		if (chdir(directory) ||
		    asprintf(argv, ".%s", path + strlen(directory)) < 0)
			return EXIT_SETUP;
	}
	kmsg("@selftest: begin %s\n", line);
	status = run(path, argv, seconds, listed(TOP "waited-for", line));
	if (status == EXIT_LATE)
		printf("@selftest: no end after %d s\n", seconds);
	kmsg("@selftest: end %s\n", line);
	return status;
}
