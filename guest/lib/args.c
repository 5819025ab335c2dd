// SPDX-License-Identifier: GPL-2.0-only
/* Argument vectors kept in files. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"

/*
 * Read one argument per line. Returns a NULL-terminated vector, or NULL with
 * errno set; a file without any line is EINVAL.
 */
char **read_args(const char *path)
{
	char **args = NULL, *line = NULL;
	size_t n = 0, size = 0;
	FILE *file = fopen(path, "re");
	ssize_t length;

	if (!file)
		return NULL;
	while ((length = getline(&line, &size, file)) >= 0) {
		if (length && line[length - 1] == '\n')
			line[length - 1] = '\0';
		args = reallocarray(args, n + 2, sizeof(*args));
		if (!args)
			return NULL;
		args[n++] = line;
		args[n] = NULL;
		line = NULL;
		size = 0;
	}
	free(line);
	fclose(file);
	if (!args)
		errno = EINVAL;
	return args;
}
