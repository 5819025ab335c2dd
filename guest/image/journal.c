// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"

static bool write_all(int fd, const char *text, size_t size)
{
	ssize_t n;

	for (; size; text += n, size -= n) {
		n = write(fd, text, size);
		if (n < 0)
			return false;
	}
	return true;
}

/* Does a file end in the middle of a line, as after a power failure? */
static bool torn(int fd)
{
	char last = '\n';
	off_t size = lseek(fd, 0, SEEK_END);

	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

bool journal_add(const char *path, const char *line)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	bool good;

	if (fd < 0)
		return false;
	good = (!torn(fd) || write_all(fd, "\n", 1)) &&
	       write_all(fd, line, strlen(line)) && write_all(fd, "\n", 1) &&
	       !fsync(fd);
	return !close(fd) && good;
}

/* The next line without its end, if it is whole; -1 at the end of the file. */
static ssize_t next_line(FILE *file, char **line, size_t *size)
{
	ssize_t length;

	while ((length = getline(line, size, file)) > 0) {
		if ((*line)[length - 1] == '\n')
			(*line)[--length] = '\0';
		if (length > 1 && (*line)[0] == '{' && (*line)[length - 1] == '}')
			return length;
	}
	return -1;
}

void journal_read(const char *path, void (*seen)(const char *step, const char *event))
{
	char *line = NULL, step[128], event[16];
	FILE *file = fopen(path, "re");
	size_t size = 0;

	if (!file)
		return;
	while (next_line(file, &line, &size) >= 0)
		if (sscanf(line, "{\"step\": \"%127[^\"]\", \"event\": \"%15[^\"]\"",
			   step, event) == 2)
			seen(step, event);
	free(line);
	fclose(file);
}

bool journal_publish(const char *path, const char *to)
{
	FILE *in = fopen(path, "re"), *out = fopen(to, "we");
	const char *before = "";
	char *line = NULL;
	size_t size = 0;
	bool good = in && out;

	if (good)
		fputs("{\"journal\": [", out);
	while (good && next_line(in, &line, &size) >= 0) {
		good = fprintf(out, "%s\n%s", before, line) > 0;
		before = ",";
	}
	if (good)
		good = fputs("\n]}\n", out) >= 0 && !fflush(out) && !fsync(fileno(out));
	free(line);
	if (in)
		fclose(in);
	if (out && fclose(out))
		good = false;
	return good;
}

void json_string(FILE *out, const char *text, size_t size)
{
	size_t i;

	fputc('"', out);
	for (i = 0; i < size; i++) {
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

void json_lines(FILE *out, const char *text, size_t size)
{
	const char *end = text + size, *stop;
	const char *before = "";

	fputc('[', out);
	for (; text < end; text = stop + 1) {
		stop = memchr(text, '\n', end - text);
		if (!stop)
			stop = end;
		fputs(before, out);
		json_string(out, text, stop - text);
		before = ", ";
	}
	fputc(']', out);
}
