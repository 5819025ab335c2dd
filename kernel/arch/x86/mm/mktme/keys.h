/* SPDX-License-Identifier: GPL-2.0-only */
/* Keys and their KeyIDs. Private to arch/x86/mm/mktme. */
#ifndef __X86_MM_MKTME_KEYS_H
#define __X86_MM_MKTME_KEYS_H

#include <linux/types.h>

#define MKTME_KEY_MAX_BYTES	32

/**
 * struct mktme_key_spec - key to program for a KeyID.
 * @algorithm: MKTME_AES_XTS_128 or MKTME_AES_XTS_256.
 * @random: let the CPU generate the key, and ignore the following.
 * @data_key: key for data.
 * @tweak_key: key for addresses.
 */
struct mktme_key_spec {
	u32 algorithm;
	bool random;
	u8 data_key[MKTME_KEY_MAX_BYTES];
	u8 tweak_key[MKTME_KEY_MAX_BYTES];
};

struct mktme_key;

/* === keys.c: KeyIDs and their users ===================================== */

struct mktme_key *mktme_key_new(const struct mktme_key_spec *spec);
void mktme_key_put(struct mktme_key *key);
unsigned int mktme_key_keyid(const struct mktme_key *key);
u32 mktme_key_algorithm(const struct mktme_key *key);
bool mktme_key_revoked(const struct mktme_key *key);
void mktme_key_forbid(struct mktme_key *key);
bool mktme_key_in_memory(struct mktme_key *key);

/* === program.c: programming of keys ===================================== */

u32 mktme_algorithm(u32 wanted);
int mktme_program(unsigned int keyid, const struct mktme_key_spec *spec);
void mktme_forget(unsigned int keyid);

/* === revoke.c =========================================================== */

int mktme_key_revoke(struct mktme_key *key);

#endif /* __X86_MM_MKTME_KEYS_H */
