/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keys that memory is encrypted with, for programs: the system calls, which no
 * C library has. See Documentation/userspace-api/mktme.rst.
 */
#ifndef SAMPLES_MKTME_H
#define SAMPLES_MKTME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <asm/mktme.h>

#ifndef __NR_mktme_key_create
#define __NR_mktme_key_create	548
#define __NR_mktme_mprotect	549
#endif

/* A descriptor of a key, or -1 with the reason in errno. */
static inline int mktme_key_create(const struct mktme_key_args *args, size_t size)
{
	return syscall(__NR_mktme_key_create, args, size);
}

/* The same for one that the CPU makes, and that nobody knows. */
static inline int mktme_random_key(void)
{
	const struct mktme_key_args args = { .flags = 0 };

	return mktme_key_create(&args, sizeof(args));
}

/* mprotect() of memory that has not been used yet, and is under the key then. */
static inline int mktme_mprotect(void *addr, size_t len, int prot, int key)
{
	return syscall(__NR_mktme_mprotect, addr, len, (unsigned long)prot, key);
}

/* No process has memory under the key any more. */
static inline int mktme_key_revoke(int key)
{
	return ioctl(key, MKTME_KEY_REVOKE);
}

#endif /* SAMPLES_MKTME_H */
