/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory encryption keys for programs: the system calls, which C libraries
 * lack. See Documentation/userspace-api/mktme.rst.
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

/* Create a key; returns a descriptor, or -1 with errno set. */
static inline int mktme_key_create(const struct mktme_key_args *args, size_t size)
{
	return syscall(__NR_mktme_key_create, args, size);
}

/* Create a key that the CPU generates and never reveals. */
static inline int mktme_random_key(void)
{
	const struct mktme_key_args args = { .flags = 0 };

	return mktme_key_create(&args, sizeof(args));
}

/* mprotect(), and encrypt memory that has not been used yet. */
static inline int mktme_mprotect(void *addr, size_t len, int prot, int key)
{
	return syscall(__NR_mktme_mprotect, addr, len, (unsigned long)prot, key);
}

/* Revoke a key: all processes lose their memory under it. */
static inline int mktme_key_revoke(int key)
{
	return ioctl(key, MKTME_KEY_REVOKE);
}

#endif /* SAMPLES_MKTME_H */
