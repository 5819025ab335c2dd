/* SPDX-License-Identifier: GPL-2.0-only */
/* POR_EL0, the register of arm64 with what the protection keys permit. */
#ifndef GUEST_POR_H
#define GUEST_POR_H

#include <stdbool.h>
#include <sys/auxv.h>

#include "compiler.h"

#define POR_READ	1
#define POR_EXECUTE	2
#define POR_WRITE	4
/* Permissions of a key; those with another bit are reserved. */
#define POR_FIELD(key, permissions)	((u64)(permissions) << 4 * (key))
/* A process starts with it: everything is permitted for key 0, and nothing for others. */
#define POR_INITIAL	POR_FIELD(0, POR_READ | POR_EXECUTE | POR_WRITE)

#ifdef __aarch64__
/* Older headers lack it. */
#define POR_HWCAP2	(1ul << 63)

static inline bool por_exists(void)
{
	return getauxval(AT_HWCAP2) & POR_HWCAP2;
}

static inline u64 por_read(void)
{
	u64 value;

	asm volatile("mrs %0, s3_3_c10_c2_4" : "=r"(value) : : "memory");
	return value;
}

static inline void por_write(u64 value)
{
	asm volatile("msr s3_3_c10_c2_4, %0\n\tisb" : : "r"(value) : "memory");
}
#else
static inline bool por_exists(void) { return false; }
static inline u64 por_read(void) { return 0; }
static inline void por_write(u64 value) { (void)value; }
#endif

#endif /* GUEST_POR_H */
