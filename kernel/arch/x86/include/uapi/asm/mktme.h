/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* Memory encryption keys. See Documentation/userspace-api/mktme.rst. */
#ifndef _UAPI_ASM_X86_MKTME_H
#define _UAPI_ASM_X86_MKTME_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Algorithms; a CPU may lack some. */
#define MKTME_AES_XTS_128	1
#define MKTME_AES_XTS_256	4

/**
 * struct mktme_key_args - arguments of mktme_key_create().
 * @flags: must be 0.
 * @algorithm: MKTME_AES_XTS_128, MKTME_AES_XTS_256, or 0 for the first that the
 *	CPU supports.
 * @key: address of the key, data key followed by tweak key; or 0 for a random
 *	key that the CPU generates and never reveals.
 * @key_size: size of the key in bytes, 32 or 64 depending on @algorithm, or 0
 *	without a key.
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

/* Revoke the key for good: access to its memory raises SIGBUS. */
#define MKTME_KEY_REVOKE	_IO('K', 0x40)

#endif /* _UAPI_ASM_X86_MKTME_H */
