// SPDX-License-Identifier: GPL-2.0-only
/* Write a word into a file, one of sysfs for example: put FILE WORD. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
	ssize_t size;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: put FILE WORD\n");
		return 2;
	}
	size = strlen(argv[2]);
	fd = open(argv[1], O_WRONLY);
	if (fd < 0 || write(fd, argv[2], size) != size) {
		fprintf(stderr, "put: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
