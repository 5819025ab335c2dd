/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GUEST_SWAP_H
#define GUEST_SWAP_H

#include <stdbool.h>

/* The disk in memory that the guest has for it. */
#define SWAP_DISK	"/dev/ram0"

/*
 * Makes a disk a swap area and switches it on, with the flags of swapon().
 * False, with errno, if not.
 */
bool swap_on(const char *disk, int flags);

#endif /* GUEST_SWAP_H */
