// SPDX-License-Identifier: GPL-2.0-only
/*
 * The work of the first process of any machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "first.h"

/* Use the console if the kernel found none before /dev was there. */
void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	if (fd < 0)
		return;
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* Wait for @pid and for every orphan meanwhile. Returns an exit status. */
int wait_for(pid_t pid)
{
	int status;
	pid_t ended;

	do {
		ended = wait(&status);
	} while (ended != pid && (ended > 0 || errno == EINTR));

	if (ended != pid)
		return EXIT_SETUP;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}
