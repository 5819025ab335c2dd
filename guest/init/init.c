// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first process of a guest: mount what programs expect, run one command,
 * say how it ended, power off.
 *
 * The command is in /etc/redoubt/cmd, one argument per line; without that
 * file a shell is started for whoever sits at the console. A folder of the
 * host is mounted if /etc/redoubt/share has its type, source and options.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "args.h"
#include "compiler.h"
#include "files.h"
#include "first.h"

#define COMMAND_FILE	"/etc/redoubt/cmd"
#define SHARE_FILE	"/etc/redoubt/share"
#define SHARE		"/share"
#define CONSOLES	"/sys/class/tty/console/active"

struct mount {
	const char *type;
	const char *where;
	const char *options;
	bool required;
};

static const struct mount mounts[] = {
	{ "devtmpfs", "/dev", NULL, true },
	{ "proc", "/proc", NULL, true },
	{ "sysfs", "/sys", NULL, true },
	{ "debugfs", "/sys/kernel/debug", NULL, false },
	{ "tmpfs", "/tmp", "mode=1777", true },
	{ "tmpfs", "/run", "mode=0755", true },
	{ "devpts", "/dev/pts", "ptmxmode=0666", false },
	{ "tmpfs", "/dev/shm", "mode=1777", false },
};

static noreturn void power_off(int status)
{
	/* On a line of its own, even if the command did not end its last. */
	printf("\n@redoubt: exit=%d\n", status);
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	sync();
	reboot(RB_POWER_OFF);
	_exit(status);	/* not reached, but for a kernel that cannot do it */
}

static int mount_one(const struct mount *m)
{
	if (!strncmp(m->where, "/dev/", 5))
		mkdir(m->where, 0755);
	/* The kernel may have mounted /dev already. */
	if (!mount(m->type, m->where, m->type, 0, m->options) ||
	    errno == EBUSY)
		return 0;
	return m->required ? errno : 0;
}

static noreturn void fail_mount(const char *type, const char *where, int err,
				const char *missing)
{
	fprintf(stderr, "init: mounting %s on %s: %s%s\n", type, where,
		strerror(err),
		err == ENOENT ? missing :
		err == ENODEV ? " (not in this kernel's configuration)" : "");
	power_off(EXIT_SETUP);
}

static void mount_all(void)
{
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(mounts); i++) {
		err = mount_one(&mounts[i]);
		if (err)
			fail_mount(mounts[i].type, mounts[i].where, err,
				   " (the root directory has to have it)");
	}
}

static void mount_share(void)
{
	char **args = read_args(SHARE_FILE);

	if (!args)
		return;
	if (!args[0] || !args[1] || !args[2])
		fail_mount("a folder", SHARE, EINVAL, "");
	if (mount(args[1], SHARE, args[0], 0, args[2]))
		fail_mount(args[0], SHARE, errno,
			   " (the machine has no such device or folder)");
}

/* /dev/console cannot control a session; what is behind it can. */
static int open_terminal(void)
{
	char path[64] = "/dev/", *name = path + strlen(path), *last;

	if (!read_text(CONSOLES, name, path + sizeof(path) - name) || !*name)
		return -1;
	/* If there are several, the last one is /dev/console. */
	last = strrchr(name, ' ');
	if (last)
		memmove(name, last + 1, strlen(last));
	return open(path, O_RDWR);
}

/*
 * When the leader of a session ends its terminal is hung up, and what has not
 * been sent yet is lost. So this is the leader, and waits for the command.
 */
static void lead_session(void)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (!pid)
		return;
	if (pid < 0) {
		fprintf(stderr, "init: fork: %s\n", strerror(errno));
		_exit(EXIT_SETUP);
	}
	/* Keys are for the command. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	status = wait_for(pid);
	tcdrain(STDOUT_FILENO);
	_exit(status);
}

static noreturn void run_command(char **argv)
{
	int tty;

	setsid();
	tty = open_terminal();
	if (tty >= 0 && !ioctl(tty, TIOCSCTTY, 0)) {
		dup2(tty, STDIN_FILENO);
		dup2(tty, STDOUT_FILENO);
		dup2(tty, STDERR_FILENO);
	}
	if (tty > STDERR_FILENO)
		close(tty);

	lead_session();

	setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin", 1);
	setenv("HOME", "/", 1);
	setenv("TERM", "linux", 0);
	execvp(argv[0], argv);
	fprintf(stderr, "init: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

int main(void)
{
	char sh[] = "/bin/sh";
	char *shell[2] = { sh };
	char **argv;
	pid_t pid;

	mount_all();
	open_console();
	mount_share();

	argv = read_args(COMMAND_FILE);
	if (!argv && errno != ENOENT) {
		fprintf(stderr, "init: %s: %s\n", COMMAND_FILE,
			strerror(errno));
		power_off(EXIT_SETUP);
	}
	if (!argv) {
		if (access(sh, X_OK)) {
			fprintf(stderr,
				"init: nothing to run: there is no %s and no %s\n",
				COMMAND_FILE, sh);
			power_off(EXIT_SETUP);
		}
		argv = shell;
	}

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "init: fork: %s\n", strerror(errno));
		power_off(EXIT_SETUP);
	}
	if (!pid)
		run_command(argv);
	power_off(wait_for(pid));
}
