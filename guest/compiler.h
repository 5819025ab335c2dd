/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's words for a few things, for programs that speak with it. */
#ifndef GUEST_COMPILER_H
#define GUEST_COMPILER_H

#include <linux/types.h>
#include <stdnoreturn.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

typedef __u64 u64;

#endif /* GUEST_COMPILER_H */
