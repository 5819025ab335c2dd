// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kmsg.h"

bool kmsg(const char *format, ...)
{
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC), length;
	va_list args;
	char *line;
	bool told;

	if (fd < 0)
		return false;
	va_start(args, format);
	length = vasprintf(&line, format, args);
	va_end(args);
	/* In one write, which is one line of the log. */
	told = length >= 0 && write(fd, line, length) == length;
	if (length >= 0)
		free(line);
	close(fd);
	return told;
}
