/* SPDX-License-Identifier: GPL-2.0-only */
/* Texts of sysfs and procfs. */
#ifndef GUEST_FILES_H
#define GUEST_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"

/* Both return false with errno set; a text read ends before its newline. */
bool write_text(const char *path, const char *text);
bool read_text(const char *path, char *text, size_t size);

/* The number in the line that begins with this word; 0 if there is none. */
u64 number_in(const char *path, const char *word);

#endif /* GUEST_FILES_H */
