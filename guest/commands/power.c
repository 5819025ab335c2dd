// SPDX-License-Identifier: GPL-2.0-only
/*
 * Switch the CPU's registers off and on again.
 *
 * power suspend [TIMES]: suspend to RAM until the clock wakes the machine.
 * power hibernate DISK: suspend to a disk, which is made a swap area. The
 *   machine is off then; the next boot with resume=DISK continues here.
 * power kexec KERNEL ARGS: start another kernel, which gets no initramfs.
 *
 * A process that suspends must find the protection keys in the register as
 * it left them, on a CPU of arm64 that has them: no other process runs
 * between, for which the kernel would save it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "files.h"
#include "por.h"
#include "swap.h"

#define ALARM		"/sys/class/rtc/rtc0/wakealarm"
#define MEM_SLEEP	"/sys/power/mem_sleep"
#define STATE		"/sys/power/state"
#define HOW_TO_END	"/sys/power/disk"
/* Long enough to fall asleep in an emulated machine: before that it is lost. */
#define SLEEP_S		"+8"
#define REBOOT_KEXEC	0x45584543
/* What neither a reset nor another process leaves in the register. */
#define POR_MARKED	(POR_INITIAL | POR_FIELD(1, POR_READ))

static bool put(const char *path, const char *text)
{
	bool ok = write_text(path, text);

	if (!ok)
		fprintf(stderr, "power: %s: %s\n", path, strerror(errno));
	return ok;
}

/* Whole lines, although the kernel is about to print some itself. */
static void announce(const char *what)
{
	printf("@power: %s\n", what);
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
}

static void mark_keys(void)
{
	if (por_exists())
		por_write(POR_MARKED);
}

/* Are the keys what they were? */
static bool keys_kept(void)
{
	u64 now;

	if (!por_exists())
		return true;
	now = por_read();
	printf("@power: POR_EL0=%llx before=%llx\n", (unsigned long long)now,
	       (unsigned long long)POR_MARKED);
	return now == POR_MARKED;
}

static int suspend(int times)
{
	int i;

	mark_keys();
	for (i = 0; i < times; i++) {
		/* "deep" is suspending to RAM; others leave the CPU on. */
		if (!put(MEM_SLEEP, "deep") || !put(ALARM, "0") ||
		    !put(ALARM, SLEEP_S) || !put(STATE, "mem"))
			return 1;
	}
	printf("@power: resumed=%d\n", times);
	return !keys_kept();
}

static int hibernate(const char *disk)
{
	if (!swap_on(disk, 0)) {
		fprintf(stderr, "power: %s: %s\n", disk, strerror(errno));
		return 1;
	}
	announce("hibernating");
	mark_keys();
	if (!put(HOW_TO_END, "shutdown") || !put(STATE, "disk"))
		return 1;
	printf("@power: hibernated\n");
	return !keys_kept();
}

static int start_kernel(const char *kernel, const char *args)
{
	int fd = open(kernel, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_kexec_file_load, fd, -1, strlen(args) + 1,
			      args, KEXEC_FILE_NO_INITRAMFS)) {
		fprintf(stderr, "power: %s: %s\n", kernel, strerror(errno));
		return 1;
	}
	announce("kexec");
	reboot(REBOOT_KEXEC);
	perror("power: reboot");
	return 1;
}

int main(int argc, char *argv[])
{
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "suspend"))
		return suspend(argc == 3 ? atoi(argv[2]) : 1);
	if (argc == 3 && !strcmp(argv[1], "hibernate"))
		return hibernate(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "kexec"))
		return start_kernel(argv[2], argv[3]);
	fprintf(stderr, "usage: power suspend [TIMES] | hibernate DISK | kexec KERNEL ARGS\n");
	return 2;
}
