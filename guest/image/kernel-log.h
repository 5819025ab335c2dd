/* SPDX-License-Identifier: GPL-2.0-only */
/* The messages of the kernel since some point. */
#ifndef GUEST_KERNEL_LOG_H
#define GUEST_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on, or from the first message that is left; -1 with errno. */
int log_open(int from_now);

/* The next message; false if there is none yet. */
bool log_next(int fd, char *text, size_t size);

/* Undo what the kernel does to characters that are no letters, as \x0a, in place. */
void log_text(char *text);

#endif /* GUEST_KERNEL_LOG_H */
