// SPDX-License-Identifier: GPL-2.0-only
/*
 * Change the machine: load and unload modules, switch a CPU off and on.
 *
 * A writer of code that runs is missing on purpose: QEMU 7.2 shows breakpoints
 * to CPUs after they are gone, with protection off as well.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stress.h"

/* Somebody may try this program on the machine he sits at. */
bool may_change_machine(void)
{
	return !scarce && !access("/etc/redoubt", F_OK);
}

int enter_alone(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void leave_alone(int handle)
{
	close(handle);
}

/* === Modules === */

static char module_path[128], module_name[64];

static enum start start_module(void)
{
	enum start start = LEFT_OUT;
	const char *base;
	glob_t found;

	if (!may_change_machine() || access("/proc/modules", F_OK))
		return LEFT_OUT;
	if (!glob("/lib/modules/*.ko", 0, NULL, &found)) {
		base = strrchr(found.gl_pathv[0], '/') + 1;
		snprintf(module_path, sizeof(module_path), "%s",
			 found.gl_pathv[0]);
		snprintf(module_name, sizeof(module_name), "%.*s",
			 (int)strcspn(base, "."), base);
		start = READY;
	}
	globfree(&found);
	return start;
}

static bool loaded(void)
{
	size_t length = strlen(module_name);
	bool found = false;
	char line[256];
	FILE *file = fopen("/proc/modules", "re");

	if (!check(file))
		return false;
	while (fgets(line, sizeof(line), file))
		found |= !strncmp(line, module_name, length) &&
			 line[length] == ' ';
	fclose(file);
	return found;
}

static bool op_module(void)
{
	int alone = enter_alone("/tmp/stress-module"), fd;
	bool ok;

	if (!check(alone >= 0))
		return false;
	fd = open(module_path, O_RDONLY | O_CLOEXEC);
	ok = check(fd >= 0) &&
	     check(!syscall(SYS_finit_module, fd, "", 0)) &&
	     check(loaded()) &&
	     check(!syscall(SYS_delete_module, module_name, O_NONBLOCK)) &&
	     check(!loaded());
	if (fd >= 0)
		close(fd);
	leave_alone(alone);
	return ok;
}

const struct op module_op = {
	.name = "module",
	.run = op_module,
	.start = start_module,
};

/* === CPUs === */

#define CPU_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define ALL_ONLINE	"/sys/devices/system/cpu/online"

static enum start start_cpu(void)
{
	return may_change_machine() && !access(CPU_ONLINE, W_OK) ? READY :
								   LEFT_OUT;
}

/* Whether the list of CPUs that are on has more than the first one. */
static bool several(void)
{
	char text[64];

	return check(read_text(ALL_ONLINE, text, sizeof(text))) &&
	       strcmp(text, "0");
}

static bool op_cpu(void)
{
	int alone = enter_alone("/tmp/stress-cpu");
	bool ok;

	if (!check(alone >= 0))
		return false;
	ok = check(several()) && check(write_text(CPU_ONLINE, "0"));
	if (ok) {
		ok = check(!several());
		/* A moment for the others on the CPU that is left. */
		usleep(1000 * rnd(50));
		ok &= check(write_text(CPU_ONLINE, "1"));
		ok &= check(several());
	}
	leave_alone(alone);
	return ok;
}

const struct op cpu_op = {
	.name = "cpu",
	.run = op_cpu,
	.start = start_cpu,
};
