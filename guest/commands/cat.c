// SPDX-License-Identifier: GPL-2.0-only
/* Copy files to standard output, for guests that have nothing else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int copy(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[65536], *from;
	ssize_t n = -1, done;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		for (from = buf; n > 0; from += done, n -= done) {
			done = write(STDOUT_FILENO, from, n);
			if (done < 0)
				break;
		}
		if (n) {
			n = -1;
			break;
		}
	}
	if (n < 0)
		fprintf(stderr, "cat: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return n < 0;
}

int main(int argc, char **argv)
{
	int i, failed = 0;

	for (i = 1; i < argc; i++)
		failed |= copy(argv[i]);
	return failed;
}
