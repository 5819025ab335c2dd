/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GUEST_KMSG_H
#define GUEST_KMSG_H

#include <stdbool.h>

/*
 * A line of the kernel's log, and so on the console, which the kernel does not
 * write into. False, with errno, if it cannot be told.
 */
__attribute__((format(printf, 1, 2)))
bool kmsg(const char *format, ...);

#endif /* GUEST_KMSG_H */
