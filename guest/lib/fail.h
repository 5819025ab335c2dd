/* SPDX-License-Identifier: GPL-2.0-only */
/* How a program ends that cannot go on. */
#ifndef GUEST_FAIL_H
#define GUEST_FAIL_H

#include <stdnoreturn.h>

/* Tells its name, this, and errno, and ends without flushing what a parent has. */
noreturn __attribute__((format(printf, 1, 2)))
void fail(const char *format, ...);

#endif /* GUEST_FAIL_H */
