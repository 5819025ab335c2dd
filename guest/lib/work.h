/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations of programs, to have something counted. */
#ifndef GUEST_WORK_H
#define GUEST_WORK_H

#include <stddef.h>

#define PAGE		4096
#define BUILD		"/bin/buildlike"

/* Writes to each page. */
void touch(volatile char *at, size_t size);

/* Private anonymous memory of small pages, or of huge ones where they fit. */
char *map_small(size_t size);
char *map_huge(size_t size);

/* So many bytes of small pages, each by a fault of its own. */
char *faulted_in(size_t size);

/* Fork a child that writes to memory of its parent, which copies it. */
void copy_on_write(size_t size);

/* A program with a number as its argument, which has to succeed. */
void run_program(const char *path, unsigned int number);

#endif /* GUEST_WORK_H */
