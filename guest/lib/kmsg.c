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
	char *line, *text;
	va_list args;
	bool told;

	if (fd < 0)
		return false;
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length >= 0) {
		/* As critical, for boots that show little else. */
		length = asprintf(&line, "<2>%s", text);
		free(text);
	}
	/* In one write, which is one line of the log. */
	told = length >= 0 && write(fd, line, length) == length;
	if (length >= 0)
		free(line);
	close(fd);
	return told;
}
