// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first process of an emulated host machine: set it up as User-Mode Linux
 * needs it, run that on the serial console, power off.
 *
 * Everything before "@redoubt: host ready" on the console is the machine's own
 * noise, everything after it up to "@redoubt: host exit=N" is UML's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
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

#define KERNEL		"/linux"
#define ARGS_FILE	"/cmdline"
#define MAX_MAP_COUNT	"/proc/sys/vm/max_map_count"

/* Every tagged page table may split a mapping in three. */
#define MAPS		"1048576"

#define KLOG_CONSOLE_OFF 6

static noreturn void power_off(int status)
{
	printf("\n@redoubt: host exit=%d\n", status);
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	reboot(RB_POWER_OFF);
	_exit(status);
}

static void mount_one(const char *type, const char *where, const char *options)
{
	mkdir(where, 0755);
	if (!mount(type, where, type, 0, options) || errno == EBUSY)
		return;
	printf("host-init: mounting %s on %s: %s\n", type, where,
	       strerror(errno));
	power_off(EXIT_SETUP);
}

static void set_max_map_count(void)
{
	if (!write_text(MAX_MAP_COUNT, MAPS))
		printf("host-init: %s: %s\n", MAX_MAP_COUNT, strerror(errno));
}

/* UML has a terminal of its own: pass every byte as it is, both ways. */
static struct termios make_console_raw(void)
{
	struct termios before, raw;

	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	cfmakeraw(&raw);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	return before;
}

static noreturn void run_kernel(char **args)
{
	size_t n = 0, skip;
	char **argv;

	while (args[n])
		n++;
	/* The list may begin with the program itself or not. */
	skip = n && !strcmp(args[0], KERNEL);
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		_exit(EXIT_SETUP);
	argv[0] = strdup(KERNEL);
	memcpy(argv + 1, args + skip, (n - skip) * sizeof(*argv));

	setsid();
	setenv("TMPDIR", "/tmp", 1);
	setenv("HOME", "/", 1);
	execv(KERNEL, argv);
	printf("host-init: %s: %s\n", KERNEL, strerror(errno));
	fflush(stdout);
	_exit(errno == ENOENT ? 127 : 126);
}

int main(void)
{
	struct termios console;
	char **args;
	int status;
	pid_t pid;

	mount_one("devtmpfs", "/dev", NULL);
	open_console();
	mount_one("proc", "/proc", NULL);
	mount_one("sysfs", "/sys", NULL);
	mount_one("tmpfs", "/tmp", "mode=1777");
	mount_one("tmpfs", "/dev/shm", "mode=1777");
	mount_one("devpts", "/dev/pts", NULL);
	klogctl(KLOG_CONSOLE_OFF, NULL, 0);
	set_max_map_count();

	args = read_args(ARGS_FILE);
	if (!args) {
		printf("host-init: %s: %s\n", ARGS_FILE, strerror(errno));
		power_off(EXIT_SETUP);
	}

	printf("@redoubt: host ready\n");
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	console = make_console_raw();

	pid = fork();
	if (pid < 0) {
		printf("host-init: fork: %s\n", strerror(errno));
		power_off(EXIT_SETUP);
	}
	if (!pid)
		run_kernel(args);
	status = wait_for(pid);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &console);
	power_off(status);
}
