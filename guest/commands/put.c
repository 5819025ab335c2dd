// SPDX-License-Identifier: GPL-2.0-only
/* Write a word into a file, one of sysfs for example: put FILE WORD. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "files.h"

int main(int argc, char *argv[])
{
	if (argc != 3) {
		fprintf(stderr, "usage: put FILE WORD\n");
		return 2;
	}
	if (!write_text(argv[1], argv[2])) {
		fprintf(stderr, "put: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
