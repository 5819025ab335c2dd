/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's words for a few things, for programs that speak with it. */
#ifndef GUEST_COMPILER_H
#define GUEST_COMPILER_H

#include <linux/types.h>
#include <stdnoreturn.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

typedef __u64 u64;

/* Read the CPU's counter that goes at a constant rate. */
static inline u64 cpu_counter(void)
{
#ifdef __aarch64__
	u64 value;

	asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(value) : : "memory");
	return value;
#else
	return __builtin_ia32_rdtsc();
#endif
}

#endif /* GUEST_COMPILER_H */
