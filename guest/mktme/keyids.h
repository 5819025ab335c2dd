/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GUEST_KEYIDS_H
#define GUEST_KEYIDS_H

#include <stddef.h>

#include "compiler.h"

/* Keeps memory of this process under a KeyID. -1, with errno, if it cannot. */
int encrypt(void *at, size_t size, unsigned int keyid);

/* A kernel counter of memory under KeyIDs; 0 if there is no such name. */
u64 counted(const char *name);

#endif /* GUEST_KEYIDS_H */
