/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Variables that are written rarely, and decide who is privileged.
 *
 * A path that the kernel runs as root, or the switch of a security module, is
 * as good as page tables to whoever can write anywhere. Marked __kpkeys_state,
 * a variable is read-only at the default level as soon as keys are in use, and
 * is written with the functions below. See Documentation/security/kpkeys-state.rst.
 */
#ifndef _LINUX_KPKEYS_STATE_H
#define _LINUX_KPKEYS_STATE_H

#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>

#ifdef CONFIG_KPKEYS_HARDENED_STATE

/* Not in modules, whose memory has no such section. */
#define __kpkeys_state		__section(".data..kpkeys_state")

/* For what is __read_mostly otherwise. */
#define __read_mostly_state	__kpkeys_state

extern char __kpkeys_state_start[], __kpkeys_state_end[];

/**
 * kpkeys_is_state() - Does memory lie in variables with __kpkeys_state?
 * @start: its start.
 * @size: its size in bytes.
 *
 * Return: true if all of it does.
 */
static inline bool kpkeys_is_state(const void *start, size_t size)
{
	unsigned long offset = (const char *)start - __kpkeys_state_start;
	unsigned long total = __kpkeys_state_end - __kpkeys_state_start;

	return offset < total && size <= total - offset;
}

void kpkeys_state_copy(void *dst, const void *src, size_t size);
void kpkeys_state_copy_by_root(void *dst, const void *src, size_t size);

/**
 * kpkeys_state_write() - Write a variable that may have __kpkeys_state.
 * @_ptr: pointer to the variable, or to a part of it, of one to eight bytes.
 * @_val: the value.
 *
 * A plain WRITE_ONCE() of others, for code that serves variables of both kinds.
 */
#define kpkeys_state_write(_ptr, _val)					\
	__kpkeys_state_write(_ptr, _val, kpkeys_state_copy)

/**
 * kpkeys_state_write_by_root() - As kpkeys_state_write(), for the global root.
 * @_ptr: as for kpkeys_state_write().
 * @_val: as for kpkeys_state_write().
 *
 * A write to state by another user is refused, and reported as a violation.
 */
#define kpkeys_state_write_by_root(_ptr, _val)				\
	__kpkeys_state_write(_ptr, _val, kpkeys_state_copy_by_root)

/* The same, where others are written by a plain store, as strings are. */
#define kpkeys_state_store_by_root(_ptr, _val)				\
	kpkeys_state_write_by_root(_ptr, _val)

#define __kpkeys_state_write(_ptr, _val, _copy) do {			\
	typeof(_ptr) __ptr = (_ptr);					\
	typeof(*__ptr) __val = (_val);					\
									\
	if (kpkeys_is_state(__ptr, sizeof(__val)))			\
		_copy(__ptr, &__val, sizeof(__val));			\
	else								\
		WRITE_ONCE(*__ptr, __val);				\
} while (0)

#else /* !CONFIG_KPKEYS_HARDENED_STATE */

static inline bool kpkeys_is_state(const void *start, size_t size)
{
	return false;
}

#define __kpkeys_state
#define __read_mostly_state	__read_mostly

#define kpkeys_state_write(_ptr, _val)		WRITE_ONCE(*(_ptr), _val)
#define kpkeys_state_write_by_root(_ptr, _val)	WRITE_ONCE(*(_ptr), _val)
#define kpkeys_state_store_by_root(_ptr, _val)	(*(_ptr) = (_val))
#define kpkeys_state_copy(_dst, _src, _size)	memcpy(_dst, _src, _size)

#endif /* CONFIG_KPKEYS_HARDENED_STATE */

#endif /* _LINUX_KPKEYS_STATE_H */
