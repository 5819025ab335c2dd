/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Keys that memory is encrypted with. See Documentation/userspace-api/mktme.rst.
 */
#ifndef _UAPI_ASM_X86_MKTME_H
#define _UAPI_ASM_X86_MKTME_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Algorithms, of which a CPU may have only some. */
#define MKTME_AES_XTS_128	1
#define MKTME_AES_XTS_256	4

/**
 * struct mktme_key_args - what mktme_key_create() makes.
 * @flags: must be 0.
 * @algorithm: MKTME_AES_XTS_128, MKTME_AES_XTS_256, or 0 for the first that
 *	the CPU has.
 * @key: address of the key, data key first and tweak key behind it; or 0, and
 *	the CPU makes one that nobody knows.
 * @key_size: its bytes, 32 or 64 as the algorithm wants, or 0 without a key.
 * @reserved: must be 0.
 */
struct mktme_key_args {
	__u32 flags;
	__u32 algorithm;
	__aligned_u64 key;
	__u32 key_size;
	__u32 reserved;
};

#define MKTME_KEY_ARGS_SIZE_VER0	24

/* No memory is accessed with the key from now on: SIGBUS, for good. */
#define MKTME_KEY_REVOKE	_IO('K', 0x40)

#endif /* _UAPI_ASM_X86_MKTME_H */
