/* SPDX-License-Identifier: GPL-2.0-only */
/* The journal of all boots: a line of JSON for each thing that happened. */
#ifndef GUEST_JOURNAL_H
#define GUEST_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Add a line to the journal, if there is one; false with errno if it is not on the disk. */
bool journal_add(const char *path, const char *line);

/* Call for each step and event that a line of the journal is about. */
void journal_read(const char *path, void (*seen)(const char *step, const char *event));

/* Make one JSON value of the journal: an object whose "journal" lists its lines. */
bool journal_publish(const char *path, const char *to);

/* A JSON string, and a list of the lines of a text. */
void json_string(FILE *out, const char *text, size_t size);
void json_lines(FILE *out, const char *text, size_t size);

#endif /* GUEST_JOURNAL_H */
