/* SPDX-License-Identifier: GPL-2.0-only */
/* The messages of the kernel since some point. */
#ifndef GUEST_KERNEL_LOG_H
#define GUEST_KERNEL_LOG_H

#include <stdio.h>

/* From here on, or from the first message that is left; -1 with errno. */
int log_open(int from_now);

/* Write the messages since then, a line each, and stop listening. */
void log_take(int fd, FILE *out);

/* Undo what the kernel does to characters that are no letters, as \x0a, in place. */
void log_text(char *text);

#endif /* GUEST_KERNEL_LOG_H */
