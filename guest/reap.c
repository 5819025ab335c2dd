// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting, as a first process has to.
 */
#include <errno.h>
#include <sys/wait.h>

#include "reap.h"

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
