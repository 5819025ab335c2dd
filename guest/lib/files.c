// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t size = strlen(text);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, size) == size;
	close(fd);
	return ok;
}

bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	if (n < 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

u64 number_in(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	char line[128], first[64];
	u64 value, found = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %llu", first, &value) == 2 &&
		    !strcmp(first, word))
			found = value;
	fclose(file);
	return found;
}
