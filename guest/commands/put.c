// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write a word into a file, one of sysfs for example: put FILE WORD. Then wait
 * for what that begins, until another file has a text: put FILE WORD FILE TEXT.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "files.h"

/* Emulated machines may be slow, and share their CPUs. */
#define WAIT_S		240
#define LOOKS_PER_S	10

static int wait_for(const char *path, const char *wanted)
{
	const struct timespec pause = { .tv_nsec = 1000000000 / LOOKS_PER_S };
	char text[64];
	int i;

	for (i = 0; i < WAIT_S * LOOKS_PER_S; i++) {
		if (!read_text(path, text, sizeof(text))) {
			fprintf(stderr, "put: %s: %s\n", path, strerror(errno));
			return 1;
		}
		if (!strcmp(text, wanted))
			return 0;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "put: %s: '%s' after %d s\n", path, text, WAIT_S);
	return 1;
}

int main(int argc, char *argv[])
{
	if (argc != 3 && argc != 5) {
		fprintf(stderr, "usage: put FILE WORD [FILE TEXT]\n");
		return 2;
	}
	if (!write_text(argv[1], argv[2])) {
		fprintf(stderr, "put: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return argc == 5 ? wait_for(argv[3], argv[4]) : 0;
}
